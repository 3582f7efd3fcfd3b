/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In a guest behind a vIOMMU: GIB GiB are pinned in pages of 4 KiB, and the
 * device copies all of them.  Prints how long the pinning took.
 * Run as: foreign-big GIB
 */
#include "tests/integration/native.h"

#include <chrono>
#include <sys/mman.h>

using namespace usdma::test;
using clock_type = std::chrono::steady_clock;

static constexpr size_t page = 4096;
static size_t size;

static double seconds_since(clock_type::time_point t)
{
	return std::chrono::duration<double>(clock_type::now() - t).count();
}

/* Writes its offset into the first word of each page. */
static void mark(unsigned char *p)
{
	for (size_t at = 0; at < size; at += page)
		memcpy(p + at, &at, sizeof(at));
}

/* Reverses the order of the pieces, through the device's memory. */
static void reverse_pieces(usdma_device *dev, usdma_stream *s, unsigned char *p)
{
	static constexpr size_t piece = 4 << 20;
	block a(dev, kind::device, piece), b(dev, kind::device, piece);

	for (size_t at = 0; at < size / 2; at += piece) {
		unsigned char *const low = p + at, *const high = p + size - piece - at;

		WORKS(usdma_copy(s, a.data(), low, piece));
		WORKS(usdma_copy(s, b.data(), high, piece));
		WORKS(usdma_copy(s, low, b.data(), piece));
		WORKS(usdma_copy(s, high, a.data(), piece));
		WORKS(usdma_stream_sync(s, 60000));
	}
}

static size_t misplaced(const unsigned char *p)
{
	static constexpr size_t piece = 4 << 20;
	size_t wrong = 0;

	for (size_t at = 0; at < size; at += page) {
		const size_t in_piece = at % piece, want = size - piece - (at - in_piece) + in_piece;
		size_t is;

		memcpy(&is, p + at, sizeof(is));
		wrong += is != want;
	}
	return wrong;
}

static void device_reaches_all_pages(void **)
{
	usdma_device *dev = nullptr;
	usdma_stream *s = nullptr;
	void *const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	auto *const bytes = static_cast<unsigned char *>(p);

	assert_ptr_not_equal(p, MAP_FAILED);
	madvise(p, size, MADV_NOHUGEPAGE);
	mark(bytes);
	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	auto start = clock_type::now();
	WORKS(usdma_host_register(p, size, 0));
	print_message("# pinned in %.1f s\n", seconds_since(start));
	start = clock_type::now();
	reverse_pieces(dev, s, bytes);
	print_message("# copied in %.1f s\n", seconds_since(start));
	assert_int_equal(misplaced(bytes), 0);
	start = clock_type::now();
	WORKS(usdma_host_unregister(p));
	print_message("# released in %.1f s\n", seconds_since(start));
	WORKS(usdma_stream_destroy(s));
	WORKS(usdma_close(dev));
}

int main(int argc, char **argv)
{
	const CMUnitTest tests[] = {cmocka_unit_test(device_reaches_all_pages)};

	if (argc != 2)
		return 2;
	size = size_t(atoi(argv[1])) << 30;
	return cmocka_run_group_tests_name("foreign-big", tests, nullptr, nullptr);
}
