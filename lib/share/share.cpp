/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/share.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/memfd.h"
#include "driver/base/page.h"
#include "driver/base/words.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/stream.h"
#include "lib/share/bell.h"

#include <cstdio>
#include <cstdlib>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace usdma::core {

/* The last byte is the layout's version. */
static constexpr u64 share_magic = 0x7573646d61736802;
static_assert(sizeof(share_page) <= os_page_least);

/* Who records a notify or an event has to report that to who waits for it. */
static u64 magic_of(u32 kind)
{
	return share_magic + (kind == u32(share_kind::notify) || kind == u32(share_kind::event));
}

/* Inode of a namespace of this process; 0: unknown. */
static unsigned namespace_id(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : unsigned(st.st_ino);
}

static unsigned pid_namespace()
{
	return namespace_id("/proc/self/ns/pid");
}

static unsigned user_namespace()
{
	return namespace_id("/proc/self/ns/user");
}

/* usdma-KIND-PID-FD-SECRET-PIDNS-USERNS-, then padded: callers expect keys of one length. */
static void make_key(share *s)
{
	const int n = snprintf(s->key, sizeof(s->key), "usdma-%u-%08x-%08x-%016llx-%08x-%08x-", s->page->kind,
			       unsigned(getpid()), unsigned(s->fd.get()),
			       static_cast<unsigned long long>(s->page->secret), pid_namespace(), user_namespace());

	memset(s->key + n, '0', share_key_len - size_t(n));
	s->key[share_key_len] = '\0';
}

struct parsed_key {
	unsigned kind, pid, fd;
	unsigned long long secret;
	unsigned pid_space, user_space; /* 0: unknown */
	bool any_secret;
};

static bool parse_key(const char *key, parsed_key *k)
{
	if (strnlen(key, share_key_len + 1) != share_key_len)
		return false;
	*k = {};
	return sscanf(key, "usdma-%1u-%8x-%8x-%16llx-%8x-%8x-", &k->kind, &k->pid, &k->fd, &k->secret, &k->pid_space,
		      &k->user_space) >= 4;
}

static int map_page(share *s, bool pin)
{
	void *p = mmap(nullptr, os_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, s->fd.get(), 0);
	int err;

	if (p == MAP_FAILED)
		return fail_errno("mapping a shared page");
	s->page = static_cast<share_page *>(p);
	if (!pin)
		return 0;
	err = host_register(p, os_page_size(), 0);
	s->pinned = !err;
	return err;
}

static bool has_seat(const share *s)
{
	return s->index >= 0 && size_t(s->index) < share_bells;
}

/* As in foreign.cpp: memory that a lost device may still write stays mapped. */
void share_unpin(share *s)
{
	if (std::exchange(s->pinned, false))
		s->retained = host_unregister(s->page) == -EBUSY;
}

static void share_free(share *s)
{
	share_unpin(s);
	for (const opened_bell &k : s->opened)
		bell_close(k.b);
	/* What has ended gets no reports. */
	if (s->page && has_seat(s))
		store_release(&s->page->bells[s->index].token, u64(0));
	if (s->page && !s->retained)
		munmap(s->page, os_page_size());
	delete s;
}

struct share_delete {
	void operator()(share *s) const { share_free(s); }
};
using share_ptr = std::unique_ptr<share, share_delete>;

static int fill_page(share *s, const share_spec &spec)
{
	share_page *p = s->page;

	if (getrandom(&p->secret, sizeof(p->secret), 0) != ssize_t(sizeof(p->secret)))
		return fail_errno("random number for a key");
	if (spec.data_fd >= 0) {
		s->data.reset(fcntl(spec.data_fd, F_DUPFD_CLOEXEC, 3));
		if (!s->data.valid())
			return fail_errno("file of shared memory");
	}
	s->flags = spec.flags;
	s->offset = spec.offset;
	s->size = spec.size;
	p->kind = u32(spec.kind);
	p->open = spec.open;
	p->data_fd = s->data.get();
	p->flags = spec.flags;
	p->offset = spec.offset;
	p->size = spec.size;
	store_release(&p->magic, magic_of(p->kind));
	return 0;
}

