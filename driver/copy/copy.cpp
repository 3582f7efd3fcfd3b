/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/copy/copy.h"

#include "driver/base/barrier.h"

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
 * Some rows at a time, a row being at most a page: each has a hardware prefetcher of
 * its own, which does not look beyond its page, and all are in flight together.
 * Measured with 4 KiB pages and non-temporal stores, in GB/s:
 *                                         one row   two    four
 *   Xeon (Sapphire Rapids)                  9.7            13.0
 *   EPYC (family 25)                       10.6   10.7      3.7
 * so by default it is four on Intel's, one on all others.  Stores through the caches take
 * four on both: into staging buffers that another CPU has just read they were ahead by
 * 11 to 16 % on the EPYC (12.0 to 12.6 GB/s against 10.8 to 11.0).
 */
static constexpr size_t row_most = 4096, line = cache_line;

/* nt: non-temporal stores; else the destination is read next. */
template <size_t rows, bool nt>
[[gnu::target("avx2")]] ordered_elsewhere static void rows_avx2(u8 *d, const u8 *s, size_t row)
{
	for (size_t at = 0; at < row; at += line)
		for (size_t k = 0; k < rows; k++) {
			auto *from = reinterpret_cast<const __m256i *>(s + k * row + at);
			auto *to = reinterpret_cast<__m256i *>(d + k * row + at);
			const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);

			nt ? _mm256_stream_si256(to, a) : _mm256_store_si256(to, a);
			nt ? _mm256_stream_si256(to + 1, b) : _mm256_store_si256(to + 1, b);
		}
}

template <size_t rows>
[[gnu::target("avx512f")]] ordered_elsewhere static void rows_avx512(u8 *d, const u8 *s, size_t row)
{
	for (size_t at = 0; at < row; at += line)
		for (size_t k = 0; k < rows; k++)
			_mm512_stream_si512(reinterpret_cast<__m512i *>(d + k * row + at),
					    _mm512_loadu_si512(s + k * row + at));
}

/* Copies what is before the next boundary of dst, so that streaming stores are whole lines. */
ordered_elsewhere static size_t align_head(u8 *&d, const u8 *&s, size_t len)
{
	const size_t to_line = -reinterpret_cast<size_t>(d) & (line - 1);
	const size_t head = to_line < len ? to_line : len; /* a long copy may come in pieces as small as a byte */

	if (head) {
		memcpy(d, s, head);
		d += head;
		s += head;
	}
	return len - head;
}

template <size_t rows, void block(u8 *, const u8 *, size_t)>
ordered_elsewhere static void by_rows(void *dst, const void *src, size_t len)
{
	auto *d = static_cast<u8 *>(dst);
	auto *s = static_cast<const u8 *>(src);

	len = align_head(d, s, len);
	while (len >= rows * line) {
		const size_t row = std::min(len / rows / line * line, row_most);

		block(d, s, row);
		d += rows * row;
		s += rows * row;
		len -= rows * row;
	}
	/* Streaming stores are weakly ordered: the completion must not overtake them. */
	_mm_sfence();
	memcpy(d, s, len);
}

/*
 * Some lines far apart, asked for together.  Ticks from the time stamp counter,
 * fenced: RDTSC is not ordered against loads by itself (Intel SDM vol. 2, RDTSC).
 */
static constexpr size_t looks = 4;

ordered_elsewhere static u64 look_at(const void *src, size_t len)
{
	auto *s = static_cast<const volatile u8 *>(src);
	const size_t step = len / looks / line * line;

	_mm_lfence();
	const u64 begin = __rdtsc();
	_mm_lfence();
	for (size_t i = 0; i < looks; i++)
		(void)s[i * step];
	_mm_lfence();
	return __rdtsc() - begin;
}

bool source_is_near(const copy_tuning &t, const void *src, size_t len)
{
	return look_at(src, len) < t.hot_ticks;
}

/*
 * How long a look takes that finds all in the first cache, the best of some (others
 * may stop us), eight times: the second takes up to six, memory thirty, and for what a
 * shared cache holds, from nine on, both routines are about as fast.  A unit of time, no choice.
 */
static u64 calibrate_look()
{
	alignas(cache_line) static u8 near[8 * KiB];
	u64 best = ~u64(0);

	memset(near, 1, sizeof(near));
	for (unsigned i = 0; i < 32; i++)
		best = std::min(best, look_at(near, sizeof(near)));
	return 8 * best;
}

/* Enhanced rep movsb: CPUID leaf 7, EBX bit 9 (Intel SDM vol. 2, CPUID). */
static bool has_erms()
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 9));
}

/* Intel's by its name in CPUID leaf 0 (Intel SDM vol. 2, CPUID). */
static bool is_intel()
{
	unsigned a, b, c, d;

	return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx && c == signature_INTEL_ecx &&
	       d == signature_INTEL_edx;
}

static constexpr copy_routine streams[] = {
	{by_rows<1, rows_avx2<1, true>>, "AVX2 non-temporal"},
	{by_rows<2, rows_avx2<2, true>>, "AVX2 non-temporal, two pages at once"},
	{by_rows<4, rows_avx2<4, true>>, "AVX2 non-temporal, four pages at once"},
	{by_rows<4, rows_avx512<4>>, "AVX-512 non-temporal, four pages at once"},
};
static constexpr copy_routine fetches[] = {
	{by_rows<4, rows_avx2<4, false>>, "AVX2, four pages at once"},
};

static std::span<const copy_routine> known_of(std::span<const copy_routine> all, bool last)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2"))
		return {};
	return last ? all : all.first(all.size() - 1);
}

std::span<const copy_routine> stream_routines()
{
	return known_of(streams, __builtin_cpu_supports("avx512f"));
}

std::span<const copy_routine> fetch_routines()
{
	return known_of(fetches, true);
}

/* With four rows the last one known: it has the widest stores. */
static const copy_routine &stream_of(copy_rows rows)
{
	const auto known = stream_routines();

	if (rows == copy_rows::automatic)
		rows = is_intel() ? copy_rows::four : copy_rows::one;
	return rows == copy_rows::four ? known.back() : known[rows == copy_rows::two];
}

/* Half of it holds the source, half the destination. */
static size_t near_bytes()
{
	const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);

	return l2 > 0 ? size_t(l2) / 2 : 512 * KiB;
}

/* All but the routine that copy_rows chooses. */
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
	t.stream_min = near_bytes() + 1;
	t.hot_ticks = calibrate_look();
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

bool source_is_near(const copy_tuning &, const void *, size_t)
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
