/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/copy.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace usdma::sim {

static void plain(void *dst, const void *src, size_t len)
{
	memmove(dst, src, len);
}

#if defined(__x86_64__)

static void rep_movsb(void *dst, const void *src, size_t len)
{
	asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
}

static constexpr size_t ahead = 1024; /* bytes that a streaming loop asks for before it needs them */

/* Copies what stands before the next boundary of dst, so that streaming stores are whole lines. */
static size_t align_head(u8 *&d, const u8 *&s, size_t len)
{
	const size_t to_line = -reinterpret_cast<size_t>(d) & (cache_line - 1);
	const size_t head = to_line < len ? to_line : len; /* a long copy may come in pieces as small as a byte */

	if (head) {
		memcpy(d, s, head);
		d += head;
		s += head;
	}
	return len - head;
}

[[gnu::target("avx2")]] static void stream_avx2(void *dst, const void *src, size_t len)
{
	auto *d = static_cast<u8 *>(dst);
	auto *s = static_cast<const u8 *>(src);

	for (len = align_head(d, s, len); len >= 128; d += 128, s += 128, len -= 128) {
		__m256i v[4];

		_mm_prefetch(reinterpret_cast<const char *>(s + ahead), _MM_HINT_NTA);
		_mm_prefetch(reinterpret_cast<const char *>(s + ahead + 64), _MM_HINT_NTA);
		for (unsigned i = 0; i < 4; i++)
			v[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(s + 32 * i));
		for (unsigned i = 0; i < 4; i++)
			_mm256_stream_si256(reinterpret_cast<__m256i *>(d + 32 * i), v[i]);
	}
	/* Streaming stores are weakly ordered: the completion must not overtake them. */
	_mm_sfence();
	memcpy(d, s, len);
}

[[gnu::target("avx512f")]] static void stream_avx512(void *dst, const void *src, size_t len)
{
	auto *d = static_cast<u8 *>(dst);
	auto *s = static_cast<const u8 *>(src);

	for (len = align_head(d, s, len); len >= 256; d += 256, s += 256, len -= 256) {
		__m512i v[4];

		for (unsigned i = 0; i < 4; i++)
			_mm_prefetch(reinterpret_cast<const char *>(s + ahead + 64 * i), _MM_HINT_NTA);
		for (unsigned i = 0; i < 4; i++)
			v[i] = _mm512_loadu_si512(s + 64 * i);
		for (unsigned i = 0; i < 4; i++)
			_mm512_stream_si512(reinterpret_cast<__m512i *>(d + 64 * i), v[i]);
	}
	_mm_sfence();
	memcpy(d, s, len);
}

/* Enhanced rep movsb: CPUID leaf 7, EBX bit 9 (Intel SDM vol. 2, CPUID). */
static bool has_erms()
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 9));
}

static copy_tuning choose()
{
	copy_tuning t = {2048, ~size_t(0), plain, plain};

	__builtin_cpu_init();
	if (has_erms())
		t.medium = rep_movsb;
	if (__builtin_cpu_supports("avx512f"))
		t.stream = stream_avx512;
	else if (__builtin_cpu_supports("avx2"))
		t.stream = stream_avx2;
	if (t.stream != plain)
		t.stream_min = 256 * KiB;
	return t;
}

#else

static copy_tuning choose()
{
	return {2048, ~size_t(0), plain, plain};
}

#endif

const copy_tuning &copy_for_cpu()
{
	static const copy_tuning tuning = choose();

	return tuning;
}

} // namespace usdma::sim
