/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths of a copy, each by the ACL calls that a program would use. */
#include "driver/base/types.h"
#include "tools/demo/job.h"

#include <algorithm>

namespace usdma::demo {

/* Copies in chunks, on the streams in turn. */
static void spread(job &j, char *dst, const char *src, aclrtMemcpyKind kind)
{
	for (size_t off = 0, n = 0; off < j.len; off += chunk, n++) {
		const size_t part = std::min(chunk, j.len - off);

		MUST(aclrtMemcpyAsync(dst + off, part, src + off, part, kind, j.streams[n % hw_queues]));
	}
	j.sync();
}

static void whole(job &j, char *dst, const char *src, aclrtMemcpyKind kind)
{
	MUST(aclrtMemcpyAsync(dst, j.len, src, j.len, kind, j.streams[0]));
	j.sync();
}

static void one(job &j, void *dst, const void *src, aclrtMemcpyKind kind)
{
	const size_t n = std::min(small, j.len);

	MUST(aclrtMemcpyAsync(dst, n, src, n, kind, j.streams[0]));
	MUST(aclrtSynchronizeStream(j.streams[0]));
}

/* Copies len bytes in at most count pieces of whole cache lines by one call between the host and device 0. */
static void batch(job &j, char *dst, char *src, size_t len, size_t count, bool to_device)
{
	std::vector<void *> dsts, srcs;
	std::vector<size_t> sizes;
	aclrtMemcpyBatchAttr attr = {};
	size_t first = 0, failed = 0;
	const size_t part = usdma::align_up((len + count - 1) / count, usdma::cache_line);

	dsts.reserve(count);
	srcs.reserve(count);
	sizes.reserve(count);
	for (size_t from = 0; from < len; from += part) {
		dsts.push_back(dst + from);
		srcs.push_back(src + from);
		sizes.push_back(std::min(part, len - from));
	}
	attr.dstLoc.type = to_device ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
	attr.srcLoc.type = to_device ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
	MUST(aclrtMemcpyBatchAsync(dsts.data(), sizes.data(), srcs.data(), sizes.data(), sizes.size(), &attr, &first, 1,
				   &failed, j.streams[0]));
	MUST(aclrtSynchronizeStream(j.streams[0]));
}

/* Copies by descriptors in device memory, which the device reads during execution. */
static void described(job &j, size_t part)
{
	size_t n = 0;

	for (size_t off = 0; off < j.len && n < pieces; off += part, n++)
		MUST(aclrtMemcpyAsyncWithDesc(j.descs + n * j.desc_stride, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
					      j.streams[0]));
	MUST(aclrtSynchronizeStream(j.streams[0]));
}

static size_t described_part(const job &j)
{
	return std::max(chunk, (j.len + pieces - 1) / pieces);
}

static void describe(job &j)
{
	const size_t part = described_part(j);

	for (size_t off = 0, n = 0; off < j.len; off += part, n++)
		MUST(aclrtSetMemcpyDesc(j.descs + n * j.desc_stride, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, j.dev_a + off,
					j.dev_b + off, std::min(part, j.len - off), nullptr));
	MUST(aclrtSetMemcpyDesc(j.descs + pieces * j.desc_stride, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, j.dev_a, j.dev_b,
				std::min(small, j.len), nullptr));
}

static void to_peer(job &j)
{
	whole(j, j.peer, j.dev_a, ACL_MEMCPY_DEVICE_TO_DEVICE);
}

static void from_peer(job &j)
{
	MUST(aclrtSetDevice(1));
	MUST(aclrtMemcpyAsync(j.pinned_out, j.len, j.peer, j.len, ACL_MEMCPY_DEVICE_TO_HOST, j.peer_stream));
	MUST(aclrtSynchronizeStream(j.peer_stream));
	MUST(aclrtSetDevice(0));
}

static constexpr auto h2d = ACL_MEMCPY_HOST_TO_DEVICE, d2h = ACL_MEMCPY_DEVICE_TO_HOST,
		      d2d = ACL_MEMCPY_DEVICE_TO_DEVICE;

static const path pinned = {
	"pinned, 1 MiB chunks, 4 streams",
	[](job &j) { spread(j, j.dev_a, j.pinned_in, h2d); },
	[](job &j) { spread(j, j.dev_b, j.dev_a, d2d); },
	[](job &j) { spread(j, j.pinned_out, j.dev_b, d2h); },
	[](job &j) { one(j, j.dev_a, j.pinned_in, h2d); },
	false,
	false,
};

static const path pageable = {
	"pageable",
	[](job &j) { whole(j, j.dev_a, j.plain_in.data(), h2d); },
	[](job &j) { whole(j, j.dev_b, j.dev_a, d2d); },
	[](job &j) { whole(j, j.plain_out.data(), j.dev_b, d2h); },
	[](job &j) { one(j, j.dev_a, j.plain_in.data(), h2d); },
	true,
	false,
};

static const path batched = {
	"one batch of up to 4096 pieces",
	[](job &j) { batch(j, j.dev_a, j.pinned_in, j.len, pieces, true); },
	[](job &j) { whole(j, j.dev_b, j.dev_a, d2d); },
	[](job &j) { batch(j, j.pinned_out, j.dev_b, j.len, pieces, false); },
	[](job &j) { batch(j, j.dev_a, j.pinned_in, std::min(small, j.len), small_items, true); },
	false,
	false,
};

static const path descriptors = {
	"descriptors in device memory",
	[](job &j) {
		whole(j, j.dev_a, j.pinned_in, h2d);
		describe(j);
	},
	[](job &j) { described(j, described_part(j)); },
	[](job &j) { whole(j, j.pinned_out, j.dev_b, d2h); },
	[](job &j) {
		MUST(aclrtMemcpyAsyncWithDesc(j.descs + pieces * j.desc_stride, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
					      j.streams[0]));
		MUST(aclrtSynchronizeStream(j.streams[0]));
	},
	false,
	false,
};

static const path between = {
	"device 0 to device 1",
	[](job &j) { whole(j, j.dev_a, j.pinned_in, h2d); },
	to_peer,
	from_peer,
	[](job &j) { one(j, j.peer, j.dev_a, d2d); },
	false,
	true,
};

const std::vector<path> paths = {pinned, pageable, batched, descriptors, between};

} // namespace usdma::demo