int share_export(const share_spec &spec, bool pin, share **out)
{
	share_ptr s(new (std::nothrow) share);
	int err;

	if (!s)
		return no_memory("a shared page");

	s->mine = true;
	err = memfd_make("usdma-share", os_page_size(), 0, &s->fd);
	if (!err)
		err = map_page(s.get(), pin);
	if (!err)
		err = fill_page(s.get(), spec);
	if (err)
		return err;
	make_key(s.get());
	*out = s.release();
	return 0;
}

static int not_exported(unsigned pid)
{
	return fail(ENOENT, "process %u does not export this key (any more)", pid);
}

/* A pid of another pid namespace is a different process here, or none. */
static int check_spaces(const parsed_key &k)
{
	const unsigned mine = pid_namespace();
	char self[32] = {};
	u64 pid;

	if (k.pid_space && mine && k.pid_space != mine)
		return fail(
			EOPNOTSUPP,
			"the key was exported in pid namespace %u, this process is in %u: processes that share "
			"memory need the same one (docker run --pid=container:NAME, shareProcessNamespace of a pod)",
			k.pid_space, mine);
	if (readlink("/proc/self", self, sizeof(self) - 1) < 0)
		return fail(EOPNOTSUPP, "keys are imported through /proc, which is not mounted here");
	if (!number_parse(self, &pid) || pid != u64(getpid()))
		return fail(EOPNOTSUPP, "keys are imported through /proc, and the one mounted here is for another pid "
					"namespace: mount /proc of this one");
	return 0;
}

static int fail_import(int err, const parsed_key &k)
{
	const unsigned mine = user_namespace();

	if (k.user_space && mine && k.user_space != mine)
		return fail_in(err, "importing a key of user namespace %u into %u, where user ids may differ",
			       k.user_space, mine);
	return fail_in(err, "importing a key");
}

static int open_of(const parsed_key &k, unsigned fd, unique_fd *out, u64 *size)
{
	const int err = peer_memory_open(k.pid, fd, out, size);

	return err ? fail_import(err, k) : 0;
}

static bool is_allowed(const share_page *p)
{
	const u32 n = load_acquire(&p->npids);
	const s32 me = getpid();

	if (load_relaxed(&p->open))
		return true;
	for (u32 i = 0; i < n && i < share_pids; i++)
		if (load_relaxed(&p->pids[i]) == me)
			return true;
	return false;
}

static int check_page(const share *s, const parsed_key &k)
{
	const share_page *p = s->page;

	const u64 magic = load_acquire(&p->magic);

	if (magic != magic_of(k.kind) && magic >> 8 == share_magic >> 8)
		return fail(ENOENT, "process %u exports this key with another release of usdma: both need the same",
			    k.pid);
	if (magic != magic_of(k.kind) || (!k.any_secret && load_relaxed(&p->secret) != k.secret) ||
	    load_relaxed(&p->kind) != k.kind || load_acquire(&p->closed))
		return not_exported(k.pid);
	if (!is_allowed(p))
		return fail(EACCES, "process %u has not put this process (%d) into the key's list", k.pid,
			    int(getpid()));
	return 0;
}

/* Keeps the exporter from reusing the memory, until the file is closed and unmapped (memory/exports.h). */
static int lock_data(share *s, const parsed_key &k)
{
	struct flock l = {};

	l.l_type = F_RDLCK;
	l.l_whence = SEEK_SET;
	l.l_start = off_t(s->offset);
	l.l_len = off_t(s->size);
	if (fcntl(s->data.get(), F_OFD_SETLK, &l))
		return fail_errno("lock on shared memory");
	/* The exporter closes the key before it queries the locks. */
	barrier_full();
	return load_acquire(&s->page->closed) ? not_exported(k.pid) : 0;
}

static int open_data(share *s, const parsed_key &k)
{
	const share_page *p = s->page;
	const s32 fd = load_relaxed(&p->data_fd);
	u64 file;

	/* Read once: the validated values must be the ones used. */
	s->flags = load_relaxed(&p->flags);
	s->offset = load_relaxed(&p->offset);
	s->size = load_relaxed(&p->size);
	if (fd < 0)
		return 0;
	if (const int err = open_of(k, unsigned(fd), &s->data, &file))
		return err;
	if (!s->size || !range_within(s->offset, s->size, file))
		return fail(EINVAL, "the exporter's offset and size do not fit its file");
	return lock_data(s, k);
}

