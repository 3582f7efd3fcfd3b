/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each operation does, and the checks of its arguments (docs/hardware.md, "Operations"), once for all
 * devices: the software device runs all descriptors by it, an engine the operations that its hardware lacks.
 *
 * softop.cpp has a table by opcode: a name, a check, a function that runs it.  Both see memory and time only
 * through a backend, which a device implements.
 */
#pragma once

#include "driver/copy/copy.h"
#include "driver/dma/request.h"

namespace usdma::dma::softop {

enum class result : u8 {
	done,
	fault,   /* the backend was given the reason */
	blocked, /* a wait that does not hold yet: run the request again later */
	gone,    /* the channel was stopped or switched off meanwhile */
};

/* Of an end, by bits: what is done with it.  As vfio::dma_read and dma_write. */
enum : u32 { may_read = 1, may_write = 2 };

/* One end of a transfer.  Faults of one that is only read are src_*, of any other dst_*. */
struct end {
	dma::space space;
	u64 addr;
	u32 rights;
};

struct piece {
	u8 *host; /* nullptr: the CPU does not touch it, get_piece() and put_piece() move it */
	u64 len;
};

/* Rows of a 2-D copy. */
struct rows {
	u64 len;
	u32 count;
	u64 src_pitch, dst_pitch;
};

struct bounds {
	u64 max_len;  /* of one request, in bytes */
	u64 slice;    /* step() is called after so many bytes at the latest, … */
	u32 max_rows; /* … and after so many rows */
	u64 buffer;   /* bytes of a buffer(): a multiple of 8 */
};

class backend {
public:
	const bounds &limits() const { return bounds_; }

	/* Notes the reason; returns result::fault. */
	virtual result fail(fault_reason reason, u64 address) = 0;
	/*
	 * All of the range can be reached with the end's rights; else false, and fail() has the first address
	 * that is wrong.
	 */
	virtual bool check(const end &e, u64 len) = 0;
	/*
	 * The next bytes, at most len, as far as they lie in one piece; a multiple of 8 unless the range ends there.
	 * False: they are no longer there, and fail() has it.  What it finds holds until the backend is called again.
	 */
	virtual bool locate(const end &e, u64 len, piece *out) = 0;
	/* A piece that locate() found.  whole: a stop ends it not at all.  Eight aligned bytes are one access. */
	virtual result get_piece(const end &src, void *buf, u64 len) = 0;
	virtual result put_piece(const end &dst, const void *buf, u64 len, bool whole) = 0;
	/* Two of them, 0 and 1; nullptr: there is no memory. */
	virtual u8 *buffer(unsigned which) = 0;

	/* A checked copy; calls step(). */
	virtual result move(end dst, end src, u64 len, cache_hint hint);
	/* At most limits().max_rows rows; each by move() where a device has nothing better. */
	virtual result move_rows(end dst, end src, const rows &r, cache_hint hint);

	/* n more bytes are done.  last: nothing is left.  False: leave off, unless nothing is left. */
	virtual bool step(u64 n, bool last) = 0;
	/* The same for what must not be done twice.  False: leave off; keep() comes next. */
	virtual bool step_once(u64 n, bool last)
	{
		step(n, last);
		return true;
	}
	/* The first bytes of this request are done and must not be done again when it is: kept() says so then. */
	virtual void keep(u64) {}
	virtual u64 kept() { return 0; }

	/* When the limit of a wait passes, in ns; ~0: never.  Counted from the first call for this request. */
	virtual u64 wait_until(u32 limit_ms) = 0;
	/* The word does not compare.  done: look again now. */
	virtual result pause(u64 until_ns) = 0;

protected:
	explicit backend(const bounds &b) : bounds_(b) {}
	~backend() = default;

private:
	const bounds &bounds_;
};

/* For people; nullptr: there is no such operation. */
const char *name(opcode op);
result run(backend &b, const request &r);

} // namespace usdma::dma::softop
