/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory is cleared between users: what the next one finds, what is left behind, and the number of fills. */
#include "tests/unit/core/memory_rig.h"
#include "lib/core/memory/memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

using namespace usdma;
using namespace usdma::core;
using test::attached;
using test::fake;
using test::on_device;
using test::own_memory;

namespace {

constexpr u8 secret = 0x5e;

/* The device's memory, which outlives its users; counts the fills. */
struct fake_memory {
	std::vector<u8> byte = std::vector<u8>(own_memory, secret);
	std::mutex lock;
	u64 base = 0, cleared = 0;
	unsigned fills = 0;
	int fail_at = 0; /* the n-th fill from now; 0: none */

	bool all(u64 from, u64 len, u8 value) const
	{
		return std::all_of(byte.begin() + long(from), byte.begin() + long(from + len),
				   [=](u8 b) { return b == value; });
	}
};
fake_memory *memory;

int zero(device *, u64 dma, u64 len)
{
	std::lock_guard guard(memory->lock);

	if (memory->fail_at && !--memory->fail_at)
		return fail(EIO, "fake: the fill fails");
	assert_true(range_within(dma - memory->base, len, own_memory));
	memset(memory->byte.data() + (dma - memory->base), 0, len);
	memory->cleared += len;
	memory->fills++;
	return 0;
}

/* One process that uses the device during the lifetime of this object. */
struct user : attached {
	explicit user(unsigned slot = 0) : attached(slot)
	{
		memory->base = engine().base;
		test::on_zero = zero;
	}
	~user()
	{
		leave();
		test::on_zero = nullptr;
	}
	/* Like device_close. */
	void leave()
	{
		if (!is_attached)
			return;
		memory_wipe(&dev);
		detach();
	}
	u64 at(u64 addr) const { return addr - memory->base; }
	/* Allocates a block, which must be zeroed, and writes the secret to it. */
	u64 block(u64 size, page_policy policy = page_policy::huge_first)
	{
		const u64 addr = on_device(*this, size, policy);

		assert_true(memory->all(at(addr), size, 0));
		memset(memory->byte.data() + at(addr), secret, size);
		return addr;
	}
};

int fresh(void **)
{
	delete memory;
	memory = new fake_memory;
	return 0;
}

} // namespace

static void next_user_finds_zeros(void **)
{
	auto gen = test::rng(1);

	for (unsigned n = 0; n < 20; n++) {
		user u;
		std::vector<u64> mine;
		u64 offset;

		for (unsigned i = 0; i < 12; i++)
			mine.push_back(u.block(1 + gen() % (3 * MiB),
					       gen() % 2 ? page_policy::normal_only : page_policy::huge_first));
		assert_int_equal(device_carve(&u.dev, 4 * MiB, 0, &offset), 0);
		assert_true(memory->all(offset, 4 * MiB, 0));
		memset(memory->byte.data() + offset, secret, 4 * MiB);
		device_uncarve(&u.dev, offset, 4 * MiB);
		for (size_t i = 0; i < mine.size(); i += 1 + gen() % 3)
			assert_int_equal(device_free(mine[i]), 0);
	}
}

/* A user's data is cleared when it leaves: the next user need not use this library. */
static void nothing_is_left_behind(void **)
{
	{
		user u;

		u.block(5 * MiB);
		assert_int_equal(device_free(u.block(300)), 0);
	}
	/* Three granules and one are cleared; the others are unchanged. */
	assert_int_equal(std::count(memory->byte.begin(), memory->byte.end(), 0), 8 * MiB);
}

/* A block that the same user has freed is not cleared again. */
static void own_memory_is_not_cleared_again(void **)
{
	user u;

	assert_int_equal(device_free(u.block(6 * MiB)), 0);
	assert_int_equal(memory->cleared, 6 * MiB);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(device_free(on_device(u, 6 * MiB)), 0);
	assert_int_equal(memory->cleared, 6 * MiB);
	for (unsigned i = 0; i < 1000; i++)
		on_device(u, 512, page_policy::normal_only);
	assert_int_equal(memory->fills, 1);
}

