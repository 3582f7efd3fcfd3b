/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/helper.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/futex_lock.h"
#include "driver/base/mapping.h"
#include "driver/base/memfd.h"
#include "driver/base/printable.h"
#include "lib/core/base/fork.h"
#include "lib/core/config/config.h"
#include "lib/share/bell.h"
#include "lib/share/helper_start.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace usdma::core {

static constexpr unsigned held_most = 8;
static constexpr u64 nap_ns = 100 * ns_per_ms, least_lost_ms = 2000;

struct helper {
	u32 refs = 1;  /* atomic */
	u32 ended = 0; /* a positive errno; atomic */
	u32 deaf = 0;  /* the last notify() waited in vain; atomic */
	u64 number = 0;
	bool rings_bell = false; /* under start_lock */
	unique_fd socket;
	mapping memory;
	net_address at = {};
	std::mutex lock;               /* of the next two: bits by slot */
	u32 used = 0;                  /* taken, … */
	u32 left = 0;                  /* … and no one waits for its request, which … */
	u64 writes[helper_slots] = {}; /* … writes this memory; 0: none */

	helper_page *page() const { return reinterpret_cast<helper_page *>(memory.data()); }
};
static_assert(helper_slots <= 32);

static std::mutex start_lock;   /* held while one starts */
static std::mutex current_lock; /* of the next; held for a moment */
static helper *current;         /* with a reference */

/* ---- life -------------------------------------------------------------------------------------------------- */

bool net_is_on()
{
	return !config_get().net.empty();
}

void helper_ref(helper *h)
{
	fetch_add_relaxed(&h->refs, 1u);
}

void helper_put(helper *h)
{
	if (h && fetch_sub_acq_rel(&h->refs, 1u) == 1)
		delete h;
}

/* Who sleeps on its rings hears of it, too. */
static void note_end(helper *h, int err)
{
	store_release(&h->ended, u32(err));
	helper_ring(h);
}

/* It says nothing by the socket. */
static bool has_ended(helper *h)
{
	pollfd p = {h->socket.get(), POLLIN, 0};

	if (load_acquire(&h->ended))
		return true;
	/* A signal says nothing about it. */
	if (poll(&p, 1, 0) <= 0)
		return false;
	note_end(h, ECONNRESET);
	return true;
}

