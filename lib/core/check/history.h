/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of a program's operations, and the accesses that have none (happens-before). Pure: knows neither devices
 * nor threads, and takes no lock; the caller reports what the program does.
 *
 * A thread and a stream are contexts. An operation of a stream happens after what its thread did before it submitted
 * it, and after the stream's earlier operations. A signal carries the order from where it was given to those that
 * waited for it: an event's record, a host function's end, a value, a notify. A stream may wait for a signal that is
 * given later: its operations are then queued here until that is.
 */
#pragma once

#include "lib/core/check/access_map.h"
#include "lib/core/check/tsan_edges.h"
#include "lib/core/check/unwritten.h"

#include <deque>
#include <memory>
#include <span>

namespace usdma::core {

/* Given at most once. Shared by who gives it and those who wait for it. */
class order_signal {
public:
	bool given() const { return given_; }
	/* It is a value at this address, which the CPU may write and read, too. */
	void is_word(u64 address) { word_ = address; }

private:
	friend class history;
	bool given_ = false;
	bool blind_ = false;
	vector_clock clock_;
	u64 word_ = 0;
};
using signal_ref = std::shared_ptr<order_signal>;

struct stream_access {
	byte_range where;
	bool writes;
};

class history {
public:
	using report = access_map::report;

	history(report found, void *arg, size_t max_ranges = access_map::default_ranges)
		: accesses_(max_ranges), found_(found), arg_(arg)
	{
	}

	/* Forwards all edges to it, and accesses of streams to f, when they take effect. Context 0 is the threads then.
	 */
	using forward_accesses = void (*)(void *arg, context_id stream, std::span<const stream_access> what,
					  u32 operation);
	void forward(tsan_edges *to, forward_accesses f)
	{
		edges_ = to;
		forward_ = f;
	}

	/* ~0: no memory; the other calls ignore it. A context's number is used again after it was removed. */
	context_id add_thread() { return add(false); }
	context_id add_stream() { return add(true); }
	/* A stream has no queued operations. */
	void remove(context_id c);

	/* ---- what a thread submits to a stream ---- */
	/* Returns the stream's time of it; 0: it waits. */
	u64 submit(context_id stream, context_id thread, std::span<const stream_access> what, u32 operation);
	/* The stream gives the signal when it gets here. */
	void submit_signal(context_id stream, context_id thread, const signal_ref &s);
	/* Later operations of the stream happen after the signal. */
	void submit_wait(context_id stream, context_id thread, const signal_ref &s);

	/* ---- what a thread does ---- */
	void access(context_id thread, byte_range where, bool writes, u32 operation);
	void give(context_id thread, const signal_ref &s);
	void waited_for(context_id thread, const order_signal &s);
	/* As give(), by means unseen here: after all operations so far. */
	void give_unseen(const signal_ref &s);
	/*
	 * All that was submitted to the stream before its mark was taken has ended. What it waited for and was not
	 * given was given by means unseen here. What another thread submitted since may still wait.
	 */
	void waited_for_stream(context_id thread, context_id stream, u64 mark = everything);
	static constexpr u64 everything = ~u64(0);
	u64 mark(context_id stream) const
	{
		return stream < contexts_.size() ? contexts_[stream].left + contexts_[stream].queue.size() : 0;
	}
	/* The signal, which the stream gives, was given. */
	void reach(context_id stream, const order_signal &s);

	/* What the stream did at that time happened before what the thread does now. */
	bool knows(context_id thread, context_id stream, u64 time) const { return latest(thread, stream) >= time; }
	/* The time of the stream up to which that is so. */
	u64 latest(context_id thread, context_id stream) const
	{
		return thread < contexts_.size() ? contexts_[thread].clock.at(stream) : 0;
	}
	/* Accesses are behind signals that are not given: each_write() lacks them. */
	bool is_behind() const { return queued_ != 0; }
	template <class F> void each_write(byte_range r, const F &f) const { accesses_.each_write(r, f); }
	void forget(byte_range r)
	{
		accesses_.forget(r);
		unwritten_.remove(r);
		if (queued_)
			forget_queued(r);
	}
	/* ---- memory whose first read is reported if nothing has written it ---- */
	void allocated(byte_range r)
	{
		if (!writes_unseen_)
			unwritten_.add(r);
	}
	/* By means unseen here. */
	void written(byte_range r) { unwritten_.remove(r); }
	/* There may be writes at any address, or some were lost: all memory counts as written from now on. */
	void writes_unseen()
	{
		writes_unseen_ = true;
		unwritten_.clear();
	}

	struct counts {
		access_counts accesses;
		u64 unwritten_forgotten = 0;
		u64 unseen_signals = 0; /* a stream passed a wait for a signal that was not given */
		u64 queued_forgotten = 0;
		u64 no_memory = 0;
	};
	counts result() const
	{
		counts c = counts_;

		c.accesses = accesses_.counts();
		c.unwritten_forgotten = unwritten_.forgotten();
		return c;
	}

	static constexpr size_t max_queued = 1 << 16; /* operations behind signals that are not given */

private:
	/* An operation of a stream behind a wait. */
	struct queued {
		enum class kind : u8 { access, give, wait } what;
		vector_clock from; /* the thread's at submission */
		std::vector<stream_access> accesses;
		u32 operation = 0;
		signal_ref signal;
	};
	struct context {
		vector_clock clock;
		u64 time = 1;
		u64 version = 1;     /* of the clock */
		bool shared = false; /* its time was passed on since its last access */
		bool is_stream = false, used = false;
		bool blind = false;    /* it waited by means unseen: what it is ordered after is unknown to edges_ */
		context_id from = ~0u; /* the thread whose clock was joined last, */
		u64 from_version = 0;  /* at this version */
		std::deque<queued> queue;
		u64 left = 0; /* how many left the queue */
	};

	context_id add(bool stream);
	context *get(context_id c) { return c < contexts_.size() && contexts_[c].used ? &contexts_[c] : nullptr; }
	void count(bool ok) { counts_.no_memory += !ok; }
	void lost(u64 *counter)
	{
		++*counter;
		writes_unseen();
	}
	void tick(context *c, context_id id);
	void join(context *to, const vector_clock &from);
	void begin(context *stream, context_id id, context *thread, context_id thread_id);
	void pass_on(context *c, vector_clock *to);
	void pass_all(vector_clock *to);
	void give_signal(context *c, context_id id, order_signal *s);
	void take_signal(context *c, context_id id, const order_signal &s);
	void join_unseen(context *stream, context_id id, u64 word);
	bool write_is_queued(byte_range r, context_id but) const;
	void forget_queued(byte_range r);
	void check_unwritten(const stream_access &a, const access_stamp &by);
	void run_access(context *c, context_id id, std::span<const stream_access> what, u32 operation);
	bool enqueue(context *stream, context *thread, queued &&q);
	void drain(context_id stream, bool force);
	template <class F> void drain_by_force(context_id stream, const F &enough);
	void drain_all();

	std::deque<context> contexts_;
	std::vector<context_id> free_;
	access_map accesses_;
	unwritten_ranges unwritten_;
	bool writes_unseen_ = false;
	size_t queued_ = 0;
	counts counts_;
	report found_;
	void *arg_;
	tsan_edges *edges_ = nullptr;
	forward_accesses forward_ = nullptr;
};

} // namespace usdma::core
