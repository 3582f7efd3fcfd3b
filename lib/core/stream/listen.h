/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What else the progress thread does for work that waits: it wakes engines in a WAIT for another device,
 * and runs hooks.
 */
#pragma once

#include "lib/core/device/device.h"

#include <poll.h>
#include <vector>

#pragma GCC visibility push(default) /* front ends are separate libraries */
namespace usdma::core {

/*
 * Run by each pass from progress_hook() on, one pass at a time, until it returns false; it may then be added again. It
 * must not wait.
 */
struct pass_hook {
	bool (*run)(void *arg) = nullptr;
	void *arg = nullptr;
	bool polls = true; /* for words that change without a report */
	pass_hook *next = nullptr;
};
/* -errno: the thread cannot be started. */
int progress_hook(pass_hook *h);
/*
 * The same, after progress_start(), by what makes a pass or calls progress_kick() afterwards: also under the lock of a
 * hardware queue.
 */
void progress_hook_add(pass_hook *h);
int progress_start();

/*
 * An engine sees what its own device writes; that another device writes a word is reported to the progress thread,
 * which wakes the engines. Called after a WAIT was posted.
 */
void rings_note_wait();

} // namespace usdma::core
#pragma GCC visibility pop

namespace usdma::core {

bool hooks_any();
bool hooks_poll();
/* In a pass. */
void hooks_run();
/* A WAIT is in a ring, and another device is there that may write its word. */
bool rings_wait();
/* A device has written a word: wakes what sleeps in a WAIT. False: nothing waits. */
[[gnu::visibility("default")]] bool rings_wake();
/* A queue is used that may not have been open when the thread went to sleep. */
void rings_note_open();
/* Adds the queue's service interrupt to fds. False: no memory. */
bool listen_to(const hw_queue *l, std::vector<pollfd> *fds);
/* A word that a stream waits for may be written in any ring, and each WRITE raises the interrupt. False: no memory. */
bool listen_to_all(std::vector<pollfd> *fds);
/* Queues may share an interrupt. */
void drop_doubles(std::vector<pollfd> *fds);

} // namespace usdma::core
