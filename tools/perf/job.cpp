/* SPDX-License-Identifier: BSD-3-Clause */
/* The measuring loops. */
#include "tools/perf/job.h"

#include "lib/core/stream/event.h"
#include "tools/interrupt.h"
#include "tools/perf/api.h"
#include "tools/perf/clock.h"
#include "tools/perf/cpu_use.h"
#include "tools/perf/memory.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <thread>

namespace usdma::perf {

const char *name_of(copy_kind kind)
{
	static constexpr const char *names[] = {"h2d", "d2h",   "d2d",  "page-h2d", "page-d2h",
						"2d",  "batch", "desc", "sync"};

	return names[size_t(kind)];
}

const char *name_of(wait mode)
{
	static constexpr const char *names[] = {"default", "poll", "interrupt", "hybrid"};

	return names[size_t(mode)];
}

bool is_pageable(copy_kind kind)
{
	return kind == copy_kind::page_h2d || kind == copy_kind::page_d2h;
}

bool have_acl()
{
	return USDMA_PERF_ACL;
}

namespace {

/* Limit of stored samples of each type in a repeat; further samples are dropped. */
constexpr size_t most_samples = 1 << 18;

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
bool time_left(u64 until)
{
	return now_ns() < until && !tool::interrupted();
}

/*
 * On a shared machine this thread or the engine is preempted for milliseconds
 * now and then.  The rate is therefore measured in much shorter windows: their
 * median is the undisturbed rate, the mean over the whole time the actual one.
 */
constexpr u64 window_ns = 300 * ns_per_us;

struct window {
	explicit window(std::vector<double> &to) : out(to), length(u64(double(window_ns) / ns_per_tick())) {}
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
	std::string error;
};

/* The rectangle of a 2D copy. */
struct shape {
	size_t width, rows, pitch;
};

shape shape_of(size_t size)
{
	const size_t rows = size >= 4096 ? 16 : 4;

	return {size / rows, rows, size / rows * 2};
}

template <class Api> class worker {
public:
	worker(Api &a, const job &j, const part &p) : a_(a), j_(j), p_(p), slots_(slots_in(p.bytes, slot_bytes(j)))
	{
		for (unsigned i = 0; i < j.streams; i++)
			streams_.push_back(a_.open(j.wait));
		group_ = grouped() ? j.batch : std::max(1u, j.depth / 4);
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
	};

	bool grouped() const { return j_.kind == copy_kind::batch; }
	void prepare();
	int one();
	int group(typename Api::stream s);
	void one_at_a_time(u64 until, share &out);
	void several(u64 until, share &out);
	int retire(share &out);
	typename Api::stream stream() { return streams_[turn_++ % streams_.size()]; }

	Api &a_;
	const job &j_;
	part p_;
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
	for (u64 i = 0; !err && ((i & 15) || time_left(until)); i++) {
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
	while (!err && time_left(until)) {
		const auto s = stream();

		if (flying_.size() == most_) {
			err = retire(out);
			w.sample(next_);
		}
		const outstanding o = {free_.back(), ticks()};
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

template <class Api> void worker<Api>::run(u64 until, share &out)
{
	const u64 before = next_, start = now_ns(), cpu = thread_cpu_ns();

	if (most_ == 1 || is_pageable(j_.kind))
		one_at_a_time(until, out);
	else
		several(until, out);
	out.ns = now_ns() - start;
	out.cpu_ns = thread_cpu_ns() - cpu;
	out.copies = next_ - before;
}

/* ---- threads ---------------------------------------------------------------------------------------- */

struct workers {
	workers(const job &j, bench_device &d, std::vector<part> p)
		: job_(j), dev(d), parts(std::move(p)), shares(j.threads), start(j.threads), engine_ns(j.repeats + 1)
	{
		for (auto &s : shares)
			s = std::vector<share>(j.repeats + 1);
	}

	const job &job_;
	bench_device &dev;
	std::vector<part> parts;
	std::vector<std::vector<share>> shares; /* by thread and repeat; the first repeat is the warm-up */
	std::barrier<> start;
	std::vector<u64> engine_ns;
	std::mutex lock;
	std::string error;
};

constexpr double most_warm_up = 1; /* seconds */

template <class Api> void take_part(workers &c, unsigned k, Api &&a)
{
	const job &j = c.job_;
	worker<std::decay_t<Api>> w(a, j, c.parts[k]);

	for (unsigned r = 0; r <= j.repeats; r++) {
		c.start.arrive_and_wait();
		const u64 engines = k ? 0 : engine_cpu_ns();
		w.run(now_ns() + u64((r ? j.seconds : std::min(0.3 * j.seconds, most_warm_up)) * 1e9), c.shares[k][r]);
		if (!k)
			c.engine_ns[r] = engine_cpu_ns() - engines;
	}
	if (j.verify)
		c.dev.mem->check(j, c.parts[k], w.slots(), w.visited());
}

void thread_main(workers &c, unsigned k)
{
	try {
		if (!k && c.job_.client_cpu >= 0)
			pin(c.job_.client_cpu);
		else if (c.job_.nodes.client >= 0)
			run_on_node(c.job_.nodes.client);
#if USDMA_PERF_ACL
		if (c.job_.api == api::acl) {
			take_part(c, k, acl_api(int(c.dev.index)));
			return;
		}
#endif
		take_part(c, k, native_api(c.dev.dev));
	} catch (const std::exception &e) {
		std::lock_guard guard(c.lock);

		c.error = e.what();
		c.start.arrive_and_drop();
	}
}

double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

double base_rate(const job &j, const part &p)
{
	static std::map<std::pair<size_t, bool>, double> cache;
	auto [at, fresh] = cache.try_emplace({j.size, j.cold}, 0);

	if (fresh) {
		const size_t bytes = p.bytes / cache_line * cache_line;
		auto free_all = [bytes](u8 *m) { munmap(m, 2 * bytes); };
		void *m = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (m == MAP_FAILED)
			throw std::runtime_error("no memory to measure memcpy with");
		const std::unique_ptr<u8, decltype(free_all)> mem(static_cast<u8 *>(m), free_all);
		memset(m, 1, 2 * bytes);
		at->second = memcpy_rate(copy_methods()[0], mem.get(), mem.get() + bytes, bytes, j.size, 0.05);
	}
	return at->second;
}

/* Copies per ns, median over the windows; 0 for too few windows or several threads, whose windows differ. */
double undisturbed_rate(const workers &c)
{
	std::vector<double> all;

	for (unsigned r = 1; r <= c.job_.repeats && c.job_.threads == 1; r++)
		all.insert(all.end(), c.shares[0][r].rates.begin(), c.shares[0][r].rates.end());
	return all.size() < 5 ? 0 : median(all) / ns_per_tick();
}

outcome sum_up(workers &c)
{
	const job &j = c.job_;
	std::vector<double> rate, client, engine;
	outcome o;

	o.job = j;
	for (unsigned r = 1; r <= j.repeats; r++) {
		u64 copies = 0, ns = 1, cpu = 0;

		if (std::any_of(c.shares.begin(), c.shares.end(), [r](auto &of) { return !of[r].copies; }))
			continue; /* interrupted */
		for (auto &of : c.shares) {
			copies += of[r].copies;
			ns = std::max(ns, of[r].ns);
			cpu += of[r].cpu_ns;
			o.latency.add_ticks(of[r].latency.v);
			o.submit.add_ticks(of[r].submit.v);
		}
		o.copies += copies;
		rate.push_back(double(copies) / double(ns));
		client.push_back(double(cpu) / double(ns));
		engine.push_back(double(c.engine_ns[r]) / double(ns));
	}
	o.interrupted = tool::interrupted();
	if (rate.empty())
		return o;
	const auto [least, most] = std::minmax_element(rate.begin(), rate.end());
	const double mid = median(rate), undisturbed = undisturbed_rate(c);
	o.held = undisturbed > 0 ? mid / undisturbed * 100 : 100;
	o.spread = mid > 0 ? (*most - *least) / mid * 100 : 0;
	const double shown = undisturbed > 0 ? undisturbed : mid;
	o.mcps = shown * 1e3;
	o.gbps = shown * double(j.size);
	o.client_cpu = median(client) * 100;
	o.engine_cpu = median(engine) * 100;
	o.verified = j.verify;
	return o;
}

void check_job(const job &j)
{
	if (j.api == api::acl && !have_acl())
		throw std::runtime_error("this usdma-perf was built without libascendcl");
	if (j.kind == copy_kind::desc && j.api != api::acl)
		throw std::runtime_error("descriptors are ACL's: add --api acl");
	if (j.kind == copy_kind::rect && (j.size < 64 || j.size % 64))
		throw std::runtime_error("2d: the size must be a multiple of 64 bytes");
	if (j.kind == copy_kind::batch && j.batch > 4096)
		throw std::runtime_error("at most 4096 copies in one batch");
}

} // namespace

outcome measure(bench_device &dev, const job &j)
{
	std::vector<std::thread> threads;

	check_job(j);
	workers c(j, dev, dev.mem->parts(j, dev.cold_bytes));
	for (unsigned k = 0; k < j.threads; k++)
		threads.emplace_back(thread_main, std::ref(c), k);
	for (std::thread &t : threads)
		t.join();
	if (!c.error.empty())
		throw std::runtime_error(c.error);
	outcome o = sum_up(c);
	if (!o.copies)
		return o;
	o.base_gbps = base_rate(j, c.parts[0]);
	o.host_node = dev.mem->host_node(j);
	if (j.nodes.client >= 0 && o.host_node >= 0 && o.host_node != j.nodes.client)
		throw std::runtime_error(fmt::format("host memory is on node {}, not on {}: is that node full?",
						     o.host_node, j.nodes.client));
	return o;
}

/* ---- devices ---------------------------------------------------------------------------------------- */

bench_device::bench_device(unsigned i, size_t cold, int node) : index(i), cold_bytes(cold)
{
	must(usdma_open_index(i, &dev), "device");
	mem = std::make_unique<bench_memory>(dev, node);
}

bench_device::~bench_device()
{
	mem.reset();
	usdma_close(dev);
}

/* ---- blocked waits ---------------------------------------------------------------------------------- */

/* A copy long enough for its waiter to sleep, followed by a time stamp of the device. */
double blocked_wait_ns(bench_device &dev, int client_cpu, perf::wait mode)
{
	constexpr unsigned rounds = 400, warm = 20;
	job j;
	j.size = 4 * MiB;
	const part p = dev.mem->parts(j, dev.cold_bytes)[0];
	const std::vector<int> before = usable_cpus();
	native_api a(dev.dev);
	usdma_stream *s = a.open(mode);
	usdma_event *e;
	std::vector<double> ns;

	must(usdma_event_create(dev.dev, USDMA_EVENT_TIMING, &e), "event");
	if (client_cpu >= 0)
		pin(client_cpu);
	for (unsigned i = 0; i < rounds + warm; i++) {
		u64 ended = 0;

		must(usdma_copy(s, p.dst, p.src, 512 * KiB), "copy");
		must(usdma_event_record(e, s), "event");
		must(usdma_stream_sync(s, -1), "wait");
		const u64 awake = now_ns();
		must(core::event_time_ns(core::event_of(e), &ended), "time of the event");
		if (i >= warm)
			ns.push_back(double(awake) - double(ended));
	}
	unpin(before);
	usdma_event_destroy(e);
	usdma_stream_destroy(s);
	return median(ns);
}

} // namespace usdma::perf
