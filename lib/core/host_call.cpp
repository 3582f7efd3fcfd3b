/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's callback thread: runs host functions of streams one after the other. */
#include "driver/base/error.h"
#include "lib/core/slab.h"
#include "lib/core/stream.h"

#include <pthread.h>
#include <signal.h>
#include <thread>

namespace usdma::core {

namespace {

struct host_call {
	void (*fn)(void *arg);
	void *arg;
	call_token *done;
};

struct call_queue {
	std::mutex lock;
	u32 posted = 0; /* futex: grows with each call */
	std::vector<host_call *> calls;
	bool started = false;
};

constinit immortal<call_queue> queue;

void run(host_call *c)
{
	c->fn(c->arg);
	call_done(c->done);
	delete c;
}

void thread_main()
{
	for (;;) {
		const u32 seen = load_acquire(&queue->posted);
		std::vector<host_call *> now;
		{
			std::lock_guard guard(queue->lock);

			now.swap(queue->calls);
		}
		if (now.empty())
			futex_wait_until(&queue->posted, seen, ~u64(0));
		for (host_call *c : now)
			run(c);
	}
}

/* With the lock held. Signals are the program's: none is taken on this thread. */
void start()
{
	sigset_t all, before;

	if (queue->started)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	std::thread t(thread_main);
	pthread_setname_np(t.native_handle(), "usdma-calls");
	t.detach();
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	queue->started = true;
}

void deliver(void *arg, call_token *done)
{
	auto *c = static_cast<host_call *>(arg);
	std::lock_guard guard(queue->lock);

	start();
	c->done = done;
	queue->calls.push_back(c);
	store_release(&queue->posted, queue->posted + 1);
	futex_wake(&queue->posted, 1);
}

} // namespace

int stream_host_func(stream *s, void (*fn)(void *arg), void *arg, bool block)
{
	auto *c = new host_call{fn, arg, nullptr};
	const int err = stream_call(s, deliver, c, block);

	if (err)
		delete c;
	return err;
}

} // namespace usdma::core
