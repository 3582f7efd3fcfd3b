/* SPDX-License-Identifier: BSD-3-Clause */
/* A system call that the kernel refuses from now on, as one that was built without it or a sandbox does. */
#pragma once

#include <cstddef>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma::test {

/* False: no filters here (qemu-user), skip the test. */
inline bool can_refuse_calls()
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
}

/* For good, for all threads: call it in a child.  False: the filter cannot be installed. */
inline bool refuse_call(unsigned call, unsigned err)
{
	sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog filter = {std::size(steps), steps};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

} // namespace usdma::test
