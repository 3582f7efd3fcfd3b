/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills of host memory by the CPU, and of a device's memory when it is cleared. */
#include "lib/core/config/race.h"
#include "lib/core/copy/internal.h"

#include <cstring>

namespace usdma::core {

static race_use whole(const void *arg, size_t)
{
	return *static_cast<const race_use *>(arg);
}

int fill_host(void *dst, u64 pattern, unsigned size, u64 len)
{
	const translation p = translate(dst);

	if (const int err = check_writable(p, dst))
		return err;
	if (race_on()) {
		const race_use use = {dst, len, true};

		race().access({.what = "fill by the CPU", .n = 1, .use = whole, .arg = &use});
	}
	return touch_held({p, p}, {dst, len}, {}, [&] {
		if (size == 1)
			memset(dst, int(pattern & 0xff), len);
		for (u64 off = 0; size > 1 && off + size <= len; off += size)
			memcpy(static_cast<u8 *>(dst) + off, &pattern, size);
	});
}

static int zero_by(stream *s, u64 dma, u64 len)
{
	const u64 most = std::min<u64>(align_down<u64>(s->max_len, 8), GiB);
	dma::request r;
	op_numbers numbers;

	r.op = dma::opcode::fill;
	r.spaces = dma::spaces(dma::space::device, dma::space::device);
	r.arg = 1;
	for (u64 at = 0; at < len; at += r.len) {
		r.dst = dma + at;
		r.len = std::min(len - at, most);
		r.cookie = op_cookie(0);
		if (const int err = stream_submit(s, &r, 1, nullptr, &numbers))
			return err;
	}
	return stream_sync(s, deadline::never());
}

int zero_device(device *dev, u64 dma, u64 len)
{
	stream_options opt;
	stream *s;
	int err, end;

	/* A separate stream: a device that is being closed provides no internal ones. */
	opt.internal = true;
	err = stream_create(dev, opt, &s);
	if (err)
		return err;
	err = zero_by(s, dma, len);
	const saved_error why;
	end = stream_destroy(s);
	return err ? why.again(err) : end;
}

} // namespace usdma::core
