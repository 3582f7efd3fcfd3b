/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/copy.h"

#include "driver/base/barrier.h"

#include <algorithm>
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

static constexpr copy_tuning portable = {2048, ~size_t(0), ~size_t(0), 0, plain, plain, plain, "memmove", "memmove", "memmove"};

#if defined(__x86_64__)

static void rep_movsb(void *dst, const void *src, size_t len)
{
	asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
}

/*
 * Four rows at a time, a row being at most a page: each has a hardware prefetcher
 * of its own, which does not look beyond its page, and the four are on the way
 * together.  Measured with 4 KiB pages: 13.0 GB/s, one row after the other 9.7.
 */
static constexpr size_t rows = 4, row_most = 4096, line = cache_line;

/* past: the destination goes past the caches; else somebody reads it next. */
template <bool past>
[[gnu::target("avx2")]] ordered_elsewhere static void four_rows_avx2(u8 *d, const u8 *s, size_t row)
{
	for (size_t at = 0; at < row; at += line)
		for (size_t k = 0; k < rows; k++) {
			auto *from = reinterpret_cast<const __m256i *>(s + k * row + at);
			auto *to = reinterpret_cast<__m256i *>(d + k * row + at);
			const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);

			past ? _mm256_stream_si256(to, a) : _mm256_store_si256(to, a);
			past ? _mm256_stream_si256(to + 1, b) : _mm256_store_si256(to + 1, b);
		}
}

[[gnu::target("avx512f")]] ordered_elsewhere static void four_rows_avx512(u8 *d, const u8 *s, size_t row)
{
	for (size_t at = 0; at < row; at += line)
		for (size_t k = 0; k < rows; k++)
			_mm512_stream_si512(reinterpret_cast<__m512i *>(d + k * row + at), _mm512_loadu_si512(s + k * row + at));
}

/* Copies what stands before the next boundary of dst, so that streaming stores are whole lines. */
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

template <void four_rows(u8 *, const u8 *, size_t)>
ordered_elsewhere static void by_rows(void *dst, const void *src, size_t len)
{
	auto *d = static_cast<u8 *>(dst);
	auto *s = static_cast<const u8 *>(src);

	len = align_head(d, s, len);
	while (len >= rows * line) {
		const size_t row = std::min(len / rows / line * line, row_most);

		four_rows(d, s, row);
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
 * shared cache holds, from nine on, both ways to copy are about as fast.
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

/* Half of it holds the source, half the destination. */
static size_t near_bytes()
{
	const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);

	return l2 > 0 ? size_t(l2) / 2 : 512 * KiB;
}

static copy_tuning choose()
{
	copy_tuning t = portable;

	__builtin_cpu_init();
	if (has_erms()) {
		t.medium = rep_movsb;
		t.medium_name = "rep movsb";
	}
	if (!__builtin_cpu_supports("avx2"))
		return t;
	const bool wide = __builtin_cpu_supports("avx512f");
	t.fetch = by_rows<four_rows_avx2<false>>;
	t.fetch_name = "AVX2";
	t.stream = wide ? by_rows<four_rows_avx512> : by_rows<four_rows_avx2<true>>;
	t.stream_name = wide ? "AVX-512 past the caches" : "AVX2 past the caches";
	t.probe_min = 16 * KiB;
	t.stream_min = near_bytes() + 1;
	t.hot_ticks = calibrate_look();
	return t;
}

#else

bool source_is_near(const copy_tuning &, const void *, size_t)
{
	return true;
}

static copy_tuning choose()
{
	return portable;
}

#endif

const copy_tuning &copy_for_cpu()
{
	static const copy_tuning tuning = choose();

	return tuning;
}

} // namespace usdma
