/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What usdma-sim gives up once it listens: new privileges for good, every file
 * that is not open yet, and every system call that it does not need.  A client's
 * process gives up more: other processes, and memory that can be executed.
 * usdma-net gives up all of these, but makes sockets of TCP.
 */
#pragma once

#include "driver/base/unique_fd.h"

#include <sys/types.h>

namespace usdma::tool {

/* Before the first thread.  From here on a call that is not on the list fails with EPERM. */
int sandbox_enter();
/* The same for a process that has opened a device: all threads get the list, which has the requests of VFIO. */
int sandbox_enter_with_device();
/*
 * For a client's process, which is in the sandbox and has one thread: a call that is not on its shorter list kills
 * it (SIGSYS).
 */
int sandbox_confine();
/* All capabilities, of this thread and of those that it makes. */
int sandbox_leave_privileges();
/* For usdma-net and the threads that its libraries have made: a call that is not on its list fails with EPERM. */
int sandbox_enter_net();
/* Denies opening, creating and removing files by name where the kernel has Landlock; else no-op. */
int sandbox_leave_files();
/* False: built without libseccomp or with a sanitizer, whose run time needs files; only new privileges are given up. */
bool sandbox_filters();

/*
 * A child that runs clean() when release() is called, and only then: the sandboxed process cannot access the file
 * system, for example to remove the socket. A process that dies without release() cleans nothing up.
 */
class keeper {
public:
	/* Before sandbox_enter and before the first thread; the child holds no other descriptor than its own. */
	template <class F> int start(F &&clean)
	{
		const int err = split();

		if (err != child_side)
			return err;
		if (wait_release())
			clean();
		leave();
	}
	/* Returns when clean() is done, or after a second: the child may have been stopped, and does it later. */
	void release();

private:
	static constexpr int child_side = 1;

	int split();
	bool wait_release();
	[[noreturn]] static void leave();

	unique_fd pipe_;
	pid_t child_ = -1;
};

} // namespace usdma::tool
