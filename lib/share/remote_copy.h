/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies and fills of memory of other machines, in pieces, several of which are in flight. Who runs one calls
 * transfer_step() until it is over, and sleeps meanwhile on the helper's rings (helper.h).
 */
#pragma once

#include "driver/base/error.h"
#include "lib/core/copy/copy.h"
#include "lib/share/helper.h"

#include <utility>

namespace usdma::core {

struct physical;

/* Memory of another machine, held while a request uses it. */
class remote_part {
public:
	remote_part() = default;
	remote_part(const remote_part &) = delete;
	remote_part &operator=(const remote_part &) = delete;
	~remote_part() { drop(); }

	void drop();
	/* What is mapped there now. -EFAULT: other memory, or none. */
	int find(const void *at);
	bool found() const { return p_; }
	helper *by() const;
	u64 id() const;
	u64 offset = 0, left = 0;

private:
	physical *p_ = nullptr;
};

/* It is in a slot's memory between its two sides; from one machine to another it comes before it goes. */
enum class piece_step : u8 { comes, goes };

struct remote_piece {
	remote_part dst, src; /* of those sides that are remote */
	int slot = -1;
	u64 item = 0, at = 0, n = 0; /* at: in the item */
	piece_step step = piece_step::comes;
};

inline constexpr unsigned pieces_most = 8;

struct transfer {
	unsigned slot; /* of a device: without it there is no memory here */
	remote_work w;
	deadline until;
	helper *by = nullptr;      /* with a reference: has opened all of the memory */
	u64 item = 0, at = 0;      /* the next piece */
	unsigned first = 0, n = 0; /* of the ring of pieces */
	bool cancelled = false;    /* no more pieces */
	int err = 0;
	u64 failed_item = 0, failed_at = 0; /* of err: where it was */
	saved_error why;
	remote_piece pieces[pieces_most];

	transfer(const device *d, const remote_work &work, deadline end) : slot(d->slot), w(work), until(end) {}
	transfer(const transfer &) = delete;
	transfer &operator=(const transfer &) = delete;
	~transfer() { helper_put(by); }

	remote_piece &nth(unsigned i) { return pieces[(first + i) % pieces_most]; }
	copy_item item_at(u64 i) const;
	void fails(int e, u64 in, u64 offset);
};

/* Finds the helper. */
int transfer_begin(transfer *t);
/* True: something was done. */
bool transfer_step(transfer *t);
bool transfer_is_over(const transfer &t);
/* What is in flight goes on without it; later work on the same memory waits for that. */
void transfer_leave(transfer *t);
/* Until it is over. */
int transfer_run(transfer *t);

/* remote_ops::submit; remote_stream.cpp. */
int remote_submit_work(stream *s, const remote_work &w, op_numbers *numbers);

} // namespace usdma::core