static int make_memory(helper *h, unique_fd *fd)
{
	if (const int err = memfd_make("usdma-net", helper_memory, 0, fd))
		return err;
	void *const p = mmap(nullptr, helper_memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
	if (p == MAP_FAILED)
		return fail_errno("memory shared with usdma-net");
	h->memory = mapping(p, helper_memory);
	madvise(p, helper_memory, MADV_DONTDUMP);
	return 0;
}

static int make_helper(helper **out)
{
	static u64 number; /* under start_lock */
	auto *const h = new (std::nothrow) helper;
	unique_fd fd;

	if (!h)
		return no_memory("usdma-net");
	h->number = ++number;
	int err = make_memory(h, &fd);
	if (!err)
		err = helper_start(fd.get(), &h->socket, &h->at);
	if (err) {
		helper_put(h);
		return err;
	}
	*out = h;
	return 0;
}

static helper *current_ref()
{
	std::lock_guard guard(current_lock);

	if (current)
		helper_ref(current);
	return current;
}

/* Takes over the reference. */
static void set_current(helper *h)
{
	helper *before;
	{
		std::lock_guard guard(current_lock);

		before = std::exchange(current, h);
	}
	helper_put(before);
}

int helper_get(helper **out)
{
	if (is_other_process())
		return fail_forked();
	std::lock_guard guard(start_lock);
	helper *h = current_ref();
	if (h && has_ended(h)) {
		set_current(nullptr);
		helper_put(h);
		h = nullptr;
	}
	if (!h) {
		if (const int err = make_helper(&h))
			return err;
		helper_ref(h);
		set_current(h);
	}
	*out = h;
	return 0;
}

u64 helper_number(const helper *h)
{
	return h->number;
}

const net_address &helper_address(const helper *h)
{
	return h->at;
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

u32 helper_rings(const helper *h)
{
	return load_acquire(&h->page()->rings);
}

void helper_ring(helper *h)
{
	fetch_add_seq_cst(&h->page()->rings, 1u);
	if (load_seq_cst(&h->page()->sleepers))
		futex_wake_shared(&h->page()->rings, INT_MAX);
}

bool helper_is_over(const helper *h)
{
	return load_acquire(&h->ended);
}

int helper_check(helper *h, helper_pulse *pulse)
{
	const u64 now = now_ns(), lost_ms = std::max<u64>(config_get().net_lost_ms, least_lost_ms);
	const u32 beat = load_relaxed(&h->page()->beat);

	if (beat != pulse->beat || !pulse->since)
		*pulse = {beat, now};
	if (!has_ended(h) && now - pulse->since > lost_ms * ns_per_ms) {
		shutdown(h->socket.get(), SHUT_RDWR);
		note_end(h, ENOLINK);
	}
	const int err = int(load_acquire(&h->ended));
	if (err == ENOLINK)
		return fail(ENOLINK,
			    "usdma-net of this program has not run for %llu ms: it is stopped, or the machine is "
			    "overloaded (net_lost_ms)",
			    ull(lost_ms));
	return err ? fail(err, "usdma-net of this program has ended: what it had opened of other machines is lost, and "
			       "has to be imported once more") :
		     0;
}

int helper_wait(helper *h, u32 rings, helper_pulse *pulse, deadline until)
{
	const u64 end = std::min(until.at(), now_ns() + nap_ns);
	helper_page *const page = h->page();

	if (until.passed())
		return fail(ETIMEDOUT, "no answer of the other machine in time");
	fetch_add_seq_cst(&page->sleepers, 1u);
	if (load_seq_cst(&page->rings) == rings)
		futex_wait_shared(&page->rings, rings, end);
	fetch_sub_seq_cst(&page->sleepers, 1u);
	/* Others may ring without end, as their requests fail. */
	return load_acquire(&page->rings) == rings || helper_is_over(h) ? helper_check(h, pulse) : 0;
}

/* ---- slots ---------------------------------------------------------------------------------------------------- */

static slot_state state_of(const helper *h, int slot)
{
	return slot_state(load_acquire(&h->page()->slots[slot].state));
}

/* With the lock held. */
static void collect(helper *h)
{
	for (u32 rest = h->left; rest; rest &= rest - 1) {
		const int slot = __builtin_ctz(rest);

		if (state_of(h, slot) == slot_state::posted)
			continue;
		h->left &= ~(1u << slot);
		h->used &= ~(1u << slot);
	}
}

/* One takes at most half of what is free, so that the next one finds some. */
int helper_take(helper *h, unsigned held)
{
	std::lock_guard guard(h->lock);

	collect(h);
	const unsigned free = helper_slots - unsigned(__builtin_popcount(h->used));
	if (!free || held >= held_most || held >= std::max(1u, (held + free) / 2))
		return -1;
	const int slot = __builtin_ctz(~h->used);
	h->used |= 1u << slot;
	store_relaxed(&h->page()->slots[slot].state, u32(slot_state::unused));
	return slot;
}

void helper_give(helper *h, int slot)
{
	{
		std::lock_guard guard(h->lock);

		h->used &= ~(1u << slot);
	}
	helper_ring(h);
}

void helper_leave(helper *h, int slot, u64 id)
{
	std::lock_guard guard(h->lock);

	h->left |= 1u << slot;
	h->writes[slot] = id;
}

bool helper_is_clear(helper *h, u64 id)
{
	std::lock_guard guard(h->lock);

	collect(h);
	for (u32 rest = h->left; rest; rest &= rest - 1)
		if (h->writes[__builtin_ctz(rest)] == id)
			return false;
	return true;
}

u8 *helper_memory_of(helper *h, int slot)
{
	return h->memory.data() + helper_head + u64(slot) * helper_part;
}

static int send_to(helper *h, const helper_request &r, const int *fd, u64 wait_ms)
{
	const int err = helper_send(h->socket.get(), r, fd, fd ? 1 : 0, wait_ms);

	if (err == -ECONNRESET && !helper_is_over(h))
		note_end(h, ECONNRESET);
	return err;
}

/* A request without an answer: one that does not read is waited for once, not by each. */
static void notify(helper *h, const helper_request &r)
{
	const saved_error before;
	const int err = send_to(h, r, nullptr, load_relaxed(&h->deaf) ? 0 : helper_send_ms);

	store_relaxed(&h->deaf, u32(err == -EAGAIN));
	before.again(0);
}

static int post(helper *h, int slot, helper_request r, const int *fd = nullptr)
{
	helper_slot *const s = &h->page()->slots[slot];

	r.slot = u32(slot);
	store_release(&s->state, u32(slot_state::posted));
	const int err = send_to(h, r, fd, helper_send_ms);
	if (err)
		store_relaxed(&s->state, u32(slot_state::unused));
	return err == -EAGAIN ? -ENOLINK : err;
}

int helper_post(helper *h, int slot, helper_op op, u64 id, u64 offset, u64 length, u64 pattern, u32 pattern_size)
{
	helper_request r = {};

	r.op = u32(op);
	r.id = id;
	r.offset = offset;
	r.length = length;
	r.pattern = pattern;
	r.pattern_size = pattern_size;
	return post(h, slot, r);
}

bool helper_is_done(const helper *h, int slot)
{
	return state_of(h, slot) == slot_state::done;
}

/* What the helper has written is checked: it speaks to strangers. */
int helper_result(const helper *h, int slot)
{
	const helper_slot &s = h->page()->slots[slot];
	const s32 status = load_relaxed(&s.status);
	char text[sizeof(s.text)];

	if (!status)
		return 0;
	memcpy(text, s.text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	make_printable(text);
	return status < 0 && status > -4096 ? fail(-status, "another machine: %s", text) :
					      fail(EPROTO, "another machine: a malformed answer");
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

/* A request with one answer. */
static int run(helper *h, const helper_request &r, u64 *id, u64 *size, const int *fd = nullptr)
{
	helper_pulse pulse;
	int slot, err = 0;
	u32 rings;

	for (rings = helper_rings(h); (slot = helper_take(h, 0)) < 0 && !err; rings = helper_rings(h))
		err = helper_wait(h, rings, &pulse, deadline::never());
	if (slot < 0)
		return err;
	err = post(h, slot, r, fd);
	for (rings = helper_rings(h); !err && !helper_is_done(h, slot); rings = helper_rings(h))
		err = helper_wait(h, rings, &pulse, deadline::never());
	/* If it has ended, so have its slots. */
	if (!err)
		err = helper_result(h, slot);
	if (!err && id) {
		*id = load_relaxed(&h->page()->slots[slot].id);
		*size = load_relaxed(&h->page()->slots[slot].size);
	}
	helper_give(h, slot);
	return err;
}

/*
 * The helper gets a description of the file of its own, with a lock: while it has that open, what is freed is not used
 * for something else (memory/exports.h).
 */
static int lock_anew(int fd, u64 offset, u64 size, unique_fd *out)
{
	struct flock l = {};
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	out->reset(fd_above_stdio(open(path, O_RDWR | O_CLOEXEC)));
	if (!out->valid())
		return fail_errno("memory for other machines: %s", path);
	l.l_type = F_RDLCK;
	l.l_whence = SEEK_SET;
	l.l_start = off_t(offset);
	l.l_len = off_t(size);
	return fcntl(out->get(), F_OFD_SETLK, &l) ? fail_errno("lock on shared memory") : 0;
}

static helper_request request_of(helper_op op, const char *key)
{
	helper_request r = {};

	r.op = u32(op);
	memcpy(r.key, key, sizeof(r.key));
	return r;
}

int helper_offer(helper *h, const char *key, int fd, u64 offset, u64 size, bool open, u64 *local)
{
	helper_request r = request_of(helper_op::offer, key);
	unique_fd own;
	u64 id, unused;

	r.offset = offset;
	r.length = size;
	r.open = open;
	if (!open)
		return run(h, r, nullptr, nullptr);
	if (const int err = lock_anew(fd, offset, size, &own))
		return err;
	const int theirs = own.get();
	const int err = run(h, r, &id, &unused, &theirs);
	if (!err && local)
		*local = id;
	return err;
}

/* If that fails, the memory stays as it is until the helper has ended. */
void helper_withdraw(const char *key)
{
	helper *const h = current_ref();

	if (h)
		notify(h, request_of(helper_op::withdraw, key));
	helper_put(h);
}

int helper_open(helper *h, const u8 host[16], const net_address &at, const char *key, u64 *id, u64 *size)
{
	helper_request r = request_of(helper_op::open, key);

	memcpy(r.host, host, sizeof(r.host));
	r.at = at;
	return run(h, r, id, size);
}

static int use_bell(helper *h)
{
	std::lock_guard guard(start_lock);
	helper_request r = {};
	bell_name own;

	if (h->rings_bell)
		return 0;
	if (const int err = bell_own(&own))
		return err;
	const int fd = int(own.fd);
	r.op = u32(helper_op::bell);
	r.offset = bell_count_at;
	const int err = send_to(h, r, &fd, helper_send_ms);
	h->rings_bell = !err;
	return err;
}

int helper_open_noted(helper *h, const u8 host[16], const net_address &at, const char *key, const helper_range &lost,
		      u64 *id, u64 *size)
{
	helper_request r = request_of(helper_op::open, key);
	const int err = use_bell(h);

	memcpy(r.host, host, sizeof(r.host));
	r.at = at;
	r.local = lost.local;
	r.local_offset = lost.offset;
	return err ? err : run(h, r, id, size);
}

int helper_write(helper *h, u64 id, u64 offset, const helper_range &from, u64 length, u64 signal)
{
	helper_request r = {};

	r.op = u32(helper_op::send);
	r.id = id;
	r.offset = offset;
	r.length = length;
	r.local = from.local;
	r.local_offset = from.offset;
	r.signal = signal;
	return send_to(h, r, nullptr, 0);
}

/* ---- connections between programs --------------------------------------------------------------------------- */

/* A request with one end of a pair of sockets. */
static int run_with_socket(helper *h, const helper_request &r, unique_fd *out)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return fail_errno("a socket for connections");
	unique_fd own(fd_above_stdio(pair[0]));
	const unique_fd theirs(fd_above_stdio(pair[1]));
	const int fd = theirs.get();
	if (!own.valid() || fd < 0)
		return fail_errno("a socket for connections");
	const int err = run(h, r, nullptr, nullptr, &fd);
	if (!err)
		*out = std::move(own);
	return err;
}

int helper_listen(helper *h, const char *name, unique_fd *out)
{
	return run_with_socket(h, request_of(helper_op::listen, name), out);
}

int helper_accept(int socket, unique_fd *out)
{
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char one;
	iovec to = {&one, sizeof(one)};
	msghdr m = {};
	int fd;

	m.msg_iov = &to;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	const ssize_t n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : fail_errno("a socket for connections");
	if (m.msg_flags & MSG_CTRUNC)
		return fail(EMFILE, "a connection has come, and this process has no descriptor left for it");
	const cmsghdr *const c = n ? CMSG_FIRSTHDR(&m) : nullptr;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
		return fail(ECONNRESET, "usdma-net of this program has ended");
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	out->reset(fd_above_stdio(fd));
	return out->valid() ? 0 : fail_errno("a connection");
}

int helper_dial(helper *h, const net_address &at, const char *name, unique_fd *out)
{
	helper_request r = request_of(helper_op::dial, name);
	unique_fd own;

	r.at = at;
	const int err = run_with_socket(h, r, &own);
	return err ? err : helper_accept(own.get(), out);
}

void helper_close(helper *h, u64 id)
{
	helper_request r = {};

	r.op = u32(helper_op::close);
	r.id = id;
	notify(h, r);
}

} // namespace usdma::core
