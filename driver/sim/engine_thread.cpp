/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/engine_thread.h"

#include "driver/base/clock.h"
#include "driver/base/futex_lock.h"
#include "driver/base/thread.h"
#include "driver/base/tsan.h"
#include "driver/sim/signal_fd.h"

#include <csignal>

namespace usdma::sim {

static constexpr u64 rekick_ns = 20 * ns_per_ms;

/*
 * TSan sees the copies by memmove(), and no order between them and the program. With USDMA_CHECK=race the
 * library reports what they access (lib/core/check/tsan_edges.h).
 */
void *engine_thread::main_of(void *arg)
{
	const auto *const t = static_cast<const engine_thread *>(arg);
	const tsan_ignored scope;

	return t->main_(t->arg_);
}

int engine_thread::start(const char *name, void *(*main)(void *), void *arg)
{
	main_ = main;
	arg_ = arg;
	const int err = thread_start(&thread_, name, main_of, this, interrupting_allowed() ? SIGUSR1 : 0);

	running_ = !err;
	if (!err)
		reader_.belongs_to(thread_);
	return err;
}

void engine_thread::stop(int wake_fd)
{
	if (!running_)
		return;
	store_release(&quit_, 1u);
	while (!load_acquire(&ended_)) {
		eventfd_add(wake_fd);
		futex_wait_until(&ended_, 0, now_ns() + rekick_ns);
		if (!load_acquire(&ended_))
			interrupt();
	}
	reader_.thread_stopped();
	pthread_join(thread_, nullptr);
	running_ = false;
}

void engine_thread::ended()
{
	store_release(&ended_, 1u);
	futex_wake(&ended_, 1);
}

} // namespace usdma::sim
