/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Model checking: searches all interleavings of a few threads.
 *
 * The threads run real code over the cells below.  Each access is a step; the search takes every step of every thread
 * in every state, and every effect that the memory model allows.  A thread's position in its code is the list of the
 * results of its steps so far: to continue, the code is run again from its start with these results, up to the next
 * step.  So the code must depend only on its steps, end by itself (await() instead of a loop that waits) and need no
 * destructors.  A state is visited once.
 *
 * Two memory models:
 *   tso    x86: a store goes to the thread's FIFO store buffer and leaves it at any later time; locked RMWs and fences
 *          wait until the buffer is empty.
 *   views  C++ (and weaker CPUs): a load may return any store that the thread has not seen overwritten; an acquire that
 *          reads a release orders what came before it.  Plain accesses without such an order are data races, which
 *          are reported.  Not modelled: a load that returns a later store.
 *
 * Both execute plain accesses immediately, which is correct only without data races: use both models.
 *
 * Reported: two holders at once (enter), a check() that fails, a data race, a "deadlock".
 *
 *	world w(model::tso, 2);
 *	cell<u32> flag;
 *	result r = w.explore([&](unsigned thread) { ... });
 */
#pragma once

#include "driver/base/types.h"

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace usdma::interleave {

enum class model : u8 { tso, views };

enum class act : u8 {
	end,
	failed,
	load,
	store,
	exchange,
	await,
	lock,
	try_lock,
	unlock,
	fence,
	fence_some,
	plain_load,
	plain_store,
	enter,
	leave,
	mark,
};

/* A thread's next step.  strong: acquire or release; value: an index into the values, see value_index(). */
struct step {
	act what = act::end;
	u8 cell = 0, value = 0;
	bool strong = false;
	const char *text = nullptr;
};

struct result {
	std::string failure;            /* empty: none */
	std::vector<std::string> trace; /* the steps to the failure */
	size_t states = 0, ends = 0;
};

class search;

class world {
public:
	static constexpr unsigned max_threads = 3, max_cells = 8, max_plain = 12, max_mutexes = 2;

	world(model m, unsigned threads);
	~world();
	world(const world &) = delete;
	world &operator=(const world &) = delete;

	/* Call it once for each world.  Stops at the first failure. */
	result explore(const std::function<void(unsigned)> &body);

	/* Injected errors.  same_cell(): two cells, by number, share memory; call it before the cells are made. */
	void same_cell(u8 first, u8 second) { same_[second] = first; }
	bool no_release = false, no_acquire = false; /* releases and acquires order nothing */
	bool lost_release = false;                   /* a release of 0 is not stored */
	bool bare_exchange = false; /* exchange_fence() without its fence, which only x86 does not need; model::views */

	/* For the cells. */
	static world *current;
	u8 add(act kind, u64 value);
	u64 perform(act what, u8 cell, u64 value = 0, bool strong = false);
	[[noreturn]] void give_up(const char *text);
	unsigned self() const { return self_; }
	unsigned threads() const { return threads_; }
	void skip_next_load() { skip_ = true; }

private:
	friend class search;

	/* A thread's position, as a node in a tree of results. */
	struct position {
		u32 parent;
		u8 result;
		step next;
	};

	u8 value_index(u64 value);
	u32 position_after(unsigned thread, u32 parent, u8 result);
	step run_to(unsigned thread, const std::vector<u8> &results);
	void run_body();
	[[noreturn]] void stop(const step &s);

	const model model_;
	const unsigned threads_;
	unsigned self_ = 0;
	u8 same_[max_cells];
	std::vector<u8> initial_[3]; /* of cells, plain cells, mutexes */
	std::vector<u64> values_{0};
	struct positions;
	std::unique_ptr<positions> positions_;
	/* While the code runs. */
	const std::function<void(unsigned)> *body_ = nullptr;
	const std::vector<u8> *results_ = nullptr;
	size_t at_ = 0;
	u64 last_load_ = 0;
	bool skip_ = false;
	step next_;
};

/* ---- what the code accesses: an atomic word, plain memory, a mutex ------------------------------------- */

template <class T> class cell {
public:
	cell(T v = {}) : id_(world::current->add(act::load, u64(v))) {}
	cell(const cell &) = delete;
	cell &operator=(const cell &) = delete;
	u8 id() const { return id_; }

private:
	const u8 id_;
};

template <class T> u64 as_number(T v)
{
	if constexpr (std::is_pointer_v<T>)
		return reinterpret_cast<u64>(v);
	else
		return u64(v);
}

template <class T> class plain {
public:
	plain(T v = {}) : id_(world::current->add(act::plain_load, as_number(v))) {}
	plain(const plain &) = delete;
	plain &operator=(const plain &) = delete;
	plain &operator=(T v)
	{
		world::current->perform(act::plain_store, id_, as_number(v));
		return *this;
	}
	operator T() const
	{
		const u64 v = world::current->perform(act::plain_load, id_);

		if constexpr (std::is_pointer_v<T>)
			return reinterpret_cast<T>(v);
		else
			return T(v);
	}

private:
	const u8 id_;
};

class mutex {
public:
	mutex() : id_(world::current->add(act::lock, 0)) {}
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;
	void lock() { world::current->perform(act::lock, id_); }
	bool try_lock() { return world::current->perform(act::try_lock, id_) != 0; }
	void unlock() { world::current->perform(act::unlock, id_); }

private:
	const u8 id_;
};

/* ---- the names of driver/base/barrier.h ---------------------------------------------------------------- */

template <class T> T load_relaxed(const cell<T> *c)
{
	return T(world::current->perform(act::load, c->id()));
}

template <class T> T load_acquire(const cell<T> *c)
{
	return T(world::current->perform(act::load, c->id(), 0, true));
}

/* The cell that a plain pointer refers to. */
template <class T> cell<T> *pointed(const plain<cell<T> *> &p)
{
	cell<T> *const at = p;

	if (!at)
		world::current->give_up("a null pointer is followed");
	return at;
}

template <class T> T load_acquire(const plain<cell<T> *> &p)
{
	return load_acquire(pointed(p));
}

template <class T> void store_relaxed(cell<T> *c, T v)
{
	world::current->perform(act::store, c->id(), u64(v));
}

template <class T> void store_release(cell<T> *c, T v)
{
	world::current->perform(act::store, c->id(), u64(v), true);
}

template <class T> void store_release(const plain<cell<T> *> &p, T v)
{
	store_release(pointed(p), v);
}

/* What dma_rmb and dma_wmb add counts for devices only, which are threads here. */
template <class T> T load_device(const cell<T> *c)
{
	return load_acquire(c);
}

template <class T> void store_device(cell<T> *c, T v)
{
	store_release(c, v);
}

template <class T> void store_fence(cell<T> *c, T v)
{
	world::current->perform(act::exchange, c->id(), u64(v), true);
}

template <class T> void store_fence(const plain<cell<T> *> &p, T v)
{
	store_fence(pointed(p), v);
}

template <class T> T exchange_fence(cell<T> *c, T v)
{
	return T(world::current->perform(act::exchange, c->id(), u64(v), true));
}

/* Replaces a loop of acquire loads until the value is v. */
template <class T> void await(const cell<T> *c, T v)
{
	world::current->perform(act::await, c->id(), u64(v), true);
}

inline void fence()
{
	world::current->perform(act::fence, 0);
}

/* membarrier(2): each other thread passes a full barrier at some time between the call and its return. */
void fence_all();

/* ---- assertions and hints of the test ------------------------------------------------------------------ */

/* The caller is the only holder from here until leave().  Returns how often enter() was called before. */
inline u32 enter()
{
	return u32(world::current->perform(act::enter, 0));
}

inline void leave()
{
	world::current->perform(act::leave, 0);
}

/*
 * From here on the thread depends on n only, not on earlier results.  Positions at the same mark are then merged, which
 * shortens the search: between two rounds of a loop, n is the round.
 */
inline void mark(u32 n)
{
	world::current->perform(act::mark, 0, n);
}

inline void check(bool right, const char *text)
{
	if (!right)
		world::current->give_up(text);
}

} // namespace usdma::interleave
