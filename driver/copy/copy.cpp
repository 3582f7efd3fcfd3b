/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/copy/copy.h"

#include "driver/base/barrier.h"
#include "driver/base/tsan.h"
#include "driver/copy/unordered.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace usdma {

static void plain(void *dst, const void *src, size_t len)
{
	memmove(dst, src, len);
}

static constexpr copy_tuning portable = {2048,  ~size_t(0), ~size_t(0), 0,         plain,
					 plain, plain,      "memmove",  "memmove", "memmove"};

#if defined(__x86_64__)

static void rep_movsb(void *dst, const void *src, size_t len)
{
	asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
}

/*
 * Copies several rows in parallel, a row being at most a page: the hardware prefetcher
 * tracks each row separately and does not cross pages.
 * Measured with 4 KiB pages and non-temporal stores, in GB/s:
 *                                         one row   two    four
 *   Xeon (Sapphire Rapids)                  9.7            13.0
 *   EPYC (family 25)                       10.6   10.7      3.7
 * so the default is four on Intel CPUs, one on all others.  Cached stores use four on both:
 * into staging buffers that another CPU has just read they were faster by
 * 11 to 16 % on the EPYC (12.0 to 12.6 GB/s against 10.8 to 11.0).  One row with the next one prefetched is faster by
 * 8 to 16 % on the EPYC in copies of 1 MiB from and to pages of 2 MiB (19 GB/s against 17).
 */
static constexpr size_t row_most = 4096, line = cache_line;

/* nt: non-temporal stores; otherwise the destination is expected to be read next. ahead: prefetch the next row. */
template <size_t rows, bool nt, bool ahead = false>
[[gnu::target("avx2")]] ordered_elsewhere static void rows_avx2(u8 *d, const u8 *s, size_t row, const u8 *next)
{
	for (size_t at = 0; at < row; at += line) {
		if (ahead)
			_mm_prefetch(reinterpret_cast<const char *>(next + at), _MM_HINT_NTA);
		for (size_t k = 0; k < rows; k++) {
			auto *from = reinterpret_cast<const __m256i *>(s + k * row + at);
			auto *to = reinterpret_cast<__m256i *>(d + k * row + at);
			const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);

			nt ? _mm256_stream_si256(to, a) : _mm256_store_si256(to, a);
			nt ? _mm256_stream_si256(to + 1, b) : _mm256_store_si256(to + 1, b);
		}
	}
}

template <size_t rows>
[[gnu::target("avx512f")]] ordered_elsewhere static void rows_avx512(u8 *d, const u8 *s, size_t row, const u8 *)
{
	for (size_t at = 0; at < row; at += line)
		for (size_t k = 0; k < rows; k++)
			_mm512_stream_si512(reinterpret_cast<__m512i *>(d + k * row + at),
					    _mm512_loadu_si512(s + k * row + at));
}

void copy_order()
{
	_mm_sfence();
}

/* memcpy(), and not one that TSan's library intercepts. */
static inline void copy_rest(u8 *d, const u8 *s, size_t len)
{
	if (built_with_tsan)
		rep_movsb(d, s, len);
	else
		memcpy(d, s, len);
}

/* Copies up to the next cache line boundary of dst, so that streaming stores are whole lines. */
ordered_elsewhere static size_t align_head(u8 *&d, const u8 *&s, size_t len)
{
	const size_t to_line = -reinterpret_cast<size_t>(d) & (line - 1);
	const size_t head = to_line < len ? to_line : len; /* a long copy may be split into pieces as small as a byte */

	if (head) {
		copy_rest(d, s, head);
		d += head;
		s += head;
	}
	return len - head;
}

template <size_t rows, void block(u8 *, const u8 *, size_t, const u8 *), bool ordered = true>
ordered_elsewhere static void by_rows(void *dst, const void *src, size_t len)
{
	auto *d = static_cast<u8 *>(dst);
	auto *s = static_cast<const u8 *>(src);

	len = align_head(d, s, len);
	while (len >= rows * line) {
		const size_t row = std::min(len / rows / line * line, row_most), all = rows * row;

		block(d, s, row, s + (len >= 2 * all ? all : 0));
		d += all;
		s += all;
		len -= all;
	}
	/* Streaming stores are weakly ordered: the completion must not overtake them. */
	if (ordered)
		copy_order();
	copy_rest(d, s, len);
}

/*
 * Loads some lines of src in parallel and returns the time in TSC ticks. Fenced: RDTSC is not ordered against
 * loads by itself (Intel SDM vol. 2, RDTSC).
 */
static constexpr size_t probe_lines = 4;

ordered_elsewhere static u64 probe(const void *src, size_t len)
{
	auto *s = static_cast<const volatile u8 *>(src);
	const size_t step = len / probe_lines / line * line;

	_mm_lfence();
	const u64 begin = __rdtsc();
	_mm_lfence();
	for (size_t i = 0; i < probe_lines; i++)
		(void)s[i * step];
	_mm_lfence();
	return __rdtsc() - begin;
}

