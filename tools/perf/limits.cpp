/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/limits.h"

#include "driver/base/barrier.h"
#include "driver/base/page.h"
#include "driver/base/unique_fd.h"
#include "tools/perf/clock.h"
#include "tools/perf/histogram.h"
#include "tools/perf/wake.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace usdma::perf {

/* ---- copy methods ----------------------------------------------------------------------------------- */

static void plain(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
}

#if defined(__x86_64__)

static void string_move(void *dst, const void *src, size_t len)
{
	asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len)::"memory");
}

/* Includes the fence: a device must not report completion before its stores are visible. */
[[gnu::target("avx2")]] static void nontemporal_256(void *dst, const void *src, size_t len)
{
	for (size_t i = 0; i < len; i += 64) {
		auto *d = reinterpret_cast<__m256i *>(static_cast<u8 *>(dst) + i);
		auto *s = reinterpret_cast<const __m256i *>(static_cast<const u8 *>(src) + i);
		const __m256i a = _mm256_load_si256(s), b = _mm256_load_si256(s + 1);

		_mm256_stream_si256(d, a);
		_mm256_stream_si256(d + 1, b);
	}
	_mm_sfence();
}

[[gnu::target("avx512f")]] static void nontemporal_512(void *dst, const void *src, size_t len)
{
	for (size_t i = 0; i < len; i += 64)
		_mm512_stream_si512(reinterpret_cast<__m512i *>(static_cast<u8 *>(dst) + i),
				    _mm512_load_si512(static_cast<const u8 *>(src) + i));
	_mm_sfence();
}

#endif

const std::vector<copy_method> &copy_methods()
{
	static const std::vector<copy_method> all = [] {
		std::vector<copy_method> v = {{"memcpy", plain, false}};
#if defined(__x86_64__)
		v.push_back({"rep movsb", string_move, false});
		if (__builtin_cpu_supports("avx2"))
			v.push_back({"non-temporal AVX2", nontemporal_256, true});
		if (__builtin_cpu_supports("avx512f"))
			v.push_back({"non-temporal AVX-512", nontemporal_512, true});
#endif
		return v;
	}();

	return all;
}

/* ---- memory ----------------------------------------------------------------------------------------- */

/* Two areas: private memory in huge pages if possible, or shared memory, by default in small pages. */
class areas {
public:
	areas(size_t bytes, bool shared) : bytes_(bytes)
	{
		const unique_fd fd(shared ? memfd_create("usdma-perf", MFD_CLOEXEC) : -1);

		if (shared && (!fd.valid() || ftruncate(fd.get(), off_t(2 * bytes))))
			throw std::runtime_error("no shared memory to measure memcpy with");
		mem_ = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE,
			    shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd.get(), 0);
		if (mem_ == MAP_FAILED)
			throw std::runtime_error(
				fmt::format("no {} MiB of memory to measure memcpy with", 2 * bytes >> 20));
		if (!shared)
			madvise(mem_, 2 * bytes, MADV_HUGEPAGE);
		/* Written, because pages that were only read may all map the zero page. */
		for (size_t i = 0; i < 2 * bytes; i += 4096)
			dst()[i] = u8(i >> 12 | 1);
	}
	~areas() { munmap(mem_, 2 * bytes_); }
	areas(const areas &) = delete;
	areas &operator=(const areas &) = delete;

	u8 *dst() const { return static_cast<u8 *>(mem_); }
	u8 *src() const { return dst() + bytes_; }
	size_t bytes() const { return bytes_; }

private:
	void *mem_;
	size_t bytes_;
};

double memcpy_rate(const copy_method &how, u8 *dst, const u8 *src, size_t area, size_t size, double seconds)
{
	/* Median over short windows, as in job.cpp: the thread may be preempted for milliseconds. */
	constexpr u64 window_ns = 300 * ns_per_us;
	const size_t slots = slots_in(area, size);
	const u64 group = std::max<u64>(1, 64 * KiB / size);
	u64 n = 0, from = 0, now = now_ns(), start = now;
	const u64 end = start + u64(seconds * 1e9);
	std::vector<double> rates;

	while (now < end || rates.empty()) {
		for (u64 k = 0; k < group; k++, n++) {
			const size_t at = slot_of(n, slots) * size;

			how.copy(dst + at, src + at, size);
			keep();
		}
		now = now_ns();
		if (now - start < window_ns)
			continue;
		rates.push_back(double(n - from) * double(size) / double(now - start));
		start = now;
		from = n;
	}
	return median(rates);
}

static constexpr size_t one_copy = MiB;

