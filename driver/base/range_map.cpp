/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/range_map.h"

#include "driver/base/barrier.h"
#include "driver/base/bits.h"

#include <cerrno>
#include <new>

namespace usdma {

static constexpr unsigned level_bits = 9, page_shift = 12, root_shift = 48, address_bits = 57;
static constexpr unsigned fan_out = 1u << level_bits;
/* An insert needs new nodes only on the paths to its first and last page: four below the root each, and the root. */
static constexpr unsigned nodes_per_insert = 9;
/* Attempts of a reader that collides with a writer before it takes the lock. */
static constexpr unsigned patience = 2000;

/*
 * A slot is 0, a node, or (bit 0 set) an entry: the type is in the word itself, so that a late reader never
 * confuses them.
 */
struct alignas(cache_line) range_map::node {
	u64 slot[fan_out] = {};
	unsigned used = 0; /* slots that are not 0 */
	node *next_free = nullptr, *next_all = nullptr;
};

static bool is_entry(u64 word)
{
	return word & 1;
}

static range_entry *entry_of(u64 word)
{
	return reinterpret_cast<range_entry *>(word & ~u64(1));
}

static u64 word_of(const range_entry *e)
{
	return reinterpret_cast<u64>(e) | 1;
}

static unsigned slot_index(u64 addr, unsigned shift)
{
	return unsigned(addr >> shift) & (fan_out - 1);
}

/*
 * Words that readers load are stored with release: a reader that sees a new value also sees the odd sequence
 * number stored before it, and retries.
 */
template <class T> static void publish(T *p, T v)
{
	store_release(p, v);
}

/* The link to the next entry in this page. nullptr: e neither starts nor ends there, so it has the page alone. */
static range_entry **link_in(range_entry *e, u64 base, u64 size, u64 page)
{
	if (base >> page_shift == page)
		return &e->next_first;
	return (base + size - 1) >> page_shift == page ? &e->next_last : nullptr;
}

static range_entry **link_in(range_entry *e, u64 page)
{
	return link_in(e, e->base, e->size, page);
}

/* The part of [at, last] in one slot of a level, and whether it covers the slot. */
struct part {
	u64 stop;
	bool whole;