bool source_is_local(const copy_tuning &t, const void *src, size_t len)
{
	return probe(src, len) < t.hot_ticks;
}

/*
 * Probe time below which a source counts as local: eight times that of a probe which hits the first-level
 * cache, the best of several (preemption disturbs some). The second level takes up to six times, memory thirty,
 * and for a source in a shared cache, from nine on, both routines are about as fast.
 */
static u64 calibrate_probe()
{
	alignas(cache_line) static u8 local[8 * KiB];
	u64 best = ~u64(0);

	memset(local, 1, sizeof(local));
	for (unsigned i = 0; i < 32; i++)
		best = std::min(best, probe(local, sizeof(local)));
	return 8 * best;
}

/* Enhanced rep movsb: CPUID leaf 7, EBX bit 9 (Intel SDM vol. 2, CPUID). */
static bool has_erms()
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 9));
}

/* By the vendor string of CPUID leaf 0 (Intel SDM vol. 2, CPUID). */
static bool is_intel()
{
	unsigned a, b, c, d;

	return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx && c == signature_INTEL_ecx &&
	       d == signature_INTEL_edx;
}

static constexpr copy_routine streams[] = {
	{by_rows<1, rows_avx2<1, true, true>>, "AVX2 non-temporal"},
	{by_rows<2, rows_avx2<2, true>>, "AVX2 non-temporal, two pages at once"},
	{by_rows<4, rows_avx2<4, true>>, "AVX2 non-temporal, four pages at once"},
	{by_rows<4, rows_avx512<4>>, "AVX-512 non-temporal, four pages at once"},
};
/* The same, but unordered, and without prefetching, which does not help short copies. */
static constexpr copy_fn unordered[] = {
	by_rows<1, rows_avx2<1, true>, false>,
	by_rows<2, rows_avx2<2, true>, false>,
	by_rows<4, rows_avx2<4, true>, false>,
	by_rows<4, rows_avx512<4>, false>,
};
static_assert(std::size(unordered) == std::size(streams));

copy_fn stream_unordered(const copy_tuning &t)
{
	for (size_t i = 0; i < std::size(streams); i++)
		if (t.stream == streams[i].copy)
			return unordered[i];
	return t.stream;
}

static constexpr copy_routine fetches[] = {
	{by_rows<4, rows_avx2<4, false>>, "AVX2, four pages at once"},
};

/* What this CPU can run: all need AVX2, the last one may need more. last: it is supported, too. */
static std::span<const copy_routine> supported(std::span<const copy_routine> all, bool last)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2"))
		return {};
	return last ? all : all.first(all.size() - 1);
}

std::span<const copy_routine> stream_routines()
{
	return supported(streams, __builtin_cpu_supports("avx512f"));
}

std::span<const copy_routine> fetch_routines()
{
	return supported(fetches, true);
}

/* With four rows the last supported routine: it has the widest stores. */
static const copy_routine &stream_of(copy_rows rows)
{
	const auto routines = stream_routines();

	if (rows == copy_rows::automatic)
		rows = is_intel() ? copy_rows::four : copy_rows::one;
	return rows == copy_rows::four ? routines.back() : routines[rows == copy_rows::two];
}

/* Half of L2: a copy uses it for source and destination. */
static size_t local_bytes()
{
	const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);

	return l2 > 0 ? size_t(l2) / 2 : 512 * KiB;
}

/* All but the stream routine, which copy_rows selects. */
static copy_tuning choose()
{
	copy_tuning t = portable;

	if (has_erms()) {
		t.medium = rep_movsb;
		t.medium_name = "rep movsb";
	}
	if (stream_routines().empty())
		return t;
	t.fetch = fetches[0].copy;
	t.fetch_name = fetches[0].name;
	t.probe_min = 16 * KiB;
	t.stream_min = local_bytes() + 1;
	t.hot_ticks = calibrate_probe();
	return t;
}

static copy_tuning with_rows(copy_tuning t, copy_rows rows)
{
	if (stream_routines().empty())
		return t;
	t.stream = stream_of(rows).copy;
	t.stream_name = stream_of(rows).name;
	return t;
}

#else

void copy_order() {}

copy_fn stream_unordered(const copy_tuning &t)
{
	return t.stream;
}

bool source_is_local(const copy_tuning &, const void *, size_t)
{
	return true;
}

std::span<const copy_routine> stream_routines()
{
	return {};
}

std::span<const copy_routine> fetch_routines()
{
	return {};
}

static copy_tuning choose()
{
	return portable;
}

static copy_tuning with_rows(copy_tuning t, copy_rows)
{
	return t;
}

#endif

const copy_tuning &copy_for_cpu(copy_rows rows)
{
	static const copy_tuning base = choose();
	static const copy_tuning tuning[] = {with_rows(base, copy_rows::automatic), with_rows(base, copy_rows::one),
					     with_rows(base, copy_rows::two), with_rows(base, copy_rows::four)};

	return tuning[size_t(rows)];
}

} // namespace usdma
