/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls to measure, through the native API and through ACL: two classes with the same interface. */
#pragma once

#include "usdma/usdma.h"

#if USDMA_PERF_ACL
#include "acl/acl.h"
#endif

#include "tools/perf/job.h"

#include <fmt/core.h>
#include <stdexcept>
#include <vector>

namespace usdma::perf {

/* Throws the library's error text if a call fails. */
inline void must(int err, const char *what)
{
	if (err < 0)
		throw std::runtime_error(fmt::format("{}: {} (error {})", what, usdma_error_text(), -err));
}

struct native_api {
	using stream = usdma_stream *;
	using event = usdma_event *;
	static constexpr bool has_desc = false;

	explicit native_api(usdma_device *d) : dev(d) {}

	/* The arguments of a batch; built before the clock starts. */
	struct batch {
		std::vector<usdma_copy_item> items;

		void add(void *dst, const void *src, size_t len, copy_kind) { items.push_back({dst, src, len}); }
	};

	stream open(wait mode)
	{
		usdma_stream_options o = {sizeof(o), uint32_t(mode), 0, 0};
		stream s;

		must(usdma_stream_create(dev, &o, &s), "stream");
		return s;
	}
	void close(stream s) { usdma_stream_destroy(s); }
	event mark()
	{
		event e;

		must(usdma_event_create(dev, 0, &e), "event");
		return e;
	}
	void unmark(event e) { usdma_event_destroy(e); }
	int record(event e, stream s) { return usdma_event_record(e, s); }
	int wait_for(event e) { return usdma_event_sync(e, -1); }
	/* 1: ended, successfully or not; 0: not yet; negative: an error */
	int reached(event e) { return usdma_event_query(e); }
	int sync(stream s) { return usdma_stream_sync(s, -1); }

	int copy(stream s, void *dst, const void *src, size_t len, copy_kind kind)
	{
		return kind == copy_kind::sync ? usdma_copy_sync(dev, dst, src, len, -1) : usdma_copy(s, dst, src, len);
	}
	int rect(stream s, void *dst, const void *src, size_t width, size_t rows, size_t pitch, copy_kind)
	{
		const usdma_copy_rect r = {dst, pitch, src, pitch, width, rows};

		return usdma_copy_2d(s, &r);
	}
	int many(stream s, const batch &b) { return usdma_copy_batch(s, b.items.data(), b.items.size(), nullptr); }
	int prepare_desc(void *, void *, const void *, size_t) { return -1; }
	int run_desc(stream, void *) { return -1; }

	usdma_device *dev;
};

#if USDMA_PERF_ACL

inline aclrtMemcpyKind kind_of(copy_kind kind)
{
	return kind == copy_kind::d2h || kind == copy_kind::page_d2h ? ACL_MEMCPY_DEVICE_TO_HOST :
	       kind == copy_kind::d2d                                ? ACL_MEMCPY_DEVICE_TO_DEVICE :
								       ACL_MEMCPY_HOST_TO_DEVICE;
}

struct acl_api {
	using stream = aclrtStream;
	using event = aclrtEvent;
	static constexpr bool has_desc = true;

	/* Sets the device of the calling thread. */
	explicit acl_api(int index) : device(index) { need(aclrtSetDevice(index), "aclrtSetDevice"); }
	~acl_api() { aclrtResetDevice(device); }
	acl_api(const acl_api &) = delete;

	struct batch {
		std::vector<void *> dst, src;
		std::vector<size_t> max, len;
		aclrtMemcpyBatchAttr attr = {};
		size_t first = 0;

		void add(void *d, const void *s, size_t n, copy_kind kind)
		{
			const aclrtMemLocation host = {0, ACL_MEM_LOCATION_TYPE_HOST},
					       dev = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
			const bool in = kind_of(kind) == ACL_MEMCPY_HOST_TO_DEVICE;

			attr.dstLoc = in ? dev : host;
			attr.srcLoc = in ? host : dev;
			dst.push_back(d);
			src.push_back(const_cast<void *>(s));
			max.push_back(n);
			len.push_back(n);
		}
	};

	static void need(aclError err, const char *what)
	{
		const char *text = err ? aclGetRecentErrMsg() : nullptr;

		if (err)
			throw std::runtime_error(fmt::format("{}: error {}: {}", what, err, text ? text : ""));
	}
	stream open(wait)
	{
		stream s;

		need(aclrtCreateStream(&s), "aclrtCreateStream");
		return s;
	}
	void close(stream s) { aclrtDestroyStream(s); }
	event mark()
	{
		event e;

		need(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC), "aclrtCreateEventWithFlag");
		return e;
	}
	void unmark(event e) { aclrtDestroyEvent(e); }
	int record(event e, stream s) { return -aclrtRecordEvent(e, s); }
	int wait_for(event e) { return -aclrtSynchronizeEvent(e); }
	int reached(event e)
	{
		aclrtEventRecordedStatus status;
		const aclError err = aclrtQueryEventStatus(e, &status);

		return err ? -err : status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
	}
	int sync(stream s) { return -aclrtSynchronizeStream(s); }

	int copy(stream s, void *dst, const void *src, size_t len, copy_kind kind)
	{
		return kind == copy_kind::sync ? -aclrtMemcpy(dst, len, src, len, kind_of(kind)) :
						 -aclrtMemcpyAsync(dst, len, src, len, kind_of(kind), s);
	}
	int rect(stream s, void *dst, const void *src, size_t width, size_t rows, size_t pitch, copy_kind kind)
	{
		return -aclrtMemcpy2dAsync(dst, pitch, src, pitch, width, rows, kind_of(kind), s);
	}
	int many(stream s, batch &b)
	{
		size_t wrong;

		return -aclrtMemcpyBatchAsync(b.dst.data(), b.max.data(), b.src.data(), b.len.data(), b.len.size(),
					      &b.attr, &b.first, 1, &wrong, s);
	}
	int prepare_desc(void *desc, void *dst, const void *src, size_t len)
	{
		return -aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, const_cast<void *>(src), dst, len,
					   nullptr);
	}
	int run_desc(stream s, void *desc)
	{
		return -aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, s);
	}

	int device;
};

#endif

} // namespace usdma::perf
