/* SPDX-License-Identifier: BSD-3-Clause */
/* Cost by the number of copies in flight, streams, registrations and threads. */
#include "driver/base/barrier.h"
#include "driver/base/page.h"
#include "tools/perf/api.h"
#include "tools/perf/clock.h"
#include "tools/perf/curves.h"
#include "tools/perf/memory.h"
#include "tools/perf/options.h"
#include "tools/perf/report.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <fmt/core.h>
#include <fstream>
#include <sys/mman.h>

namespace usdma::perf {

static u64 resident_bytes()
{
	u64 size = 0, resident = 0;

	std::ifstream("/proc/self/statm") >> size >> resident;
	return resident * u64(sysconf(_SC_PAGESIZE));
}

namespace {

constexpr unsigned burst = 128, bursts = 2000;

struct pinned_word {
	explicit pinned_word(usdma_device *dev)
	{
		void *p;

		must(usdma_host_alloc(dev, sizeof(u64), &p), "a pinned word");
		at = static_cast<u64 *>(p);
		*at = 0;
	}
	~pinned_word() { usdma_host_free(at); }
	pinned_word(const pinned_word &) = delete;

	u64 *at;
};

/* Calls prepare() before the clock starts, submit(n, i) for copy n in slot i of the burst, drain() to wait. */
template <class Submit, class Drain, class Prepare> double burst_cost(Submit submit, Drain drain, Prepare prepare)
{
	std::vector<double> ns;
	int err = 0;

	for (unsigned b = 0; b < bursts; b++) {
		prepare();
		const u64 start = ticks();

		for (unsigned i = 0; i < burst; i++)
			err |= submit(b * burst + i, i);
		ns.push_back(double(ticks() - start) * ns_per_tick() / burst);
		must(err, "copy");
		drain();
	}
	std::nth_element(ns.begin(), ns.begin() + bursts / 2, ns.end());
	return ns[bursts / 2];
}

template <class Submit, class Drain> double burst_cost(Submit submit, Drain drain)
{
	return burst_cost(submit, drain, [] {});
}

} // namespace

double submit_cost(usdma_stream *const *streams, size_t n, u8 *dst, u8 *src)
{
	size_t at = 0, turn = 0;

	return burst_cost(
		[&](size_t, size_t i) {
			const size_t s = turn;

			turn = turn + 1 < n ? turn + 1 : 0;
			at = s;
			return usdma_copy(streams[s], dst + i * 64, src + i * 64, 64);
		},
		[&] {
			for (size_t i = 0; i < std::min<size_t>(n, burst); i++)
				must(usdma_stream_sync(streams[(at + n - i) % n], -1), "wait");
		});
}

/*
 * The same while the engine waits for a value before the burst: the cost of the call alone,
 * without cache line transfers of the ring between client and engine.
 */
double submit_cost_alone(usdma_device *dev, usdma_stream *s, u8 *dst, u8 *src)
{
	const pinned_word word(dev);
	u64 turn = 0;

	return burst_cost([&](size_t, size_t i) { return usdma_copy(s, dst + i * 64, src + i * 64, 64); },
			  [&] {
				  store_release(word.at, turn);
				  must(usdma_stream_sync(s, -1), "wait");
			  },
			  [&] { must(usdma_wait_value(s, word.at, USDMA_GEQ, ++turn), "a wait in the ring"); });
}

double acl_submit_cost(unsigned device, u8 *dst, u8 *src)
{
#if USDMA_PERF_ACL
	acl_api a{int(device)};
	const auto s = a.open(wait::any);
	const double ns = burst_cost(
		[&](size_t, size_t i) { return a.copy(s, dst + i * 64, src + i * 64, 64, copy_kind::h2d); },
		[&] { must(a.sync(s), "wait"); });

	a.close(s);
	return ns;
#else
	(void)device, (void)dst, (void)src;
	return 0;
#endif
}

many_streams::many_streams(usdma_device *dev, size_t n, wait mode)
{
	native_api a(dev);

	for (size_t i = 0; i < n; i++)
		all.push_back(a.open(mode));
}

many_streams::~many_streams()
{
	for (usdma_stream *s : all)
		usdma_stream_destroy(s);
}

many_regions::many_regions(size_t n)
{
	const size_t page = os_page_size(), bytes = (2 * n + 1) * page;

	mem_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem_ == MAP_FAILED)
		throw std::runtime_error("no address space for the regions");
	bytes_ = bytes;
	for (; count < n; count++) {
		/* With a gap of a page, so that regions are not merged. */
		void *at = static_cast<u8 *>(mem_) + 2 * count * page;
		const int err = usdma_host_register(at, page, 0);

		if (err) {
			why = usdma_error_text();
			break;
		}
	}
}

