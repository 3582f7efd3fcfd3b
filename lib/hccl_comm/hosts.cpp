/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/remote.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/memfd.h"
#include "lib/acl/bridge.h"
#include "lib/core/config/config.h"
#include "lib/core/copy/copy.h"
#include "lib/core/stream/stream.h"
#include "lib/hccl/data_type.h"
#include "lib/hccl_comm/comm.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdio>
#include <cstring>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>

namespace usdma::hccl_comm {
namespace {

constexpr u64 count_bytes = 256, page = 4096, slot_align = 512, leave_ms = 5000, least_lost_ms = 2000;

/* ---- the block ------------------------------------------------------------------------------------------- */

u64 slots_at(u32 peers)
{
	return align_up(remote_words_at(peers), page);
}

bool same_host(const rank_info &a, const rank_info &b)
{
	return !memcmp(a.host, b.host, sizeof(a.host));
}

/* How many of the ranks before `end` are on other machines than the rank. */
u32 remote_before(const rank_info *all, u32 end, u32 rank)
{
	u32 n = 0;

	for (u32 r = 0; r < end; r++)
		n += !same_host(all[r], all[rank]);
	return n;
}

/* The smallest that any rank can have, so all have the same. */
u64 slot_of(const rank_info *all, u32 size)
{
	u64 least = remote_piece;

	for (u32 r = 0; r < size; r++)
		if (const u64 n = remote_before(all, size, r))
			least = std::min(least, all[r].buffer_bytes / (n * remote_depth) / slot_align * slot_align);
	return least;
}

remote_words *words_of(const comm *c, const peer &p)
{
	return reinterpret_cast<remote_words *>(c->remote->block + remote_words_at(p.here));
}

HcclResult core_failed(HcclResult code, const char *what)
{
	return because(code, "%s: %.180s", what, error_text());
}

HcclResult map_block(remote_group *g, int fd)
{
	void *const p = mmap(nullptr, g->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *unused;

	if (p == MAP_FAILED)
		return because(HCCL_E_MEMORY, "memory for ranks of other machines: %s", strerrordesc_np(errno));
	g->block = static_cast<char *>(p);
	if (aclError code = aclrtHostRegister(p, g->size, ACL_HOST_REGISTER_MAPPED, &unused))
		return acl_failed("aclrtHostRegister", code);
	g->registered = true;
	return HCCL_SUCCESS;
}

/* The key opens the memory. */
HcclResult make_key(char key[core::helper_key])
{
	u8 secret[core::helper_key / 2];

	if (getrandom(secret, sizeof(secret), 0) != ssize_t(sizeof(secret)))
		return because(HCCL_E_SYSCALL, "no random numbers: %s", strerrordesc_np(errno));
	for (size_t i = 0; i < sizeof(secret); i++) {
		key[2 * i] = char('a' + (secret[i] & 15));
		key[2 * i + 1] = char('a' + (secret[i] >> 4));
	}
	return HCCL_SUCCESS;
}

HcclResult make_block(remote_group *g)
{
	unique_fd fd;

	if (memfd_make("usdma-hccl", g->size, 0, &fd))
		return core_failed(HCCL_E_MEMORY, "memory for ranks of other machines");
	if (HcclResult ret = map_block(g, fd.get()))
		return ret;
	if (HcclResult ret = make_key(g->own.key))
		return ret;
	return core::helper_offer(g->by, g->own.key, fd.get(), 0, g->size, true, &g->local) ?
		       core_failed(HCCL_E_NETWORK, "memory for ranks of other machines") :
		       HCCL_SUCCESS;
}

/* ---- in streams ------------------------------------------------------------------------------------------ */

/* A message, when what is before it in its stream has ended. */
struct message_step {
	remote_group *g;
	u64 id, offset, length, signal;
	core::helper_range from;
};

/* On an error the gate stays closed: nothing behind it may run, and the monitor aborts the operation. */
int write_now(void *arg)
{
	const auto *m = static_cast<const message_step *>(arg);

	if (core::helper_write(m->g->by, m->id, m->offset, m->from, m->length, m->signal))
		return 0;
	fetch_add_relaxed(&m->g->sent, u64(1));
	return 1;
}

template <class S> void drop_step(void *arg)
{
	auto *const step = static_cast<S *>(arg);

	fetch_sub_release(&step->g->gates, 1u);
	delete step;
}

template <class S>
int push_step(core::stream *s, const S &step, int (*check)(void *arg), const core::seen_word *seen, u8 by)
{
	auto *const own = new (std::nothrow) S(step);

	if (!own)
		return no_memory("a step of another machine's");
	fetch_add_relaxed(&own->g->gates, 1u);
	return core::stream_wait_check(s, check, drop_step<S>, own, deadline::never(), seen, by);
}

/* A message that does not fit into the socket is tried again by each pass. */
int push_message(const void *args, core::stream *s)
{
	return push_step(s, *static_cast<const message_step *>(args), write_now, &core::seen_nothing,
			 core::changed_by_others);
}

HcclResult push(work *w, const message_step &m)
{
	w->c->touched = true;
	if (aclError code = usdma_acl_submit("a message to another machine", w->stream, push_message, &m, sizeof(m)))
		return acl_failed("a message to another machine", code);
	return HCCL_SUCCESS;
}

struct wait_step {
	remote_group *g;
	u64 *word;
};

int take_word(void *arg)
{
	u64 one = 1;

	return cmpxchg_acq_rel(static_cast<wait_step *>(arg)->word, &one, u64(0));
}

/* The race check does not see what other programs write. An engine that waits keeps the memory registered. */
int push_wait(const void *args, core::stream *s)
{
	const auto *const w = static_cast<const wait_step *>(args);

	if (!s->order)
		if (const int err = core::take_value_async(s, w->word, 1, true); err <= 0)
			return err;
	return push_step(s, *w, take_word, nullptr, core::changed_by_library);
}

HcclResult wait_for(work *w, u64 *word)
{
	const wait_step step = {w->c->remote.get(), word};

	w->c->touched = true;
	if (aclError code = usdma_acl_submit("a wait for another machine", w->stream, push_wait, &step, sizeof(step)))
		return acl_failed("a wait for another machine", code);
	return HCCL_SUCCESS;
}

HcclResult lost_rank(comm *c, u32 rank, s64 err)
{
	c->about = rank;
	return because(HCCL_E_REMOTE, "rank %u%s is lost: %s", rank, remote_host(c, rank).text,
		       err == -ENOLINK ? "its machine has not answered for net_lost_ms" :
					 "its program, or the usdma-net of that, has ended");
}

} // namespace

u64 remote_words_at(u32 n)
{
	return count_bytes + u64(n) * sizeof(remote_words);
}

u64 remote_slot_at(u32 peers, u64 slot_bytes, u32 n, u32 slot)
{
	return slots_at(peers) + (u64(n) * remote_depth + slot) * slot_bytes;
}

u64 remote_own_at(u32 peers, u64 slot_bytes, u32 n, u32 slot)
{
	return remote_slot_at(peers, slot_bytes, peers + n, slot);
}

/* ---- life ------------------------------------------------------------------------------------------------ */

HcclResult remote_make(comm *c, const rank_info *all)
{
	const u32 peers = remote_before(all, c->size, c->rank);
	const u64 slot = slot_of(all, c->size);

	c->remote_slot = 0;
	for (u32 r = 0; r < c->size; r++)
		if (remote_before(all, c->size, r))
			c->remote_slot = slot;
	if (!peers)
		return HCCL_SUCCESS;
	if (!slot)
		return because(HCCL_E_PARA,
			       "the buffer (HCCL_BUFFSIZE, hcclBufferSize) of a rank is too small for %u peers", peers);
	c->remote.reset(new (std::nothrow) remote_group);
	if (!c->remote)
		return because(HCCL_E_MEMORY, "no memory for ranks of other machines");
	remote_group *const g = c->remote.get();
	if (core::helper_get(&g->by))
		return core_failed(HCCL_E_NOT_SUPPORT, "a rank is on another machine");
	g->own.at = core::helper_address(g->by);
	g->peers = peers;
	g->slot = slot;
	g->size = align_up(remote_own_at(peers, slot, peers, 0), page);
	return make_block(g);
}

HcclResult remote_import(comm *c, const rank_info *all, peer *p, const remote_info &theirs)
{
	const u32 rank = p->is.rank, their_peers = remote_before(all, c->size, rank);
	remote_group *const g = c->remote.get();
	u64 size;

	p->remote = true;
	p->here = remote_before(all, rank, c->rank);
	p->there = remote_before(all, c->rank, rank);
	p->there_peers = their_peers;
	p->at = theirs.at;
	if (!theirs.at.family)
		return because(HCCL_E_NOT_SUPPORT, "rank %u is on another machine, and its program has no setting net",
			       rank);
	const core::helper_range lost = {g->local, remote_words_at(p->here) + offsetof(remote_words, lost)};
	if (core::helper_open_noted(g->by, p->is.host, theirs.at, theirs.key, lost, &p->opened, &size))
		return because(HCCL_E_TCP_CONNECT, "rank %u%s: %.150s", rank, remote_host(c, rank).text, error_text());
	p->is_open = true;
	return size >= remote_own_at(their_peers, g->slot, 0, 0) ?
		       HCCL_SUCCESS :
		       because(HCCL_E_REMOTE, "rank %u has other memory than another rank: another version?", rank);
}

/* Until what was sent is there, or a rank or the helper is lost. */
static void wait_answers(comm *c, deadline until)
{
	remote_group *const g = c->remote.get();

	for (u32 rings = core::helper_rings(g->by); !until.passed() && !remote_check(c);
	     rings = core::helper_rings(g->by)) {
		if (load_acquire(reinterpret_cast<u64 *>(g->block)) >= load_acquire(&g->sent))
			return;
		(void)core::helper_wait(g->by, rings, &g->pulse, until);
	}
}

/* Words for all peers that can be reached, which so know that they have all; without the word this rank is lost. */
void remote_leave(comm *c)
{
	remote_group *const g = c->remote.get();

	if (!g || !g->block)
		return;
	const deadline until = deadline::in_ms(std::max<u64>(core::config_get().net_lost_ms, least_lost_ms));
	wait_answers(c, until);
	for (u32 r = 0; r < c->size && !until.passed(); r++) {
		const peer &p = c->peers[r];

		if (!p.is_open || load_acquire(&words_of(c, p)->lost))
			continue;
		message_step m = {
			g, p.opened, 0, 0, remote_words_at(p.there) + offsetof(remote_words, left), {g->local, 0}};
		while (!write_now(&m) && !core::helper_is_over(g->by) && !until.passed())
			poll(nullptr, 0, 1);
	}
	wait_answers(c, until);
}

/* What a stream may still use stays for ever: it was aborted, so that is not to be. */
void remote_drop(comm *c)
{
	remote_group *const g = c->remote.get();

	for (u32 r = 0; g && r < c->size; r++)
		if (c->peers[r].is_open)
			core::helper_close(g->by, c->peers[r].opened);
	for (const deadline until = deadline::in_ms(leave_ms); g && load_acquire(&g->gates) && !until.passed();)
		poll(nullptr, 0, 1);
	if (g && *g->own.key)
		core::helper_withdraw(g->own.key);
	if (g && load_acquire(&g->gates)) {
		(void)c->remote.release();
		return;
	}
	if (g && g->registered && aclrtHostUnregister(g->block))
		g->block = nullptr;
	if (g && g->block)
		munmap(g->block, g->size);
	if (g)
		core::helper_put(g->by);
	c->remote.reset();
}

HcclResult remote_check(comm *c)
{
	for (u32 r = 0; c->remote && r < c->size; r++) {
		const peer &p = c->peers[r];
		const s64 err = p.is_open ? s64(load_acquire(&words_of(c, p)->lost)) : 0;

		if (err && !load_acquire(&words_of(c, p)->left))
			return lost_rank(c, r, err);
	}
	return c->remote && core::helper_check(c->remote->by, &c->remote->pulse) ?
		       because(HCCL_E_NETWORK, "%.220s", error_text()) :
		       HCCL_SUCCESS;
}

remote_name remote_host(const comm *c, u32 rank)
{
	const core::net_address &at = c->peers[rank].at;
	remote_name name{};

	if (at.family)
		snprintf(name.text, sizeof(name.text), " (host %.46s)", remote_address(at).text);
	return name;
}

remote_name remote_address(const core::net_address &at)
{
	remote_name name{};

	if (!inet_ntop(at.family == 6 ? AF_INET6 : AF_INET, at.address, name.text, sizeof(name.text)))
		name = {"?"};
	return name;
}

/* ---- steps ----------------------------------------------------------------------------------------------- */

HcclResult remote_put(work *w, const peer &p, u32 slot, const char *from, u64 len)
{
	remote_group *const g = w->c->remote.get();
	const u64 own = remote_own_at(g->peers, g->slot, p.here, slot);

	if (HcclResult ret = copy_local(w, g->block + own, from, len))
		return ret;
	return push(w, {g,
			p.opened,
			remote_slot_at(p.there_peers, g->slot, p.there, slot),
			len,
			remote_words_at(p.there) + offsetof(remote_words, arrived) + slot * sizeof(u64),
			{g->local, own}});
}

HcclResult remote_set_taken(work *w, const peer &p, u32 slot)
{
	remote_group *const g = w->c->remote.get();

	return push(w, {g,
			p.opened,
			0,
			0,
			remote_words_at(p.there) + offsetof(remote_words, taken) + slot * sizeof(u64),
			{g->local, 0}});
}

HcclResult remote_wait_arrived(work *w, const peer &p, u32 slot)
{
	return wait_for(w, &words_of(w->c, p)->arrived[slot]);
}

HcclResult remote_wait_taken(work *w, const peer &p, u32 slot)
{
	return wait_for(w, &words_of(w->c, p)->taken[slot]);
}

struct reduce_step {
	char *dst;
	const char *src;
	u64 bytes;
	dma::element type;
	dma::reduce_op op;
};

static int push_reduction(const void *args, core::stream *s)
{
	const auto *const r = static_cast<const reduce_step *>(args);

	return core::reduce_async(s, r->dst, r->src, r->bytes, r->type, r->op);
}

HcclResult remote_reduce(work *w, char *dst, const char *src, u64 bytes, const reduction &by)
{
	static constexpr dma::reduce_op ops[] = {dma::reduce_op::sum, dma::reduce_op::prod, dma::reduce_op::max,
						 dma::reduce_op::min};
	reduce_step r = {dst, src, bytes, {}, ops[by.op]};

	if (HcclResult ret = ::hccl::find_element(by.type, &r.type))
		return ret;
	if (aclError code = usdma_acl_submit("a reduction", w->stream, push_reduction, &r, sizeof(r)))
		return acl_failed("a reduction", code);
	return HCCL_SUCCESS;
}

char *remote_arrived(const comm *c, const peer &p, u32 slot)
{
	return c->remote->block + remote_slot_at(c->remote->peers, c->remote->slot, p.here, slot);
}

} // namespace usdma::hccl_comm
