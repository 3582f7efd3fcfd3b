/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a measurement, and what becomes of their samples. */
#include "tools/perf/job.h"

#include "lib/core/stream/event.h"
#include "tools/perf/worker.h"

#include <barrier>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
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

/* ---- threads ---------------------------------------------------------------------------------------- */

namespace {

/* One thread of a flow. */
struct member {
	const flow &of;
	unsigned k; /* its number in the flow */
	part memory;
	std::vector<share> shares;
};

struct workers {
	workers(const std::vector<flow> &flows, const std::function<void()> &hook);
	void run();

	std::vector<member> members;
	std::barrier<> start;
	const std::function<void()> &before_repeat;
	std::vector<u64> engine_ns;
	std::mutex lock;
	std::string error;
};

unsigned threads_of(const std::vector<flow> &flows)
{
	return std::accumulate(flows.begin(), flows.end(), 0u,
			       [](unsigned n, const flow &f) { return n + f.job.threads; });
}

workers::workers(const std::vector<flow> &flows, const std::function<void()> &hook)
	: start(threads_of(flows)), before_repeat(hook), engine_ns(flows[0].job.repeats + 1)
{
	for (const flow &f : flows) {
		bench_memory *const source = f.source ? f.source->mem.get() : nullptr;
		unsigned k = 0;

		for (const part &p : f.dev->mem->parts(f.job, f.dev->cold_bytes, source))
			members.push_back({f, k++, p, std::vector<share>(f.job.repeats + 1)});
	}
}

constexpr double most_warm_up = 1; /* seconds */

template <class Api> void take_part(workers &c, member &me, Api &&a)
{
	const job &j = me.of.job;
	const bool first = &me == &c.members[0];
	worker<std::decay_t<Api>> w(a, j, me.memory, j.process * j.threads + me.k);

	for (unsigned r = 0; r <= j.repeats; r++) {
		if (first && c.before_repeat)
			c.before_repeat();
		c.start.arrive_and_wait();
		const u64 engines = first ? engine_cpu_ns() : 0;
		w.run(now_ns() + u64((r ? j.seconds : std::min(0.3 * j.seconds, most_warm_up)) * 1e9), me.shares[r]);
		if (first)
			c.engine_ns[r] = engine_cpu_ns() - engines;
	}
	if (j.verify)
		me.of.dev->mem->check(j, me.memory, w.slots(), w.visited());
}

void thread_main(workers &c, member &me)
{
	const job &j = me.of.job;

	try {
		if (!me.k && j.client_cpu >= 0)
			pin(j.client_cpu);
		else if (j.nodes.client >= 0)
			run_on_node(j.nodes.client);
#if USDMA_PERF_ACL
		if (j.api == api::acl) {
			take_part(c, me, acl_api(int(me.of.dev->index)));
			return;
		}
#endif
		take_part(c, me, native_api(me.of.dev->dev));
	} catch (const std::exception &e) {
		std::lock_guard guard(c.lock);

		c.error = e.what();
		c.start.arrive_and_drop();
	}
}

void workers::run()
{
	std::vector<std::thread> threads;

	for (member &m : members)
		threads.emplace_back(thread_main, std::ref(*this), std::ref(m));
	for (std::thread &t : threads)
		t.join();
	if (!error.empty())
		throw std::runtime_error(error);
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

std::vector<taken> take(const std::vector<flow> &flows, const std::function<void()> &before_repeat)
{
	std::vector<taken> out;

	for (const flow &f : flows)
		check_job(f.job);
	workers c(flows, before_repeat);
	c.run();
	for (member &m : c.members) {
		if (!m.k)
			out.push_back({{}, c.engine_ns, m.memory.bytes, flows.size() == 1});
		out.back().shares.push_back(std::move(m.shares));
	}
	return out;
}

/* ---- results ---------------------------------------------------------------------------------------- */

static double base_rate(const job &j, size_t area)
{
	static std::map<std::pair<size_t, bool>, double> cache;
	auto [at, fresh] = cache.try_emplace({j.size, j.cold}, 0);

	if (fresh) {
		const size_t bytes = area / cache_line * cache_line;
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

/* Copies per ns, median over the windows; 0 if there are too few. */
static double undisturbed_rate(const std::vector<double> &rates)
{
	return rates.size() < 5 ? 0 : median(rates) / ns_per_tick();
}

/* Of ticks; sorts them. */
static double percentile_ns(std::vector<u64> &ticks, double p)
{
	if (ticks.empty())
		return 0;
	std::sort(ticks.begin(), ticks.end());
	return double(ticks[size_t(double(ticks.size() - 1) * p / 100)]) * ns_per_tick();
}

namespace {

/* One repeat of all threads. */
struct repeat {
	u64 copies = 0, ns = 1, cpu = 0;
	std::vector<u64> latency;
	std::vector<double> windows; /* none where several threads ran, whose windows differ */
};

} // namespace

static repeat repeat_of(taken &t, unsigned r)
{
	repeat out;

	for (std::vector<share> &of : t.shares) {
		out.copies += of[r].copies;
		out.ns = std::max(out.ns, of[r].ns);
		out.cpu += of[r].cpu_ns;
		out.latency.insert(out.latency.end(), of[r].latency.v.begin(), of[r].latency.v.end());
	}
	if (t.alone && t.shares.size() == 1)
		out.windows = std::move(t.shares[0][r].rates);
	return out;
}

static bool was_interrupted(const taken &t, unsigned r)
{
	return std::any_of(t.shares.begin(), t.shares.end(), [r](auto &of) { return !of[r].copies; });
}

/* Mean rates, client's and engines' use of CPUs in each repeat. */
static void fill_rates(outcome &o, std::vector<double> rate, std::vector<double> &client, std::vector<double> &engine,
		       const std::vector<double> &windows)
{
	const auto [least, most] = std::minmax_element(rate.begin(), rate.end());
	const double mid = median(rate), undisturbed = undisturbed_rate(windows);
	const double shown = undisturbed > 0 ? undisturbed : mid;

	o.held = undisturbed > 0 ? mid / undisturbed * 100 : 100;
	o.spread = mid > 0 ? (*most - *least) / mid * 100 : 0;
	o.mcps = shown * 1e3;
	o.gbps = shown * double(o.job.size);
	o.client_cpu = median(client) * 100;
	o.engine_cpu = median(engine) * 100;
}

outcome sum_up(const job &j, taken t)
{
	std::vector<double> rate, client, engine, windows;
	outcome o;

	o.job = j;
	o.interrupted = tool::interrupted();
	for (unsigned r = 1; r <= j.repeats; r++) {
		if (was_interrupted(t, r))
			continue;
		for (const auto &of : t.shares)
			o.submit.add_ticks(of[r].submit.v);
		repeat now = repeat_of(t, r);
		const double undisturbed = undisturbed_rate(now.windows);

		o.latency.add_ticks(now.latency);
		o.copies += now.copies;
		rate.push_back(double(now.copies) / double(now.ns));
		client.push_back(double(now.cpu) / double(now.ns));
		engine.push_back(double(t.engine_ns[r]) / double(now.ns));
		windows.insert(windows.end(), now.windows.begin(), now.windows.end());
		o.repeats.gbps.push_back((undisturbed > 0 ? undisturbed : rate.back()) * double(j.size));
		o.repeats.p50_ns.push_back(percentile_ns(now.latency, 50));
		o.repeats.p99_ns.push_back(percentile_ns(now.latency, 99));
	}
	if (rate.empty())
		return o;
	fill_rates(o, std::move(rate), client, engine, windows);
	o.verified = j.verify;
	o.base_gbps = base_rate(j, t.area);
	return o;
}

static void check_node(const outcome &o)
{
	const int wanted = o.job.nodes.client;

	if (wanted >= 0 && o.host_node >= 0 && o.host_node != wanted)
		throw std::runtime_error(
			fmt::format("host memory is on node {}, not on {}: is that node full?", o.host_node, wanted));
}

outcome measure(bench_device &dev, const job &j, const std::function<void()> &before_repeat)
{
	outcome o = sum_up(j, std::move(take({{j, &dev}}, before_repeat)[0]));

	if (!o.copies)
		return o;
	o.host_node = dev.mem->host_node(j);
	check_node(o);
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
