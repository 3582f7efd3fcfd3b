/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects are destroyed, each by two threads at once, while other threads use them: shared by the tests of the
 * native API and of ACL.
 */
#pragma once

#include "tests/support/test.h"

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace usdma::test {

/* Recent handles of destroyed objects. */
template <class T> struct dead_handles {
	static constexpr size_t size = 64;
	std::array<std::atomic<T>, size> of{};
	std::atomic<unsigned> next{0};

	void add(T h) { of[next++ % size] = h; }
	T any(std::mt19937_64 &gen) const { return of[gen() % size]; }
};

/* The valid return values of a round's calls, and the count of other values. */
struct rules {
	std::set<long> good;
	const char *(*text)();
	bool (*is_refusal)(long ret); /* destroy returned that another thread destroyed it */
	std::atomic<int> wrong{0};
	std::atomic<bool> stop{false};

	void bad(const char *call, long ret, const char *why)
	{
		if (!wrong++)
			print_error("%s: %ld (%s): %s\n", call, ret, text(), why);
	}
	void expect(const char *call, long ret)
	{
		if (!good.contains(ret))
			bad(call, ret, "unexpected error code");
	}
	/* Two threads call end() at once: one succeeds, the other is refused. */
	template <class F> void twice(const char *call, long refused, F end)
	{
		std::atomic<int> done{0}, refusals{0};
		std::vector<std::thread> all;

		for (int i = 0; i < 2; i++)
			all.emplace_back([&] {
				const long ret = end();

				done += ret == 0;
				refusals += ret == refused;
			});
		for (auto &t : all)
			t.join();
		if (done != 1 || refusals != 1)
			bad(call, done, "not exactly one of two threads succeeded");
	}
	/* Destroys an object that others use; only the thread whose destroy succeeded stores a new one in the slot. */
	template <class T, class D, class C>
	void replace(const char *call, std::atomic<T> &at, dead_handles<T> *dead, D destroy, C create)
	{
		T was = at, next;
		const long ret = destroy(was);

		expect(call, ret);
		if (is_refusal(ret))
			return;
		dead->add(was);
		if (const long err = create(&next))
			return bad(call, err, "cannot create an object on an open device");
		if (at.exchange(next) != was)
			bad(call, ret, "two threads destroyed one object");
	}
};

/* A call with the arguments that the user has chosen. */
template <class U> struct user_call {
	const char *name;
	long (*run)(U &u);
};

template <class U, size_t n> void make_any(U &u, const user_call<U> (&calls)[n])
{
	const user_call<U> &c = calls[u.gen() % n];

	u.r.expect(c.name, c.run(u));
}

/* A call on a dead handle is refused, although a new object uses its slot. */
template <class U, size_t n> void refuses_any(U &u, const user_call<U> (&calls)[n])
{
	const user_call<U> &c = calls[u.gen() % n];
	const long ret = c.run(u);

	if (!u.r.is_dead(ret))
		u.r.bad(c.name, ret, "its object was destroyed before");
}

static constexpr uint64_t n_users = 4;

/* Users make calls while other threads destroy objects, and while end() closes the device. */
template <class U, class R, class E> void race(R &r, uint64_t number, uint64_t most_kills, E end)
{
	auto gen = rng(number);
	std::vector<std::unique_ptr<U>> users;
	std::vector<std::thread> using_it, killing;

	for (uint64_t i = 0; i < n_users; i++) {
		users.push_back(std::make_unique<U>(r, number * 100 + i));
		using_it.emplace_back([&r, u = users.back().get()] {
			while (!r.stop) {
				u->step();
				if (u->gen() % 8 == 0)
					std::this_thread::yield();
			}
		});
	}
	for (uint64_t i = 0; i < 2; i++)
		killing.emplace_back([&r, own = rng(1000 + number * 100 + i), n = gen() % most_kills]() mutable {
			for (; n; n--)
				own() % 2 ? r.kill_stream(own) : r.kill_event(own);
		});
	for (auto &t : killing)
		t.join();
	end(gen);
	for (uint64_t i = gen() % 200; i; i--)
		std::this_thread::yield();
	r.stop = true;
	for (auto &t : using_it)
		t.join();
}

} // namespace usdma::test
