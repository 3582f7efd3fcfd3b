/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preemption where a test needs it: a program with preempt_dep calls these before a thread locks a std::mutex, in the
 * library too, and after it has unlocked one. There the thread may wait for another one.
 */
#pragma once

#include <functional>
#include <pthread.h>

namespace usdma::test {

struct lock_hooks {
	std::function<void(const void *mutex)> before_lock, after_unlock; /* or none */
};

/* Of the calling thread; nullptr: no more. What they call must not lock a mutex. */
void hook_locks(const lock_hooks *hooks);

} // namespace usdma::test