many_regions::~many_regions()
{
	while (count--)
		usdma_host_unregister(static_cast<u8 *>(mem_) + 2 * count * os_page_size());
	munmap(mem_, bytes_);
}

namespace {

struct curve_point {
	const char *curve;
	size_t n;
	double ns, mcps, bytes_each;
};

class curves {
public:
	curves(const options &o, const machine &m) : o_(o), m_(m), dev_(0, 4 * MiB) {}

	void depths();
	void streams();
	void regions();
	void threads();
	const std::vector<curve_point> &points() const { return points_; }

private:
	void add(const curve_point &p);
	void by_job(const char *name, unsigned depth, unsigned threads);

	const options &o_;
	const machine &m_;
	bench_device dev_;
	std::vector<curve_point> points_;
};

void curves::add(const curve_point &p)
{
	progress(o_, "");
	points_.push_back(p);
	if (o_.json == "-")
		return;
	say(fmt::format("{:20} {:>7} {:>9} ns", p.curve, p.n, time_text(p.ns)));
	if (p.mcps > 0)
		say(fmt::format(" {:8.2f} M/s", p.mcps));
	if (p.bytes_each > 0)
		say(fmt::format(" {:8.0f} bytes each", p.bytes_each));
	say("\n");
}

void curves::by_job(const char *name, unsigned depth, unsigned threads)
{
	job j;

	j.wait = wait::poll;
	j.depth = depth;
	j.threads = threads;
	j.client_cpu = m_.client;
	j.seconds = o_.seconds;
	progress(o_, fmt::format("{} {}", name, threads > 1 ? threads : depth));
	const outcome out = measure(dev_, j);
	if (stopped())
		return;
	add({name, threads > 1 || depth == 32 ? threads : depth,
	     depth == 32 ? out.submit.percentile(50) : out.latency.percentile(50), out.mcps, 0});
}

void curves::depths()
{
	for (unsigned depth : {1, 2, 4, 8, 16, 64, 128, 256, 512, 1024})
		if (!stopped())
			by_job("in flight, latency", depth, 1);
}

void curves::threads()
{
	for (unsigned n = 1; n <= std::min<size_t>(4, m_.cpus.size()) && !stopped(); n++)
		by_job("threads, submit", 32, n);
}

void curves::streams()
{
	job j;
	const part p = dev_.mem->parts(j, dev_.cold_bytes)[0];

	pin(m_.client);
	for (size_t n : {1, 10, 100, 1000, 10000}) {
		const u64 before = resident_bytes();

		if (stopped())
			break;
		progress(o_, fmt::format("{} streams", n));
		const many_streams s(dev_.dev, n, wait::poll);
		const u64 used = resident_bytes() - std::min(before, resident_bytes());
		add({"streams open, one used", n, submit_cost(s.all.data(), 1, p.dst, p.src), 0,
		     n >= 100 ? double(used) / double(n) : 0});
		add({"streams, all in turn", n, submit_cost(s.all.data(), n, p.dst, p.src), 0, 0});
	}
	unpin(m_.cpus);
}

void curves::regions()
{
	job j;
	const part p = dev_.mem->parts(j, dev_.cold_bytes)[0];
	const many_streams s(dev_.dev, 1, wait::poll);

	pin(m_.client);
	for (size_t n : {1, 10, 100, 1000, 10000, 100000}) {
		const u64 before = resident_bytes();

		if (stopped())
			break;
		progress(o_, fmt::format("{} regions", n));
		const many_regions r(n);
		const u64 used = resident_bytes() - std::min(before, resident_bytes());
		/* The registered pages are resident as well. */
		const double each = double(used) / double(r.count ? r.count : 1) - double(os_page_size());
		add({"registered regions", r.count, submit_cost(s.all.data(), 1, p.dst, p.src), 0,
		     n >= 1000 && each > 0 ? each : 0});
		if (r.count < n) {
			say(fmt::format("                     stopped: {}\n", r.why));
			break;
		}
	}
	unpin(m_.cpus);
}

} // namespace

int run_curves(const options &o, const machine &m)
{
	if (o.json != "-")
		say(fmt::format("{}\ncopies of 64 bytes, pinned host to device, waits that poll\n\n", describe(m)));
	curves c(o, m);
	c.depths();
	c.threads();
	c.streams();
	c.regions();
	nlohmann::json rows = nlohmann::json::array();
	for (const curve_point &p : c.points())
		rows.push_back({{"curve", p.curve},
				{"n", p.n},
				{"ns", p.ns},
				{"mcopies_per_s", p.mcps},
				{"bytes_each", p.bytes_each}});
	write_json(o.json, {{"machine", to_json(m)}, {"interrupted", stopped()}, {"curves", rows}});
	return 0;
}

} // namespace usdma::perf
