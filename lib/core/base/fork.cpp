/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/base/fork.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace usdma::core {

static u32 in_child; /* for kernels before 4.14 */
static const u32 not_installed = 1;
static const u32 *mark = &not_installed; /* 0 in a child */
static pid_t installer;

static void note_fork()
{
	store_relaxed(&in_child, 1u);
}

void *map_wiped(size_t size)
{
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return nullptr;
	(void)madvise(p, size, MADV_WIPEONFORK);
	return p;
}

static int install()
{
	if (auto *word = static_cast<u32 *>(map_wiped(sizeof(u32)))) {
		*word = 1;
		/* Release: a reader sees the word set. */
		store_release(&mark, const_cast<const u32 *>(word));
	}
	store_relaxed(&installer, getpid());
	return pthread_atfork(nullptr, nullptr, note_fork);
}

void install_fork_handlers()
{
	static const int once = install();

	(void)once;
}

bool forked()
{
	return load_relaxed(&in_child) || !load_relaxed(load_acquire(&mark));
}

bool is_other_process()
{
	const pid_t pid = load_relaxed(&installer);

	return forked() || (pid && pid != getpid());
}

int fail_forked()
{
	return fail(EPERM,
		    "this process is a child (fork, vfork, clone) of one that uses usdma: the device stays with it; "
		    "call exec, or open the device only in the child");
}

} // namespace usdma::core