/* One thread on each of the CPUs. */
static double together(const copy_method &how, const areas &a, std::span<const int> cpus)
{
	const auto n = unsigned(cpus.size());
	std::vector<std::thread> workers;
	std::vector<double> rates(n);
	unsigned ready = 0;
	const size_t part = a.bytes() / n / one_copy * one_copy;

	for (unsigned k = 0; k < n; k++)
		workers.emplace_back([&, k] {
			pin(cpus[k]);
			fetch_add_seq_cst(&ready, 1);
			while (load_seq_cst(&ready) < n)
				std::this_thread::yield();
			rates[k] = memcpy_rate(how, a.dst() + k * part, a.src() + k * part, part, one_copy, 0.15);
		});
	for (std::thread &t : workers)
		t.join();
	return std::accumulate(rates.begin(), rates.end(), 0.0);
}

static void measure_one_thread(limits &l, const areas &a, const areas &small)
{
	const copy_method *best = nullptr;

	l.memcpy_hot = memcpy_rate(copy_methods()[0], a.dst(), a.src(), 256 * KiB, 128 * KiB, 0.05);
	for (const copy_method &how : copy_methods()) {
		std::vector<double> v;

		for (unsigned i = 0; i < 3; i++)
			v.push_back(memcpy_rate(how, a.dst(), a.src(), a.bytes(), one_copy, 0.07));
		const double rate = median(v);
		if (!best)
			l.memcpy_cold = rate;
		if (!best || rate > l.best_cold) {
			best = &how;
			l.best_cold = rate;
		}
	}
	if (best)
		l.best_name = best->name;
	for (const copy_method &how : copy_methods())
		l.best_cold_small_pages = std::max(l.best_cold_small_pages, memcpy_rate(how, small.dst(), small.src(),
											small.bytes(), one_copy, 0.1));
}

limits measure_limits(const machine &m, size_t cold_bytes, unsigned most_threads)
{
	const areas a(cold_bytes, false), small(cold_bytes, true);
	limits l;

	l.line_ns = m.client == m.engines[0] ? 0 : line_round_trip(m.client, m.engines[0]);
	l.eventfd_ns = wake_latency(m, wake_by::eventfd);
	l.uring_ns = wake_latency(m, wake_by::io_uring);
	pin(m.engines[0]);
	measure_one_thread(l, a, small);
	for (unsigned n = 1; n <= std::min<size_t>(most_threads, m.cpus.size()); n++)
		for (const copy_method &how : copy_methods())
			if (l.best_name == how.name) {
				std::vector<double> v;

				for (unsigned i = 0; i < 3; i++)
					v.push_back(together(how, a, std::span(m.cpus).first(n)));
				l.threads[n] = median(v);
			}
	unpin(m.cpus);
	return l;
}

static const copy_method &method_of(const limits &l)
{
	const auto &all = copy_methods();

	return *std::find_if(all.begin(), all.end(), [&l](const copy_method &how) { return l.best_name == how.name; });
}

cold_reference::cold_reference(const machine &m, const limits &l, size_t cold_bytes)
	: how_(method_of(l)), engine_{m.engines[0]}, all_(m.cpus), mem_(std::make_unique<areas>(cold_bytes, false))
{
}

cold_reference::~cold_reference() = default;

outcome cold_reference::measure_beside(bench_device &dev, const job &j) const
{
	std::vector<double> one, all;
	outcome out = measure(dev, j, [&] {
		one.push_back(together(how_, *mem_, engine_));
		all.push_back(together(how_, *mem_, all_));
	});

	out.best_cold = median(one);
	out.best_cold_all = median(all);
	return out;
}

std::string describe(const limits &l)
{
	std::string out = fmt::format("limits   cache line round trip {:.0f} ns; wake-up by eventfd {:.1f} us, "
				      "io_uring {:.1f} us\n",
				      l.line_ns, l.eventfd_ns / 1e3, l.uring_ns / 1e3);

	out += fmt::format("         memcpy {:.1f} GB/s hot, {:.1f} cold; best cold {:.1f} ({})\n", l.memcpy_hot,
			   l.memcpy_cold, l.best_cold, l.best_name);
	out += fmt::format("         best cold in shared {} KiB pages {:.1f};", os_page_size() / KiB,
			   l.best_cold_small_pages);
	for (auto [n, rate] : l.threads)
		out += fmt::format(" {} threads {:.1f}{}", n, rate, n == l.threads.rbegin()->first ? " GB/s\n" : ",");
	return out;
}

nlohmann::json to_json(const limits &l)
{
	nlohmann::json threads;

	for (auto [n, rate] : l.threads)
		threads[std::to_string(n)] = rate;
	return {{"line_ns", l.line_ns},
		{"eventfd_wake_ns", l.eventfd_ns},
		{"io_uring_wake_ns", l.uring_ns},
		{"memcpy_hot_gbps", l.memcpy_hot},
		{"memcpy_cold_gbps", l.memcpy_cold},
		{"best_cold_gbps", l.best_cold},
		{"best_cold_method", l.best_name},
		{"best_cold_small_pages_gbps", l.best_cold_small_pages},
		{"threads_gbps", threads}};
}

} // namespace usdma::perf