static int import_parsed(const parsed_key &k, bool pin, share **out)
{
	share_ptr s(new (std::nothrow) share);
	u64 size = 0;
	int err = s ? check_spaces(k) : no_memory("a shared page");

	if (!err)
		err = open_of(k, k.fd, &s->fd, &size);

	if (err)
		return err;
	if (size != os_page_size())
		return not_exported(k.pid);
	err = map_page(s.get(), pin);
	if (!err)
		err = check_page(s.get(), k);
	/* It only records. */
	if (!err && k.kind == u32(share_kind::notify))
		s->fd.reset();
	if (!err)
		err = open_data(s.get(), k);
	if (err)
		return err;
	*out = s.release();
	return 0;
}

int share_import(const char *key, share_kind kind, bool pin, share **out)
{
	parsed_key k;
	int err;

	if (!parse_key(key, &k) || k.kind != u32(kind))
		return fail(EINVAL, "this is not a key of this kind");
	err = import_parsed(k, pin, out);
	if (!err)
		memcpy((*out)->key, key, share_key_len);
	return err;
}

u64 share_number(const share *s)
{
	return u64(getpid()) << 32 | u32(s->fd.get());
}

u64 share_number_of(const char *key)
{
	parsed_key k;

	return parse_key(key, &k) ? u64(k.pid) << 32 | k.fd : 0;
}

int share_import_number(u64 number, share_kind kind, share **out)
{
	const parsed_key k{unsigned(kind), unsigned(number >> 32), unsigned(number), 0, 0, 0, true};

	return import_parsed(k, false, out);
}

int share_allow(share *s, const s32 *pids, size_t n)
{
	share_page *p = s->page;

	if (!s->mine)
		return fail(EINVAL, "the key was exported by another process: only that one can allow others");
	for (size_t i = 0; i < n; i++) {
		const u32 have = load_relaxed(&p->npids);

		if (!pids[i])
			continue;
		if (have >= share_pids)
			return fail(ENOSPC, "%zu processes are allowed already", share_pids);
		store_relaxed(&p->pids[have], pids[i]);
		store_release(&p->npids, have + 1);
	}
	return 0;
}

int share_allow_all(share *s)
{
	if (!s->mine)
		return fail(EINVAL, "the key was exported by another process: only that one can allow others");
	store_release(&s->page->open, 1u);
	return 0;
}

/* Lock of the file's byte at a participant's index; the byte need not exist. */
static struct flock index_lock(unsigned index)
{
	struct flock l = {};

	l.l_type = F_WRLCK;
	l.l_whence = SEEK_SET;
	l.l_start = off_t(index);
	l.l_len = 1;
	return l;
}

int share_join(share *s)
{
	for (unsigned i = 0; i < share_pids; i++) {
		struct flock l = index_lock(i);

		if (fcntl(s->fd.get(), F_OFD_SETLK, &l)) {
			if (errno != EAGAIN && errno != EACCES)
				return fail_errno("lock on a shared page");
			continue;
		}
		/* The previous holder of the index has ended. */
		store_release(&s->page->owed[i], u64(0));
		if (i < share_bells)
			store_release(&s->page->bells[i].token, u64(0));
		s->index = int(i);
		return 0;
	}
	return fail(ENOSPC, "%zu processes participate already", share_pids);
}

bool share_owed_by(const share *s, u64 number)
{
	for (unsigned i = 0; i < share_pids; i++) {
		struct flock l = index_lock(i);

		if (load_acquire(&s->page->owed[i]) < number)
			continue;
		/* The own lock never conflicts; if the query fails, assume that the participant is alive. */
		if (s->index == int(i) || fcntl(s->fd.get(), F_OFD_GETLK, &l) || l.l_type != F_UNLCK)
			return true;
	}
	return false;
}

void share_ref(share *s)
{
	fetch_add_relaxed(&s->refs, 1);
}

void share_unref(share *s)
{
	if (s && fetch_sub_acq_rel(&s->refs, 1) == 1)
		share_free(s);
}

void share_close(share *s)
{
	if (s->mine)
		store_fence(&s->page->closed, 1u);
}

