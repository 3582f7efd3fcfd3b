/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls every function of a header in a child of fork, and in a thread that is being
 * cancelled.  calls.py generates the calls; `world` has the objects that they use.
 */
#pragma once

#include "lib/core/base/section.h"
#include "tests/support/test.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <pthread.h>
#include <set>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace usdma::test {

/* Memory for results of calls; a member struct_size is set. */
class memory_for_results {
public:
	template <class T> T *out()
	{
		next_ = (next_ + 1) % 8;
		memset(buf_[next_], 0, sizeof(buf_[0]));
		auto *p = reinterpret_cast<std::remove_const_t<T> *>(buf_[next_]);
		if constexpr (requires { p->struct_size; })
			p->struct_size = sizeof(T);
		return p;
	}

private:
	unsigned next_ = 0;
	alignas(64) unsigned char buf_[8][4096];
};

/* A pointer that converts to any pointer type. */
struct any_pointer {
	void *p = nullptr;
	template <class T> operator T *() const { return static_cast<T *>(p); }
};

template <class W> struct named_call {
	std::string name;
	long (*call)(W &w);
};

template <class F> long value_of(const F &call)
{
	using result = decltype(call());

	if constexpr (std::is_void_v<result>) {
		call();
		return 0;
	} else if constexpr (std::is_pointer_v<result>) {
		return call() != nullptr;
	} else {
		return long(call());
	}
}

/* The words of a text. */
inline std::set<std::string> words(const char *text)
{
	std::istringstream in(text);

	return {std::istream_iterator<std::string>(in), {}};
}

/* Result of one call. */
struct outcome {
	int returned;
	long value;
	int status; /* of the child, as by waitpid(2) */
};

/* How to make a child with a copy of the memory; the handlers of pthread_atfork() run in the first one only. */
enum class birth { by_fork, by_bare_fork, by_clone };

/* What the sanitizers need to know of is fork() alone. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr birth all_births[] = {birth::by_fork};
#else
inline constexpr birth all_births[] = {birth::by_fork, birth::by_bare_fork, birth::by_clone};
#endif

inline pid_t give_birth(birth how)
{
	if (how == birth::by_clone)
		return pid_t(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	return how == birth::by_fork ? fork() : _Fork();
}

/* Makes the call in a child process, which is killed after ten seconds. */
template <class W> outcome in_child(W &w, const named_call<W> &c, birth how)
{
	auto *shared = static_cast<outcome *>(
		mmap(nullptr, sizeof(outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	assert_ptr_not_equal(shared, MAP_FAILED);
	const pid_t child = give_birth(how);

	if (!child) {
		/* cmocka's handlers would continue with the next test. */
		for (const int sig : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE})
			signal(sig, SIG_DFL);
		alarm(unsigned(patience_ms(10000) / 1000));
		shared->value = c.call(w);
		shared->returned = 1;
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &shared->status, 0), child);
	const outcome o = *shared;
	munmap(shared, sizeof(*shared));
	return o;
}

/* Two threads that make calls while the process forks. */
class busy_threads {
public:
	template <class F> explicit busy_threads(F turn)
	{
		for (int i = 0; i < 2; i++)
			all_.emplace_back([=, this] {
				while (!stop_)
					turn(i);
			});
	}
	~busy_threads()
	{
		stop_ = true;
		for (auto &t : all_)
			t.join();
	}

private:
	std::atomic<bool> stop_{false};
	std::vector<std::thread> all_;
};

/* Makes each call in a child; returns how many do not return `refusal`, of those that need a device. */
template <class W>
int not_refused(W &w, const std::vector<named_call<W>> &calls, const std::set<std::string> &need_no_device,
		long refusal, birth how)
{
	int wrong = 0;

	for (const auto &c : calls) {
		const outcome o = in_child(w, c, how);

		if (o.returned && WIFEXITED(o.status) && (o.value == refusal || need_no_device.contains(c.name)))
			continue;
		print_error("%s in a child (%d): %s, %ld, status 0x%x\n", c.name.c_str(), int(how),
			    o.returned ? "returned" : "did not return", o.value, unsigned(o.status));
		wrong++;
	}
	return wrong;
}

/*
 * Makes each call in children of all kinds, and in those of fork() with busy threads as well, whose locks of the C
 * library no other child may use.
 */
template <class W, class F>
void refuse_in_children(W &w, const std::vector<named_call<W>> &calls, const std::set<std::string> &need_no_device,
			long refusal, F turn)
{
	int wrong = 0;

	for (const birth how : all_births)
		wrong += not_refused(w, calls, need_no_device, refusal, how);
	const busy_threads others(turn);
	wrong += not_refused(w, calls, need_no_device, refusal, birth::by_fork);
	assert_int_equal(wrong, 0);
}

/* Another thread is in read sections, so that each grace period has to wait for it, longer than it spins. */
class held_sections {
public:
	held_sections()
	{
		t_ = std::thread([this] {
			while (!stop_) {
				const core::read_section in;
				const timespec some = {0, 1'000'000};

				inside_ = true;
				nanosleep(&some, nullptr);
			}
		});
		while (!inside_)
			std::this_thread::yield();
	}
	~held_sections()
	{
		stop_ = true;
		t_.join();
	}

private:
	std::atomic<bool> stop_{false}, inside_{false};
	std::thread t_;
};

/* A call by a thread with a pending cancellation: the first cancellation point would end the thread. */
template <class W> struct cancelled_call {
	W *w;
	const named_call<W> *call;
	bool returned = false, left = false;
	long value = 0;
	void (*before)() = nullptr;

	static void leave(void *arg) { static_cast<cancelled_call *>(arg)->left = true; }
	static void *main(void *arg)
	{
		auto *c = static_cast<cancelled_call *>(arg);

		if (c->before)
			c->before();
		pthread_cleanup_push(leave, c);
		pthread_cancel(pthread_self());
		c->value = c->call->call(*c->w);
		c->returned = true;
		pthread_testcancel();
		pthread_cleanup_pop(0);
		return nullptr;
	}
	/* Returns true if the call returned and the thread was cancelled after it. */
	bool run()
	{
		const held_sections held;
		pthread_t t;
		void *end = nullptr;

		assert_int_equal(pthread_create(&t, nullptr, main, this), 0);
		assert_int_equal(pthread_join(t, &end), 0);
		return returned && left && end == PTHREAD_CANCELED;
	}
};

} // namespace usdma::test

/* A line of the output of calls.py. */
#define CALL(name, expression)                                                                                         \
	{#name, [](world &w) {                                                                                         \
		 (void)w;                                                                                              \
		 return usdma::test::value_of([&] { return expression; });                                             \
	 }},
