/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT and SIGTERM end a measurement; its results so far are retained. */
#pragma once

#include "driver/base/barrier.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <initializer_list>

namespace usdma::tool {

/* These two are shared with the signal handler: accessed by the helpers of barrier.h only. */
inline int caught_signal;
/* Process to forward the signal to, which measures for this one; 0: none. */
inline pid_t interrupt_too;

inline bool interrupted()
{
	return load_relaxed(&caught_signal) != 0;
}

/* Exit status as a shell reports it for a signal; 0: none came. */
inline int interrupt_status()
{
	const int sig = load_relaxed(&caught_signal);

	return sig ? 128 + sig : 0;
}

/* timeout(1) sends a signal twice; one that comes more than a second later stops the process at once. */
inline void on_interrupt(int sig)
{
	static time_t first;
	const int err = errno;
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!interrupted()) {
		store_seq_cst(&first, now.tv_sec);
		store_seq_cst(&caught_signal, sig);
	} else if (now.tv_sec > load_seq_cst(&first) + 1) {
		signal(sig, SIG_DFL);
		raise(sig);
	}
	if (const pid_t pid = load_seq_cst(&interrupt_too); pid > 0)
		kill(pid, sig);
	errno = err;
}

/* Ignored signals stay ignored: the program is in the background of a script. */
inline void catch_interrupts()
{
	for (const int sig : {SIGINT, SIGTERM}) {
		struct sigaction now = {}, then = {};

		then.sa_handler = on_interrupt;
		then.sa_flags = SA_RESTART;
		if (!sigaction(sig, nullptr, &now) && now.sa_handler != SIG_IGN)
			sigaction(sig, &then, nullptr);
	}
}

/* In a child before exec: restores the defaults. False: a signal came already. */
inline bool default_interrupts()
{
	for (const int sig : {SIGINT, SIGTERM}) {
		struct sigaction now = {};

		if (!sigaction(sig, nullptr, &now) && now.sa_handler == on_interrupt)
			signal(sig, SIG_DFL);
	}
	return !interrupted();
}

} // namespace usdma::tool