	part(u64 at, u64 last, unsigned shift)
	{
		const u64 low = bit(shift) - 1, end = at | low;

		stop = end < last ? end : last;
		whole = !(at & low) && stop == end;
	}
};

static bool page_overlaps(range_entry *e, u64 first, u64 last)
{
	const u64 page = first >> page_shift;

	while (e) {
		if (e->base <= last && first <= e->base + e->size - 1)
			return true;
		range_entry **link = link_in(e, page);
		e = link ? *link : nullptr;
	}
	return false;
}

template <class node> static bool overlaps(const node *n, unsigned shift, u64 first, u64 last)
{
	for (u64 at = first; at <= last;) {
		const u64 word = n->slot[slot_index(at, shift)];
		const part p(at, last, shift);

		if (is_entry(word)) {
			if (shift > page_shift || page_overlaps(entry_of(word), at, p.stop))
				return true;
		} else if (word) {
			/* A linked node is never empty. */
			if (p.whole || overlaps(reinterpret_cast<node *>(word), shift - level_bits, at, p.stop))
				return true;
		}
		at = p.stop + 1;
	}
	return false;
}

static range_entry *lowest_in_page(range_entry *e, u64 first, u64 last)
{
	const u64 page = first >> page_shift;
	range_entry *found = nullptr;

	while (e) {
		if (e->base <= last && first <= e->base + e->size - 1 && (!found || e->base < found->base))
			found = e;
		range_entry **link = link_in(e, page);
		e = link ? *link : nullptr;
	}
	return found;
}

template <class node> static range_entry *lowest(const node *n, unsigned shift, u64 first, u64 last)
{
	for (u64 at = first; at <= last;) {
		const u64 word = n->slot[slot_index(at, shift)];
		const part p(at, last, shift);
		range_entry *e = nullptr;

		if (is_entry(word))
			e = shift > page_shift ? entry_of(word) : lowest_in_page(entry_of(word), at, p.stop);
		else if (word)
			e = lowest(reinterpret_cast<node *>(word), shift - level_bits, at, p.stop);
		if (e)
			return e;
		at = p.stop + 1;
	}
	return nullptr;
}

range_map::~range_map()
{
	while (all_) {
		node *n = all_;

		all_ = n->next_all;
		delete n;
	}
}

int range_map::reserve_nodes()
{
	while (spare_ < nodes_per_insert) {
		node *n = new (std::nothrow) node;

		if (!n)
			return -ENOMEM;
		n->next_all = all_;
		all_ = n;
		store_relaxed(&nodes_, nodes_ + 1);
		give_node(n);
	}
	return 0;
}

range_map::node *range_map::take_node()
{
	node *n = free_;

	free_ = n->next_free;
	spare_--;
	return n;
}

void range_map::give_node(node *n)
{
	n->next_free = free_;
	free_ = n;
	spare_++;
}

void range_map::change_begin()
{
	store_relaxed(&seq_, seq_ + 1);
}

void range_map::change_end(size_t count)
{
	store_relaxed(&count_, count);
	/* Release: a reader of the even number sees the whole change. */
	store_release(&seq_, seq_ + 1);
}

static void put_in_slot(u64 *slot, unsigned *used, range_entry *e, u64 page)
{
	range_entry **link = link_in(e, page);

	if (*slot && link)
		publish(link, entry_of(*slot));
	else if (!*slot)
		++*used;
	publish(slot, word_of(e));
}

void range_map::put(node *n, unsigned shift, range_entry *e, u64 first, u64 last)
{
	for (u64 at = first; at <= last;) {
		u64 *slot = &n->slot[slot_index(at, shift)];
		const part p(at, last, shift);

		if (p.whole || shift == page_shift) {
			put_in_slot(slot, &n->used, e, at >> page_shift);
		} else {
			if (!*slot) {
				publish(slot, reinterpret_cast<u64>(take_node()));
				n->used++;
			}
			put(reinterpret_cast<node *>(*slot), shift - level_bits, e, at, p.stop);
		}
		at = p.stop + 1;
	}
}

/* Unlinks e from its page's list; returns the slot's new word. */
static u64 without(u64 word, range_entry *e, u64 page)
{
	range_entry **removed = link_in(e, page);
	range_entry *next = removed ? *removed : nullptr;
	range_entry *before = entry_of(word);

	if (before == e)
		return next ? word_of(next) : 0;
	for (range_entry **link; (link = link_in(before, page)) && *link; before = *link) {
		if (*link == e) {
			publish(link, next);
			break;
		}
	}
	return word;
}

void range_map::take(node *n, unsigned shift, range_entry *e, u64 first, u64 last)
{
	for (u64 at = first; at <= last;) {
		u64 *slot = &n->slot[slot_index(at, shift)];
		const part p(at, last, shift);

		if (is_entry(*slot)) {
			publish(slot, without(*slot, e, at >> page_shift));
		} else {
			node *child = reinterpret_cast<node *>(*slot);

			take(child, shift - level_bits, e, at, p.stop);
			if (!child->used) {
				publish(slot, u64(0));
				give_node(child);
			}
		}
		n->used -= *slot == 0;
		at = p.stop + 1;
	}
}

int range_map::insert(range_entry *e)
{
	const u64 base = e->base, last = e->base + e->size - 1;

	if (!e->size || !range_within(base, e->size, bit(address_bits)))
		return -EINVAL;
	std::lock_guard guard(write_lock_);
	if (root_ && overlaps(root_, root_shift, base, last))
		return -EEXIST;
	if (const int err = reserve_nodes(); err < 0)
		return err;
	change_begin();
	if (!root_)
		publish(&root_, take_node());
	publish(&e->next_first, static_cast<range_entry *>(nullptr));
	publish(&e->next_last, static_cast<range_entry *>(nullptr));
	put(root_, root_shift, e, base, last);
	change_end(count_ + 1);
	return 0;
}

void range_map::remove(range_entry *e)
{
	std::lock_guard guard(write_lock_);
	u64 base, size;

	if (walk(e->base, seq_, &base, &size) != e)
		return;
	change_begin();
	take(root_, root_shift, e, e->base, e->base + e->size - 1);
	change_end(count_ - 1);
}

void range_map::renew()
{
	std::lock_guard guard(write_lock_);

	change_begin();
	change_end(count_);
}

range_entry *range_map::first_in(u64 first, u64 last) const
{
	static constexpr u64 highest = bit(address_bits) - 1;
	std::lock_guard guard(write_lock_);

	if (!root_ || first > highest || first > last)
		return nullptr;
	return lowest(root_, root_shift, first, last < highest ? last : highest);
}

size_t range_map::bytes() const
{
	return load_relaxed(&nodes_) * sizeof(node);
}

/*
 * Looks up the entry at this address. With a concurrent writer the result may be wrong, which the caller
 * detects by seq_; but every pointer followed is valid, and a list that the writer made circular is left after
 * a step.
 */
range_entry *range_map::walk(u64 addr, u64 seq, u64 *base, u64 *size) const
{
	const node *n = load_acquire(&root_);
	unsigned shift = root_shift;
	u64 word = 0;

	/* Acquire on every load: the caller reads the sequence number again after them. */
	for (; n; n = reinterpret_cast<const node *>(word), shift -= level_bits) {
		word = load_acquire(&n->slot[slot_index(addr, shift)]);
		if (is_entry(word) || shift == page_shift)
			break;
	}
	if (!is_entry(word))
		return nullptr;
	for (range_entry *e = entry_of(word);;) {
		*base = load_acquire(&e->base);
		*size = load_acquire(&e->size);
		if (addr - *base < *size)
			return e;
		range_entry **link = link_in(e, *base, *size, addr >> page_shift);
		e = link ? load_acquire(link) : nullptr;
		if (!e || load_relaxed(&seq_) != seq)
			return nullptr;
	}
}

range_entry *range_map::find(u64 addr, u64 *base, u64 *size) const
{
	if (unlikely(addr >> address_bits))
		return nullptr;
	for (unsigned i = 0; likely(i < patience); i++) {
		const u64 seq = load_acquire(&seq_);

		if (likely(!(seq & 1))) {
			range_entry *e = walk(addr, seq, base, size);

			if (likely(load_relaxed(&seq_) == seq))
				return e;
		}
		cpu_relax();
	}
	std::lock_guard guard(write_lock_);
	return walk(addr, seq_, base, size);
}

} // namespace usdma