/* Devices with zeroed memory, and pools of host memory for devices without memory, are not cleared. */
static void zeroed_memory_is_not_cleared(void **)
{
	struct zeroed_engine : test::fake_engine {
		using fake_engine::fake_engine;
		void set_zeroed() { limits_.caps |= dma::cap_memory_zeroed; }
	};
	test::on_zero = zero;
	for (u64 own : {own_memory, u64(0)}) {
		fake f(0, own);
		auto eng = std::make_unique<zeroed_engine>(own);

		eng->set_zeroed();
		f.dev.eng = std::move(eng);
		assert_int_equal(memory_attach(&f.dev), 0);
		assert_null(heap_of(&f.dev)->clean.get());
		on_device(f, 3 * MiB);
		memory_wipe(&f.dev);
		memory_detach(&f.dev);
	}
	fake without_memory(0, 0);
	assert_int_equal(memory_attach(&without_memory.dev), 0);
	on_device(without_memory, 3 * MiB);
	memory_wipe(&without_memory.dev);
	memory_detach(&without_memory.dev);
	test::on_zero = nullptr;
	assert_int_equal(memory->fills, 0);
}

/* Memory that cannot be cleared is not allocated, and remains free. */
static void a_fill_that_fails(void **)
{
	user u;
	u64 addr, offset;

	memory->fail_at = 1;
	assert_int_equal(device_alloc(&u.dev, 3 * MiB, page_policy::huge_first, &addr), -EIO);
	assert_non_null(strstr(error_text(), "clear_memory"));
	assert_non_null(strstr(error_text(), "the fill fails"));
	memory->fail_at = 1;
	assert_int_equal(device_carve(&u.dev, 4 * MiB, 0, &offset), -EIO);
	assert_int_equal(device_heap_info(&u.dev).free, own_memory);
	u.block(own_memory);
}

/* Threads have blocks in the same granules: clearing one block does not overwrite another thread's data. */
static void threads_share_granules(void **)
{
	static constexpr unsigned threads = 4, rounds = 1500;
	user u;
	std::vector<std::thread> workers;
	std::atomic<unsigned> wrong{0}, made{0};

	for (unsigned t = 0; t < threads; t++)
		workers.emplace_back([&, t] {
			std::vector<std::pair<u64, u64>> mine;
			auto gen = test::rng(10 + t);

			for (unsigned i = 0; i < rounds; i++) {
				const u64 size = 512 + gen() % 16384;
				u64 addr;

				if (device_alloc(&u.dev, size, page_policy::normal_only, &addr))
					break;
				wrong += !memory->all(u.at(addr), size, 0);
				memset(memory->byte.data() + u.at(addr), int(0x80 + t), size);
				mine.emplace_back(addr, size);
			}
			for (const auto &[addr, size] : mine)
				wrong += !memory->all(u.at(addr), size, u8(0x80 + t));
			made += unsigned(mine.size());
		});
	for (std::thread &t : workers)
		t.join();
	assert_true(made > 100 * threads);
	assert_int_equal(wrong, 0);
}

/* A lost device gets no fill. */
static void a_lost_device(void **)
{
	user u;

	u.block(3 * MiB);
	u.vfio().is_lost = true;
	const unsigned fills = memory->fills;
	memory_wipe(&u.dev);
	assert_int_equal(memory->fills, fills);
}

int main()
{
#define clean(f) cmocka_unit_test_setup_teardown(f, fresh, test::nothing_left)
	const CMUnitTest tests[] = {
		clean(next_user_finds_zeros),
		clean(nothing_is_left_behind),
		clean(own_memory_is_not_cleared_again),
		clean(zeroed_memory_is_not_cleared),
		clean(a_fill_that_fails),
		clean(threads_share_granules),
		clean(a_lost_device),
	};

	test::plain_settings();
	return cmocka_run_group_tests_name("memory-clean", tests, nullptr, nullptr);
}
