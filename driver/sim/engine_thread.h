/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread of a model's engine. */
#pragma once

#include "driver/base/barrier.h"
#include "driver/sim/dma_space.h"

namespace usdma::sim {

class engine_thread {
public:
	/* reader: the thread's passes over the client's memory. */
	explicit engine_thread(dma_reader &reader) : reader_(reader) {}
	engine_thread(const engine_thread &) = delete;
	engine_thread &operator=(const engine_thread &) = delete;

	/* main(arg) returns soon after quits(), and calls ended() last. */
	int start(const char *name, void *(*main)(void *), void *arg);
	/* Stops it, also in a write to a descriptor that blocks. wake_fd: what it sleeps on. */
	void stop(int wake_fd);
	void interrupt() const { interrupt_thread(thread_); }
	pthread_t handle() const { return thread_; }

	bool quits() const { return load_relaxed(&quit_); }
	/* The same, for others that wait in this thread. */
	const u32 *quit_flag() const { return &quit_; }
	void ended();

private:
	static void *main_of(void *arg);

	dma_reader &reader_;
	void *(*main_)(void *) = nullptr;
	void *arg_ = nullptr;
	pthread_t thread_ = {};
	bool running_ = false;
	u32 quit_ = 0, ended_ = 0; /* atomic */
};

} // namespace usdma::sim
