/* SPDX-License-Identifier: BSD-3-Clause */
/* <usdma/file.h>: reads of data in the page cache, and of data that is not there. */
#include "tests/integration/files.h"
#include "tests/support/held_memory.h"
#include "tests/support/refuse_call.h"
#include "tests/support/until.h"

#include <chrono>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <thread>

using namespace usdma::test;

/* Cached data is read without a thread, if the CPU can access the memory. */
static void read_from_page_cache(const char *dir, size_t size, std::mt19937_64 &gen)
{
	device dev;
	const temporary t(dir);
	const bytes want = fill_file(t, size, gen);
	const file f(dev, t.fd());
	bytes got(4 * MiB, untouched);
	const iovec probe = {got.data(), 1};
	size_t moved = 77;

	if (strcmp(dir, "/dev/shm") != 0 && preadv2(t.fd(), &probe, 1, 0, RWF_NOWAIT) != 1)
		return;
	got[0] = untouched;
	WORKS(usdma_file_read_sync(got.data(), f, 3, got.size(), &moved, long_ms));
	assert_int_equal(moved, want.size() - 3);
	assert_prefix(got, want, 3, moved);
	for (const kind k : {kind::pinned, kind::pageable}) {
		const block dst(dev, k, want.size());

		WORKS(usdma_file_read_sync(dst.data(), f, 0, dst.size(), nullptr, long_ms));
		assert_true(get(dev, dst) == want);
	}
	/* The check follows copies only. */
	assert_true(getenv("USDMA_CHECK") || threads_named("usdma-file") == 0);
}

static void the_page_cache_is_read_at_once(void **)
{
	in_a_child([] {
		auto gen = rng(23);

		read_from_page_cache("/tmp", 3 * MiB + 5, gen);
		read_from_page_cache("/dev/shm", 3 * MiB + 5, gen);
		/* Much less than the length of the read. */
		read_from_page_cache("/tmp", 300 * KiB, gen);
		return 0;
	});
}

static void read_any(usdma_device *dev, usdma_stream *s, usdma_file *f, const bytes &want, std::mt19937_64 &gen)
{
	const block dst(dev, all_kinds[gen() % 4], want.size());
	const size_t offset = any_size(want.size() + 4 * KiB, gen),
		     due = offset < want.size() ? want.size() - offset : 0;
	size_t moved = 77;

	wipe(dev, dst);
	if (gen() % 2)
		WORKS(usdma_file_read_sync(dst.data(), f, offset, dst.size(), &moved, long_ms));
	else
		WORKS(usdma_file_read(s, dst.data(), f, offset, dst.size(), &moved));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(moved, due);
	assert_prefix(get(dev, dst), want, offset, due);
}

/* On Linux 5.9 and 5.10 RWF_NOWAIT returns 0 for data that is not in the page cache. */
static void a_false_end_of_the_file(void **)
{
	if (!can_refuse_calls())
		skip();
	in_a_child([] {
		auto gen = rng(24);
		device dev;
		stream s(dev);
		const temporary t;
		const bytes want = fill_file(t, MiB + 5, gen);
		const file f(dev, t.fd());

		if (!refuse_call(SYS_preadv2, 0))
			return 2;
		for (unsigned i = 0; i < 20; i++)
			read_any(dev, s, f, want, gen);
		return 0;
	});
}

/* Since Linux 6.5. */
static bool has_cachestat(int fd)
{
	const std::uint64_t range[2] = {0, 4 * KiB};
	std::uint64_t pages[5];

	return syscall(451, fd, range, pages, 0) == 0;
}

/* A short read is also read ahead; mincore(2) shows that the data is in the page cache. */
static void a_short_read_is_read_ahead(void **)
{
	auto gen = rng(25);
	device dev;
	stream s(dev);
	gate g(dev);
	const temporary t;
	const bytes want = fill_file(t, 4 * KiB, gen);
	const file f(dev, t.fd());
	const block dst(dev, kind::pinned, want.size());
	void *const map = mmap(nullptr, want.size(), PROT_READ, MAP_SHARED, t.fd(), 0);
	const auto is_cached = [&] {
		unsigned char is = 0;

		assert_int_equal(mincore(map, want.size(), &is), 0);
		return is & 1;
	};

	assert_true(map != MAP_FAILED && fdatasync(t.fd()) == 0);
	posix_fadvise(t.fd(), 0, 0, POSIX_FADV_DONTNEED);
	g.close(s);
	WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), nullptr));
	until("it is read", is_cached);
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_true(get(dev, dst) == want);
	munmap(map, want.size());
}

