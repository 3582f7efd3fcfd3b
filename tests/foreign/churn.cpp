/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In a guest behind a vIOMMU: memory is pinned, written by the device and released,
 * round after round, while other copies run.  Another process gets the released
 * pages, writes a pattern into them and checks it.  A mapping that outlives its
 * memory fails the test twice: the other process's pattern changes, and the copied
 * bytes are not in the memory that is mapped now.
 * Run as: foreign-churn ROUNDS
 */
#include "tests/integration/native.h"

#include <atomic>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static constexpr size_t page = 4096, largest = 4 << 20;
static unsigned rounds;

/* State of the process that takes released pages, in shared memory. */
struct taker {
	std::atomic<std::uint64_t> checked, changed;
	std::atomic<bool> stop;
};

static bool holds(const std::uint64_t *p, size_t words, std::uint64_t value)
{
	for (size_t i = 0; i < words; i++)
		if (p[i] != (value ^ i))
			return false;
	return true;
}

/* Takes the pages that were released last, fills them, checks them several times, and releases them. */
static void take_pages(taker *t, std::uint64_t value)
{
	static constexpr size_t size = 64 * page, words = size / 8;

	while (!t->stop.load(std::memory_order_relaxed)) {
		void *const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		auto *const w = static_cast<std::uint64_t *>(p);

		if (p == MAP_FAILED)
			_exit(3);
		madvise(p, size, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < words; i++)
			w[i] = value ^ i;
		for (int check = 0; check < 4; check++) {
			sched_yield();
			t->changed += !holds(w, words, value);
			t->checked += size / page;
		}
		munmap(p, size);
		value = value * 6364136223846793005u + 1442695040888963407u;
	}
}

struct load {
	usdma_device *dev;
	std::atomic<bool> stop{false};
	std::atomic<std::uint64_t> copies{0}, wrong{0};
};

/* Copies between the device and memory that remains pinned. */
static void keep_copying(load *l)
{
	static constexpr size_t size = 256 * 1024;
	usdma_stream *s = nullptr;
	block in(l->dev, kind::pinned, size), out(l->dev, kind::pinned, size), mem(l->dev, kind::device, size);
	auto gen = rng(77);

	WORKS(usdma_stream_create(l->dev, nullptr, &s));
	while (!l->stop) {
		fill_random(in.data(), 4096, gen);
		WORKS(usdma_copy(s, mem.data(), in.data(), size));
		WORKS(usdma_copy(s, out.data(), mem.data(), size));
		WORKS(usdma_stream_sync(s, 60000));
		l->wrong += memcmp(in.data(), out.data(), size) != 0;
		l->copies++;
	}
	WORKS(usdma_stream_destroy(s));
}

/* A few pages; every 50th round so many that they fill page tables of the IOMMU, which are freed with them. */
static size_t some_size(std::mt19937_64 &gen, unsigned round)
{
	return round % 50 == 49 ? largest : page * (1 + gen() % 24);
}

static bool one_round(usdma_stream *s, const unsigned char *from, unsigned char *mem, size_t size, bool huge)
{
	void *const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	WORKS(usdma_host_register(p, size, 0));
	WORKS(usdma_copy(s, p, mem, size));
	WORKS(usdma_stream_sync(s, 60000));
	const bool good = !memcmp(p, from, size);
	WORKS(usdma_host_unregister(p));
	munmap(p, size);
	return good;
}

static void released_pages_are_unmapped(void **state)
{
	auto *const other = static_cast<taker *>(*state);
	usdma_device *dev = nullptr;
	usdma_stream *s = nullptr;
	unsigned wrong = 0;
	auto gen = rng();

	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	load l{dev};
	std::thread copier(keep_copying, &l);
	block mem(dev, kind::device, largest), from(dev, kind::pinned, largest);
	fill_random(from.data(), largest, gen);
	WORKS(usdma_copy_sync(dev, mem.data(), from.data(), largest, 60000));
	for (unsigned r = 0; r < rounds; r++)
		wrong += !one_round(s, from.data(), mem.data(), some_size(gen, r), r % 100 == 99);
	l.stop = true;
	copier.join();
	print_message("# %u rounds, %llu copies at the same time, %llu pages of the other process checked\n", rounds,
		      static_cast<unsigned long long>(l.copies), static_cast<unsigned long long>(other->checked));
	assert_int_equal(wrong, 0);
	assert_int_equal(l.wrong, 0);
	assert_true(l.copies > 0);
	assert_true(other->checked > rounds);
	assert_int_equal(other->changed, 0);
	WORKS(usdma_stream_destroy(s));
}

int main(int argc, char **argv)
{
	void *const shared = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	auto *const other = new (shared) taker();
	const CMUnitTest tests[] = {cmocka_unit_test_prestate(released_pages_are_unmapped, other)};
	int status;

	if (argc != 2 || shared == MAP_FAILED)
		return 2;
	rounds = unsigned(atoi(argv[1]));
	const pid_t pid = fork();
	if (!pid) {
		take_pages(other, seed());
		_exit(0);
	}
	const int failed = cmocka_run_group_tests_name("foreign-churn", tests, nullptr, nullptr);

	other->stop = true;
	return waitpid(pid, &status, 0) == pid && !status ? failed : 1;
}
