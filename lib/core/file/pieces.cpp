/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging memory of file operations: a block for the devices that are not isolated, and one for each isolated device.
 * A block stays until it was not used for a while, or a device that could access it was lost.
 */
#include "lib/core/file/internal.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/memory/memory.h"
#include "lib/core/queue/recover.h"
#include "lib/core/stream/guard.h"

#include <algorithm>
#include <new>

namespace usdma::core {

struct piece_block {
	void *mem = nullptr; /* of host_alloc() */
	u32 made = 0;        /* its host_generation() */
	int index = -1;      /* in the ring's table */
	bool retired = false;
	unsigned n_free = pieces_per_block;
	unsigned ahead = 0; /* held by reads that their streams have not reached */
	piece *free = nullptr;
	piece pieces[pieces_per_block];
};

/* So that reads ahead of streams that wait do not stop the others. */
static constexpr unsigned most_ahead = pieces_per_block / 2;
static piece_block *blocks[1 + max_devices];

static void block_free(piece_block *b)
{
	disk_unregister(b->index);
	host_free(b->mem);
	delete b;
}

static void block_retire(piece_block *b)
{
	b->retired = true;
	if (b->n_free == pieces_per_block)
		block_free(b);
}

static int block_new(const device *dev, piece_block **out)
{
	auto *b = new (std::nothrow) piece_block;

	if (!b)
		return no_memory("staging memory for a file");
	b->made = host_generation(dev->host_reach);
	if (const int err = host_alloc(pieces_per_block * piece_size, -1, &b->mem, dev)) {
		delete b;
		return fail_in(err, "staging memory for a file");
	}
	auto *at = static_cast<u8 *>(b->mem);
	b->index = disk_register(at, pieces_per_block * piece_size);
	for (piece &p : b->pieces) {
		p.block = b;
		p.mem = at;
		at += piece_size;
		p.next = b->free;
		b->free = &p;
	}
	*out = b;
	return 0;
}

static int block_of(const operation *op, piece_block **out)
{
	const unsigned slot = op->r.f->slot;
	const slot_guard dev(slot);

	if (!dev)
		return file_fail_closed(op);
	/* First: after a loss is detected no memory that the lost device can access may be used. */
	devices_note_loss();
	piece_block *&b = blocks[dev->isolated() ? 1 + slot : 0];
	if (b && b->made != host_generation(dev->host_reach)) {
		block_retire(b);
		b = nullptr;
	}
	const int err = b ? 0 : block_new(dev.get(), &b);
	*out = b;
	return err;
}

/* A group takes at most half of what is free, so that the next one finds some. */
piece *piece_take(operation *op, int *err)
{
	file_group *g = op->g;
	const bool ahead = !g->entered;
	piece_block *b = nullptr;

	*err = block_of(op, &b);
	if (*err || !b->free || g->held >= std::max(1u, (g->held + b->n_free) / 2) || (ahead && b->ahead >= most_ahead))
		return nullptr;
	piece *p = b->free;
	b->free = p->next;
	b->n_free--;
	b->ahead += ahead;
	g->held++;
	p->op = op;
	p->next = nullptr;
	p->carried = 0;
	p->done = 0;
	p->err = 0;
	return p;
}

void piece_put(piece *p)
{
	piece_block *b = p->block;

	b->ahead -= !p->op->g->entered;
	p->op->g->held--;
	p->op = nullptr;
	p->next = b->free;
	b->free = p;
	b->n_free++;
	if (b->retired && b->n_free == pieces_per_block)
		block_free(b);
}

void pieces_reached(const operation *op)
{
	for (piece *p = op->first; p; p = p->next)
		p->block->ahead--;
}

bool pieces_trim()
{
	bool left = false;

	for (piece_block *&b : blocks) {
		if (b && b->n_free == pieces_per_block) {
			block_free(b);
			b = nullptr;
		}
		left |= b != nullptr;
	}
	return left;
}

int piece_index(const piece *p)
{
	return p->block ? p->block->index : -1;
}

} // namespace usdma::core
