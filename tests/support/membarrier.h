/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that gives up membarrier(2) once it runs. */
#pragma once

#include "driver/base/asym_barrier.h"

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace usdma::test {

/* For good, for this thread and those that it starts: in a child.  False: it is not refused now. */
inline bool forbid_membarrier()
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog program = {std::size(code), code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) &&
	       !barrier_for_all();
}

} // namespace usdma::test
