/* SPDX-License-Identifier: BSD-3-Clause */
/* The measuring loops of one thread. */
#pragma once

#include "tools/interrupt.h"
#include "tools/perf/api.h"
#include "tools/perf/clock.h"
#include "tools/perf/cpu_use.h"
#include "tools/perf/memory.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

namespace usdma::perf {

/* Limit of stored samples of each type in a repeat; further samples are dropped. */
inline constexpr size_t most_samples = 1 << 18;

struct samples {
	samples() { v.reserve(most_samples); }
	void add(u64 t)
	{
		if (v.size() < most_samples)
			v.push_back(t);
	}
	std::vector<u64> v;
};

/* False after a signal, too. */
inline bool time_left(u64 until)
{
	return now_ns() < until && !tool::interrupted();
}

/* One copy is made, unless interrupted: a busy machine may take all of a short time. */
inline bool goes_on(u64 made, u64 until)
{
	return made ? time_left(until) : !tool::interrupted();
}

/*
 * On a shared machine this thread or the engine is preempted for milliseconds
 * now and then.  The rate is therefore measured in much shorter windows: their
 * median is the undisturbed rate, the mean over the whole time the actual one.
 */
inline constexpr u64 rate_window_ns = 300 * ns_per_us;

struct window {
	explicit window(std::vector<double> &to) : out(to), length(u64(double(rate_window_ns) / ns_per_tick())) {}
	void sample(u64 copies)
	{
		const u64 now = ticks();

		if (now - start < length)
			return;
		out.push_back(double(copies - from) / double(now - start));
		start = now;
		from = copies;
	}
	std::vector<double> &out;
	u64 length, start = ticks(), from = 0;
};

/* The results of one thread in one repeat. */
struct share {
	samples latency, submit;
	std::vector<double> rates; /* copies per tick in each window */
	u64 copies = 0, ns = 0, cpu_ns = 0;
};

/* A job on a device, which may run at the same time as others. */
struct flow {
	perf::job job;
	bench_device *dev;
	bench_device *source = nullptr; /* whose memory a copy between devices reads; nullptr: dev's */
};

/* What the threads of a flow measured. */
struct taken {
	std::vector<std::vector<share>> shares; /* by thread and repeat; the first repeat is the warm-up */
	std::vector<u64> engine_ns;             /* CPU time of this process's engines, by repeat */
	size_t area = 0;                        /* bytes of each side of a thread's memory */
	bool alone = false;                     /* no other flow ran at the same time */
};

/*
 * Runs the flows at the same time, with equal seconds and repeats; before_repeat: called by one thread before all
 * threads start a repeat. Throws std::runtime_error.
 */
std::vector<taken> take(const std::vector<flow> &flows, const std::function<void()> &before_repeat = nullptr);
outcome sum_up(const job &j, taken t);

/* The rectangle of a 2D copy. */
struct shape {
	size_t width, rows, pitch;
};

inline shape shape_of(size_t size)
{
	const size_t rows = size >= 4096 ? 16 : 4;

	return {size / rows, rows, size / rows * 2};
}

/* The times at which a thread submits its groups of copies: evenly spread, and between those of the other threads. */
class schedule {
public:
	/* rate: groups a second of all threads */
	schedule(double rate, unsigned k, unsigned threads)
		: step_(double(threads) / rate * 1e9 / ns_per_tick()), at_(double(ticks()) + step_ * k / threads),
		  stride_(1)
	{
	}
	/* So that a repeat has at most so many samples, its last ones included. */
	void sample_for(double seconds)
	{
		stride_ = 1 + u64(seconds * 1e9 / ns_per_tick() / step_ / double(most_samples));
	}
	u64 due() const { return u64(at_ + double(n_) * step_); }
	bool sampled() const { return n_ % stride_ == 0; }
	void next() { n_++; }

private:
	double step_, at_;
	u64 stride_, n_ = 0;
};

template <class Api> class worker {
public:
	/* k: the number of this thread among all those of the job */
	worker(Api &a, const job &j, const part &p, unsigned k)
		: a_(a), j_(j), p_(p), k_(k), slots_(slots_in(p.bytes, slot_bytes(j)))
	{
		for (unsigned i = 0; i < j.streams; i++)
			streams_.push_back(a_.open(j.wait));
		group_ = grouped() ? j.batch : j.mark_each ? 1 : std::max(1u, j.depth / 4);
		most_ = std::max(1u, j.depth / group_);
		prepare();
	}
	~worker()
	{
		for (const outstanding &o : flying_)
			free_.push_back(o.mark);
		for (auto s : streams_)
			a_.close(s);
		for (auto e : free_)
			a_.unmark(e);
	}
	worker(const worker &) = delete;

	void run(u64 until, share &out);
	/* The number of different slots written; they are the first ones in slot order. */
	u64 visited() const
	{
		return std::min<u64>(next_, grouped()      ? batches_.size() * group_ :
					    descs_.empty() ? slots_ :
							     descs_.size());
	}
	size_t slots() const { return slots_; }

private:
	struct outstanding {
		typename Api::event mark;
		u64 start;
		bool sampled = true;
	};

	bool grouped() const { return j_.kind == copy_kind::batch; }
	void prepare();
	int one();
	int group(typename Api::stream s);
	void one_at_a_time(u64 until, share &out);
	void several(u64 until, share &out);
	void by_schedule(u64 until, share &out);
	int submit_due(const schedule &at, share &out);
	int collect(share &out);
	void leave_behind(schedule at, u64 end, share &out);
	int retire(share &out);
	typename Api::stream stream() { return streams_[turn_++ % streams_.size()]; }

	Api &a_;
	const job &j_;
	part p_;
	unsigned k_;
	size_t slots_;
	std::vector<typename Api::stream> streams_;
	std::vector<typename Api::event> free_;
	std::deque<outstanding> flying_;
	std::vector<typename Api::batch> batches_;
	std::vector<u8 *> descs_;
	unsigned group_ = 1, most_ = 1;
	u64 next_ = 0, turn_ = 0;
};

/* Builds the arrays of batches and the descriptors in device memory before the clock starts. */
template <class Api> void worker<Api>::prepare()
{
	const size_t calls = std::max<size_t>(1, std::min<size_t>(slots_, 4096) / group_);

	for (size_t c = 0; c < calls && grouped(); c++) {
		batches_.emplace_back();
		for (unsigned i = 0; i < group_; i++) {
			const size_t at = slot_of(c * group_ + i, slots_) * j_.size;

			batches_.back().add(p_.dst + at, p_.src + at, j_.size, j_.kind);
		}
	}
	for (size_t i = 0; i < std::min<size_t>(slots_, desc_most) && j_.kind == copy_kind::desc; i++) {
		const size_t at = slot_of(i, slots_) * j_.size;

		descs_.push_back(p_.desc + i * 64);
		must(a_.prepare_desc(descs_.back(), p_.dst + at, p_.src + at, j_.size), "descriptor");
	}
	for (unsigned i = 0; i < most_; i++)
		free_.push_back(a_.mark());
}

template <class Api> inline int worker<Api>::group(typename Api::stream s)
{
	if (j_.kind == copy_kind::batch) {
		const int err = a_.many(s, batches_[next_ / group_ % batches_.size()]);

		next_ += group_;
		return err;
	}
	for (unsigned i = 0; i < group_; i++) {
		const size_t at = slot_of(next_, slots_) * slot_bytes(j_);
		int err;

		if (j_.kind == copy_kind::rect) {
			const shape r = shape_of(j_.size);

			err = a_.rect(s, p_.dst + at, p_.src + at, r.width, r.rows, r.pitch, j_.kind);
		} else if (j_.kind == copy_kind::desc) {
			err = a_.run_desc(s, descs_[next_ % descs_.size()]);
		} else {
			err = a_.copy(s, p_.dst + at, p_.src + at, j_.size, j_.kind);
		}
		if (err)
			return err;
		next_++;
	}
	return 0;
}

/* Waits for each copy. Submit time and latency are measured alternately: a time stamp between would add to both. */
template <class Api> void worker<Api>::one_at_a_time(u64 until, share &out)
{
	window w(out.rates);
	int err = 0;

	w.from = next_;
	for (u64 i = 0; !err && ((i & 15) || goes_on(i, until)); i++) {
		const auto s = stream();
		const u64 t0 = ticks();

		err = group(s);
		if (i & 1)
			out.submit.add((ticks() - t0) / group_);
		err = err ? err : a_.sync(s);
		if (!(i & 1))
			out.latency.add(ticks() - t0);
		w.sample(next_);
	}
	must(err, "copy");
}

/* Waits for the oldest group. */
template <class Api> int worker<Api>::retire(share &out)
{
	const outstanding o = flying_.front();
	const int err = a_.wait_for(o.mark);

	out.latency.add(ticks() - o.start);
	flying_.pop_front();
	free_.push_back(o.mark);
	return err;
}

template <class Api> void worker<Api>::several(u64 until, share &out)
{
	window w(out.rates);
	int err = 0;

	w.from = next_;
	for (u64 i = 0; !err && goes_on(i, until); i++) {
		const auto s = stream();

		if (flying_.size() == most_) {
			err = retire(out);
			w.sample(next_);
		}
		const outstanding o = {free_.back(), ticks(), true};
		free_.pop_back();
		err = err ? err : group(s);
		out.submit.add((ticks() - o.start) / group_);
		err = err ? err : a_.record(o.mark, s);
		flying_.push_back(o);
	}
	while (!err && !flying_.empty())
		err = retire(out);
	must(err, "copy");
}

/* ---- by a schedule ---------------------------------------------------------------------------------- */

template <class Api> int worker<Api>::submit_due(const schedule &at, share &out)
{
	const auto s = stream();
	const outstanding o = {free_.back(), at.due(), at.sampled()};
	const u64 start = ticks();
	int err = group(s);

	if (at.sampled())
		out.submit.add((ticks() - start) / group_);
	free_.pop_back();
	err = err ? err : a_.record(o.mark, s);
	flying_.push_back(o);
	return err;
}

/* Takes the copies that have ended since. */
template <class Api> int worker<Api>::collect(share &out)
{
	int done = 0;

	while (!flying_.empty() && (done = a_.reached(flying_.front().mark)) > 0) {
		const outstanding &o = flying_.front();

		if (o.sampled)
			out.latency.add(ticks() - o.start);
		free_.push_back(o.mark);
		flying_.pop_front();
	}
	return std::min(done, 0);
}

/* Copies whose time came, but that could not be submitted by the end: they have waited so long at least. */
template <class Api> void worker<Api>::leave_behind(schedule at, u64 end, share &out)
{
	for (; at.due() < end; at.next())
		if (at.sampled())
			out.latency.add(end - at.due());
}

/*
 * Submits at the times of a schedule, however long the copies take (an open loop). The latency counts from the
 * scheduled time: a copy that waited for its turn, or for another one to end because depth are in flight, has that
 * wait in its latency.
 */
template <class Api> void worker<Api>::by_schedule(u64 until, share &out)
{
	const double seconds = std::max(0.0, double(until) - double(now_ns())) / 1e9;
	const u64 end = ticks() + u64(seconds * 1e9 / ns_per_tick());
	schedule at(j_.rate / group_, k_, j_.threads * j_.processes);
	int err = 0;

	at.sample_for(seconds);
	for (u64 i = 0; !err && (!i || ticks() < end) && !tool::interrupted(); i++) {
		err = collect(out);
		if (err || flying_.size() == most_ || ticks() < at.due())
			continue;
		err = submit_due(at, out);
		at.next();
	}
	leave_behind(at, std::min(end, ticks()), out);
	while (!err && !flying_.empty())
		err = collect(out);
	for (const auto s : streams_)
		err = err ? err : a_.sync(s);
	must(err, "copy");
}

template <class Api> void worker<Api>::run(u64 until, share &out)
{
	const u64 before = next_, start = now_ns(), cpu = thread_cpu_ns();

	if (j_.rate > 0)
		by_schedule(until, out);
	else if (most_ == 1 || is_pageable(j_.kind))
		one_at_a_time(until, out);
	else
		several(until, out);
	out.ns = now_ns() - start;
	out.cpu_ns = thread_cpu_ns() - cpu;
	out.copies = next_ - before;
}

} // namespace usdma::perf
