/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Semantics and argument checks of each operation (docs/hardware.md, "Operations"), shared by all devices: the
 * software device runs all descriptors by it, an engine the operations that its hardware lacks.
 *
 * softop.cpp has a table by opcode: a name, a check, a function that runs it. Both access memory and time only
 * through a backend, which a device implements.
 */
#pragma once

#include "driver/copy/copy.h"
#include "driver/dma/request.h"

#pragma GCC visibility push(default)
namespace usdma::dma::softop {

enum class result : u8 {
	done,
	fault,   /* reported by backend::fail() */
	blocked, /* a wait whose condition is false: run the request again later */
	stopped, /* the channel was stopped or disabled meanwhile */
};

/* Access rights of an endpoint, a bit mask. As vfio::dma_read and dma_write. */
enum : u32 { may_read = 1, may_write = 2 };

/* An endpoint of a transfer. Faults of read-only endpoints are src_*, of others dst_*. */
struct end {
	dma::space space;
	u64 addr;
	u32 rights;
};

struct piece {
	u8 *host; /* nullptr: not CPU-accessible; use get_piece() and put_piece() */
	u64 len;
};

/* Rows of a 2-D copy. */
struct rows {
	u64 len;
	u32 count;
	u64 src_pitch, dst_pitch;
};

struct bounds {
	u64 max_len;  /* bytes of a request */
	u64 slice;    /* step() is called at least every so many bytes … */
	u32 max_rows; /* … and every so many rows */
	u64 buffer;   /* bytes of a buffer(): a multiple of 8 */
};

class backend {
public:
	const bounds &limits() const { return bounds_; }

	/* Records the reason; returns result::fault. */
	virtual result fail(fault_reason reason, u64 address) = 0;
	/*
	 * Whether the whole range is accessible with the endpoint's rights; false: fail() was called with the first
	 * bad address.
	 */
	virtual bool check(const end &e, u64 len) = 0;
	/*
	 * Translates the next contiguous bytes, at most len; a multiple of 8 unless the range ends there. False: no
	 * longer mapped, and fail() was called. *out is valid until the next call of the backend.
	 */
	virtual bool translate(const end &e, u64 len, piece *out) = 0;
	/*
	 * Copies a piece that translate() returned. whole: a stop does not interrupt it. Eight aligned bytes are one
	 * access.
	 */
	virtual result get_piece(const end &src, void *buf, u64 len) = 0;
	virtual result put_piece(const end &dst, const void *buf, u64 len, bool whole) = 0;
	/* Bounce buffer 0 or 1; nullptr: no memory. */
	virtual u8 *buffer(unsigned which) = 0;

	/* Copies a checked range; calls step(). */
	virtual result move(end dst, end src, u64 len, cache_hint hint);
	/* At most limits().max_rows rows; calls move() for each by default. */
	virtual result move_rows(end dst, end src, const rows &r, cache_hint hint);

	/* n more bytes are done. last: nothing remains. False: stop here, unless nothing remains. */
	virtual bool step(u64 n, bool last) = 0;
	/* The same for operations that must not be repeated. False: stop here; save_progress() follows. */
	virtual bool step_once(u64 n, bool last)
	{
		step(n, last);
		return true;
	}
	/*
	 * Saves how many bytes of this request are done, which must not be repeated when it is run again;
	 * saved_progress() returns it.
	 */
	virtual void save_progress(u64) {}
	virtual u64 saved_progress() { return 0; }

	/* When a wait's time limit expires, in ns; ~0: never. Counted from the first call for this request. */
	virtual u64 wait_until(u32 limit_ms) = 0;
	/* The condition is false. done: poll again now. */
	virtual result pause(u64 until_ns) = 0;

protected:
	explicit backend(const bounds &b) : bounds_(b) {}
	~backend() = default;

private:
	const bounds &bounds_;
};

/* For messages; nullptr: no such operation. */
const char *name(opcode op);
result run(backend &b, const request &r);

} // namespace usdma::dma::softop
#pragma GCC visibility pop