/* A long direct read, and the query before it, do not fill the page cache, as mincore(2) shows. */
static void a_long_read_is_direct(void **)
{
	auto gen = rng(26);
	device dev;
	stream s(dev);
	const temporary t;
	const bytes want = fill_file(t, 6 * MiB, gen);
	const file f(dev, t.fd());
	const block dst(dev, kind::device, want.size());
	void *const map = mmap(nullptr, want.size(), PROT_READ, MAP_SHARED, t.fd(), 0);
	bytes cached(want.size() / (4 * KiB), 0);
	const auto is_cached = [&] {
		assert_int_equal(mincore(map, want.size(), cached.data()), 0);
		return !all_are(cached.data(), cached.size(), 0);
	};

	assert_true(map != MAP_FAILED && fdatasync(t.fd()) == 0);
	posix_fadvise(t.fd(), 0, 0, POSIX_FADV_DONTNEED);
	const bool is_direct = has_direct(dev, t.fd()) && has_cachestat(t.fd()) && !is_cached();
	for (const bool in_order : {false, true}) {
		wipe(dev, dst);
		if (in_order)
			WORKS(usdma_file_read(s, dst.data(), f, 0, dst.size(), nullptr));
		else
			WORKS(usdma_file_read_sync(dst.data(), f, 0, dst.size(), nullptr, long_ms));
		WORKS(usdma_stream_sync(s, long_ms));
		assert_true(get(dev, dst) == want);
		assert_true(!is_direct || !is_cached());
	}
	munmap(map, want.size());
}

/* Long reads are shared with a thread; both find ranges that are not in memory, and the end of the file. */
static void long_reads_are_shared(const char *dir, std::mt19937_64 &gen)
{
	device dev;
	stream s(dev);
	const temporary t(dir);
	const bytes want = fill_file(t, 20 * MiB + any_size(4 * MiB, gen), gen);
	const file f(dev, t.fd());

	assert_int_equal(fdatasync(t.fd()), 0);
	for (unsigned i = 0; i < 8; i++) {
		read_any(dev, s, f, want, gen);
		if (i % 2)
			posix_fadvise(t.fd(), off_t(any_size(want.size(), gen)), off_t(any_size(2 * MiB, gen)),
				      POSIX_FADV_DONTNEED);
	}
}

static void long_reads(void **)
{
	auto gen = rng(27);

	long_reads_are_shared("/tmp", gen);
	long_reads_are_shared("/dev/shm", gen);
}

/* Two threads read up to 16 MiB at once, but check the deadline more often. */
static void a_long_read_stops_in_time(void **)
{
	/* With USDMA_CHECK another thread reads, and may begin too late. */
	if (getenv("USDMA_CHECK"))
		skip();
	constexpr unsigned limit_ms = 20;
	const held_memory dst(24 * MiB, 0);
	auto gen = rng(28);
	device dev;
	const temporary t("/dev/shm");
	const bytes want = fill_file(t, dst.size(), gen);
	const file f(dev, t.fd());
	size_t moved = 77;
	int err = 77;

	dst.hold();
	std::thread reader([&] { err = usdma_file_read_sync(dst.data(), f, 0, want.size(), &moved, limit_ms); });
	dst.wait_for_access();
	const auto over = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
	until("its time is over", [&] { return std::chrono::steady_clock::now() > over; });
	dst.release();
	reader.join();
	assert_int_equal(err, -ETIMEDOUT);
	assert_true(moved <= MiB && memcmp(dst.data(), want.data(), moved) == 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(the_page_cache_is_read_at_once),
		cmocka_unit_test(a_false_end_of_the_file),
		cmocka_unit_test(a_short_read_is_read_ahead),
		cmocka_unit_test(a_long_read_is_direct),
		cmocka_unit_test(long_reads),
		cmocka_unit_test(a_long_read_stops_in_time),
	};

	return cmocka_run_group_tests_name("files-cached", tests, nullptr, nullptr);
}
