/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/exports.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace usdma::net {

static constexpr u64 no_word = ~u64(0);

/* ---- what the program exports -------------------------------------------------------------------------- */

exports::memory::~memory()
{
	if (pages)
		munmap(pages, mapped_size);
}

/* Huge pages are mapped as a whole. */
int exports::memory::map()
{
	struct stat st;

	if (mapped)
		return 0;
	if (fstat(fd.get(), &st))
		return fail_errno("exported memory");
	const u64 page = std::max<u64>(u64(st.st_blksize), u64(sysconf(_SC_PAGESIZE)));
	const u64 first = align_down(offset, page);
	mapped_size = align_up(offset + size, page) - first;
	void *const p = mmap(nullptr, mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), off_t(first));
	if (p == MAP_FAILED)
		return fail_errno("mapping exported memory");
	pages = static_cast<u8 *>(p);
	mapped = pages + (offset - first);
	return 0;
}

static int check_file(const unique_fd &fd, u64 offset, u64 size)
{
	const int seals = fcntl(fd.get(), F_GET_SEALS);
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd.get(), &st))
		return fail(EINVAL, "exported memory is no file that stays as long as it is");
	return size && offset % sizeof(u64) == 0 && range_within(offset, size, u64(st.st_size)) ?
		       0 :
		       fail(EINVAL, "exported memory does not fit its file");
}

int exports::add(bytes key, unique_fd fd, u64 offset, u64 size, bool open, u64 *number)
{
	if (!open)
		fd.reset();
	else if (const int err = check_file(fd, offset, size))
		return err;
	remove(key);
	all_.push_back(std::make_shared<memory>(key, std::move(fd), offset, size, ++last_number_, open));
	if (number)
		*number = last_number_;
	return 0;
}

void exports::remove(bytes key)
{
	std::erase_if(all_, [=](const memory_ptr &m) { return equal(m->key, key); });
}

std::shared_ptr<u8> exports::own(u64 number, u64 *size)
{
	const auto it = std::find_if(all_.begin(), all_.end(),
				     [=](const memory_ptr &m) { return m->number == number && m->open; });

	if (it == all_.end() || (*it)->map())
		return nullptr;
	*size = (*it)->size;
	return {*it, (*it)->mapped};
}

/* ---- peers ---------------------------------------------------------------------------------------------- */

void exports::peer_left(u32 slot)
{
	std::erase_if(opened_, [=](const auto &o) { return o.second.slot == slot; });
	visits_[slot]++;
	answers_[slot] = 0;
}

void exports::answer(u32 slot, u64 number, int status, u64 id, u64 size)
{
	message_header h = {};

	h.number = number;
	h.status = status;
	h.id = id;
	h.value = size;
	/* Else the peer is gone, or will be. */
	worker_.send(slot, message::ack, h);
}

int exports::open_key(u32 slot, bytes key, u64 *id, u64 *size)
{
	const auto it = std::find_if(all_.begin(), all_.end(), [=](const memory_ptr &m) { return equal(m->key, key); });

	if (it == all_.end())
		return -ENOENT;
	if (!(*it)->open)
		return -EACCES;
	if (opened_.size() >= opened_most)
		return -ENOSPC;
	if (const int err = (*it)->map())
		return err;
	*id = ++last_id_;
	*size = (*it)->size;
	opened_.emplace(*id, opened{slot, *it});
	return 0;
}

void exports::take_key(const incoming &in)
{
	const auto key = std::make_shared<std::array<u8, key_length>>();
	const u64 number = in.h.number, visit = visits_[in.slot];
	const u32 slot = in.slot;

	worker_.receive(in, key->data(), [=, this](bool done) {
		u64 id = 0, size = 0;

		if (!done || visits_[slot] != visit)
			return;
		const int err = open_key(slot, *key, &id, &size);
		answer(slot, number, err, id, size);
	});
}

exports::memory_ptr exports::find(const incoming &in, u64 length, int *err) const
{
	const auto it = opened_.find(in.h.id);

	*err = 0;
	if (it == opened_.end() || it->second.slot != in.slot)
		*err = -ENOENT;
	else if (!range_within(in.h.offset, length, it->second.what->size))
		*err = -EFAULT;
	return *err ? nullptr : it->second.what;
}

/* The memory stays until all of it has come, whoever leaves meanwhile. */
void exports::put(const incoming &in)
{
	const u64 number = in.h.number, visit = visits_[in.slot];
	const u32 slot = in.slot;
	int err;
	const memory_ptr m = find(in, in.h.length, &err);

	if (!m) {
		answer(slot, number, err);
		return;
	}
	const u64 word = in.h.pattern_size ? in.h.pattern : no_word;
	if (word != no_word && !range_within(word, sizeof(u64), m->size)) {
		answer(slot, number, -EFAULT);
		return;
	}
	worker_.receive(in, m->mapped + in.h.offset, [=, this, held = m](bool done) {
		if (!done || visits_[slot] != visit)
			return;
		if (word != no_word)
			signal(*held, word);
		answer(slot, number, 0);
	});
}

/* The data is there: in the order of the program's memory, too. */
void exports::signal(const memory &m, u64 word)
{
	store_release(reinterpret_cast<u64 *>(m.mapped + word), u64(1));
	if (signalled_)
		signalled_();
}

void exports::get(const incoming &in)
{
	const u64 visit = visits_[in.slot];
	const u32 slot = in.slot;
	message_header h = {};
	int err;
	const memory_ptr m = find(in, in.h.value, &err);

	if (m && answers_[slot] == answers_most)
		err = -EBUSY;
	if (err) {
		answer(slot, in.h.number, err);
		return;
	}
	h.number = in.h.number;
	h.length = in.h.value;
	answers_[slot]++;
	const auto sent = [=, this, held = m](bool) {
		if (visits_[slot] == visit)
			answers_[slot]--;
	};
	if (worker_.send(slot, message::data, h, m->mapped + in.h.offset, sent)) {
		answers_[slot]--;
		answer(slot, h.number, -EIO);
	}
}

static void fill_with(u8 *to, u64 size, u64 pattern, u32 pattern_size)
{
	if (pattern_size == 1) {
		memset(to, int(pattern & 0xff), size);
		return;
	}
	for (u64 at = 0; at < size; at += pattern_size)
		memcpy(to + at, &pattern, pattern_size);
}

void exports::fill(const incoming &in)
{
	int err;
	const memory_ptr m = find(in, in.h.value, &err);

	if (m)
		fill_with(m->mapped + in.h.offset, in.h.value, in.h.pattern, in.h.pattern_size);
	answer(in.slot, in.h.number, err);
}

void exports::close(const incoming &in)
{
	const auto it = opened_.find(in.h.id);

	if (it != opened_.end() && it->second.slot == in.slot)
		opened_.erase(it);
}

void exports::serve(const incoming &in)
{
	switch (in.kind) {
	case message::open:
		return take_key(in);
	case message::put:
		return put(in);
	case message::get:
		return get(in);
	case message::fill:
		return fill(in);
	case message::close:
		return close(in);
	default:
		return;
	}
}

} // namespace usdma::net