/* ---- reports --------------------------------------------------------------------------------------- */

static constinit std::mutex listen_lock; /* listens, and the own entry in bells */
static constinit std::mutex report_lock; /* opened */

/* With listen_lock held. */
static void name_bell(share *s, const bell_name &name)
{
	bell_name *const at = &s->page->bells[s->index];
	u32 n = load_relaxed(&s->page->n_bells);

	store_relaxed(&at->pid, name.pid);
	store_relaxed(&at->fd, name.fd);
	/* Release: who sees the token sees the rest. */
	store_release(&at->token, name.token);
	while (n <= u32(s->index) && !cmpxchg_acq_rel(&s->page->n_bells, &n, u32(s->index) + 1))
		;
}

bool share_listen(share *s)
{
	const saved_error before;
	bell_name own;
	const bool reported = has_seat(s) && !bell_own(&own);
	std::lock_guard guard(listen_lock);

	s->listens++;
	if (reported && load_relaxed(&s->page->bells[s->index].token) != own.token)
		name_bell(s, own);
	/* Who changes the word sees this, or the caller sees the word changed: share_report(). */
	barrier_full();
	before.again(0);
	return reported && share_is_reported(s);
}

bool share_is_reported(const share *s)
{
	return !load_relaxed(&s->page->unreported);
}

void share_unlisten(share *s)
{
	std::lock_guard guard(listen_lock);

	if (!--s->listens && has_seat(s))
		store_release(&s->page->bells[s->index].token, u64(0));
}

/*
 * -ENOENT says that a process has ended, but also that its main thread has, that it has closed the descriptor, or that
 * this process sees a /proc of another PID namespace.
 */
static bool has_ended(int err, u32 pid)
{
	return err == -ENOENT && kill(pid_t(pid), 0) && errno == ESRCH;
}

/* The next waits of a participant that cannot be rung though it lives are polled. */
static void learn(share *s, const bell_name &who, opened_bell *ours)
{
	bell_close(ours->b);
	*ours = {who.token, nullptr};
	const int err = bell_open(who, &ours->b);
	if (err && !has_ended(err, who.pid))
		store_release(&s->page->unreported, 1u);
}

static void report_to(share *s, unsigned i)
{
	const bell_name *const at = &s->page->bells[i];
	opened_bell *const ours = &s->opened[i];
	const u64 token = load_acquire(&at->token);

	if (!token)
		return;
	const bell_name who = {load_relaxed(&at->pid), load_relaxed(&at->fd), token};
	if (ours->token != token) {
		barrier_acquire();
		/* Another participant has just got the seat: it checks the word after that. */
		if (load_relaxed(&at->token) != token)
			return;
		learn(s, who, ours);
	}
	if (ours->b)
		bell_ring(ours->b);
}

void share_report(share *s)
{
	const saved_error before;
	std::lock_guard guard(report_lock);

	barrier_full(); /* share_listen() */
	const u32 n = load_acquire(&s->page->n_bells);
	for (u32 i = 0; i < n && i < share_bells; i++)
		report_to(s, i);
	before.again(0);
}

void share_report_now(share *s)
{
	if (exchange_seq_cst(&s->due, 0u))
		share_report(s);
}

/* A pass_hook. What is due from here on adds it again. */
static bool report_in_pass(void *arg)
{
	share *const s = static_cast<share *>(arg);

	exchange_seq_cst(&s->hooked, 0u);
	share_report_now(s);
	share_unref(s);
	return false;
}

void share_report_later(share *s)
{
	exchange_seq_cst(&s->due, 1u);
	if (exchange_seq_cst(&s->hooked, 1u))
		return;
	share_ref(s);
	s->later = {report_in_pass, s, false};
	progress_hook_add(&s->later);
}

static void report_after(void *arg, call_token *)
{
	share *const s = static_cast<share *>(arg);

	share_report(s);
	share_unref(s);
}

/* Without memory for that, who waits finds the change 50 ms later, and later waits are polled. */
void share_report_behind(share *s, stream *by)
{
	const saved_error before;

	share_ref(s);
	if (!stream_notice(by, report_after, s))
		return;
	share_unref(s);
	store_release(&s->page->unreported, 1u);
	before.again(0);
}

} // namespace usdma::core
