/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/bell.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "driver/base/mapping.h"
#include "driver/base/memfd.h"
#include "driver/base/no_destructor.h"
#include "lib/share/helper_channel.h"
#include "lib/share/peer_file.h"
#include "driver/base/thread.h"
#include "driver/base/tsan.h"
#include "lib/core/stream/listen.h"
#include "lib/core/stream/task.h"

#include <climits>
#include <cstddef>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <new>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace usdma::core {

static constexpr u64 bell_magic = 0x7573646d6162656c;

/* Any process that may open it may also write it: a wrong count costs a pass, or 50 ms. No other file has the magic. */
struct bell_page {
	u64 magic, token;
	u32 rings; /* futex */
};
static_assert(offsetof(bell_page, rings) == bell_count_at);

struct bell {
	u32 refs = 1; /* under bells_lock */
	bell_name name = {};
	mapping page;
	bell *next = nullptr;

	bell_page *at() const { return reinterpret_cast<bell_page *>(page.data()); }
};

static constinit std::mutex bells_lock; /* the list, and the making of the own one */
static bell *bells;
static constinit no_destructor<unique_fd> own_fd;
static bell *own; /* atomic; never freed */

/* ---- peers ------------------------------------------------------------------------------------------ */

/*
 * Prevents confused-deputy attacks on a privileged importer: all user ids of the exporter must be this user's,
 * and a file of another owner must be accessible to everyone.
 */
static int check_user(unsigned pid)
{
	peer_user user;
	const int err = peer_user_of("/proc", pid, &user);

	if (err)
		return err;
	return user.only(geteuid()) ? 0 :
				      fail(EACCES,
					   "process %u, which exports the key, runs as user %u, this one as %u: they "
					   "must be the same",
					   pid, user.effective, geteuid());
}

static int check_owner(unsigned pid, const peer_file &file)
{
	static constexpr mode_t all = S_IROTH | S_IWOTH;

	return file.owner == geteuid() || (file.mode & all) == all ?
		       0 :
		       fail(EACCES, "process %u exports memory of user %u, which is not writable by everyone", pid,
			    file.owner);
}

int peer_memory_open(unsigned pid, unsigned fd, unique_fd *out, u64 *size)
{
	peer_file file;
	int err = check_user(pid);

	if (!err)
		err = peer_file_open("/proc", pid, fd, O_RDWR, &file);
	if (!err)
		err = check_owner(pid, file);
	if (err)
		return err;
	*out = std::move(file.fd);
	*size = file.size;
	return 0;
}

static int map_bell(int fd, bell *b)
{
	void *const p = mmap(nullptr, os_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return fail_errno("mapping a bell");
	b->page = mapping(p, os_page_size());
	return 0;
}

/* Another process may have got the number of one that has ended: its file is another one. */
static int open_new(const bell_name &name, bell *b)
{
	unique_fd fd;
	u64 size;
	int err = peer_memory_open(name.pid, name.fd, &fd, &size);

	if (!err && size != os_page_size())
		err = fail(ENOENT, "file %u of process %u is no bell", name.fd, name.pid);
	if (!err)
		err = map_bell(fd.get(), b);
	if (!err && (load_relaxed(&b->at()->magic) != bell_magic || load_relaxed(&b->at()->token) != name.token))
		err = fail(ENOENT, "file %u of process %u is another bell", name.fd, name.pid);
	b->name = name;
	return err;
}

/* All of the name: a process could give its own bell the token of another one. */
static bell *find_open(const bell_name &name)
{
	for (bell *b = bells; b; b = b->next)
		if (b->name.pid == name.pid && b->name.fd == name.fd && b->name.token == name.token)
			return b;
	return nullptr;
}

int bell_open(const bell_name &name, bell **out)
{
	std::lock_guard guard(bells_lock);

	if (bell *b = find_open(name)) {
		b->refs++;
		*out = b;
		return 0;
	}
	std::unique_ptr<bell> b(new (std::nothrow) bell);
	const int err = b ? open_new(name, b.get()) : no_memory("a bell");
	if (err)
		return err;
	b->next = bells;
	*out = bells = b.release();
	return 0;
}

void bell_close(bell *b)
{
	if (!b)
		return;
	std::lock_guard guard(bells_lock);

	if (--b->refs)
		return;
	bell **at = &bells;
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	delete b;
}

void bell_ring(const bell *b)
{
	/* Its thread reads the count before what has changed; a locked instruction, so after what the caller did. */
	fetch_add_seq_cst(&b->at()->rings, 1);
	futex_wake_shared(&b->at()->rings, INT_MAX);
}

/* ---- the own one ------------------------------------------------------------------------------------ */

u32 bell_rings()
{
	const bell *const b = load_acquire(&own);

	return b ? load_acquire(&b->at()->rings) : 0;
}

void bell_wait(u32 seen, u64 abs_ns)
{
	u32 none = 0;
	const bell *const b = load_acquire(&own);

	futex_wait_shared(b ? &b->at()->rings : &none, b ? seen : 0, abs_ns);
}

static void *bell_main(void *)
{
	const tsan_ignored scope;

	thread_short_slice();
	thread_name("usdma-bell");
	for (u32 seen = 0;;) {
		bell_wait(seen, ~u64(0));
		seen = bell_rings();
		rings_wake();
		progress_run_behind();
	}
	return nullptr;
}

/* In the list from the start, with a reference that is never dropped. */
static int make_own()
{
	std::unique_ptr<bell> b(new (std::nothrow) bell);
	int err = b ? memfd_make("usdma-bell", os_page_size(), 0, &*own_fd) : no_memory("a bell");

	if (!err)
		err = map_bell(own_fd->get(), b.get());
	if (!err && getrandom(&b->name.token, sizeof(b->name.token), 0) != ssize_t(sizeof(b->name.token)))
		err = fail_errno("random number for a bell");
	if (err)
		return err;
	b->name = {u32(getpid()), u32(own_fd->get()), b->name.token | 1}; /* not 0 */
	b->at()->magic = bell_magic;
	b->at()->token = b->name.token;
	b->next = bells;
	bells = b.get();
	store_release(&own, b.release());
	return 0;
}

static int make_once()
{
	static bool started;
	static pthread_t ringer; /* for ever */
	std::lock_guard guard(bells_lock);
	int err = own ? 0 : make_own();

	if (!err && !started)
		err = thread_start(&ringer, "usdma-bell", bell_main, nullptr);
	started |= !err;
	return err;
}

int bell_own(bell_name *out)
{
	if (const int err = make_once())
		return err;
	*out = own->name;
	return 0;
}

} // namespace usdma::core
