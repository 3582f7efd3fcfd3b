/* SPDX-License-Identifier: BSD-3-Clause */
/* The offset allocator, compared with a model that is an array of grains. */
#include "tests/support/test.h"

#include "lib/core/memory/heap.h"

#include <cerrno>
#include <vector>

using namespace usdma;
using core::heap;

/* Each grain's owner: 0: free, else 1 + the start of the block that contains it. */
struct model {
	static constexpr u64 grain = 64;
	std::vector<u64> owner;
	std::vector<std::pair<u64, u64>> live; /* offset, size */

	explicit model(u64 size) : owner(size / grain) {}
	bool has_space(u64 size, u64 align) const
	{
		for (u64 at = 0; at + size <= owner.size() * grain; at += std::max(align, grain))
			if (is_free(at, size))
				return true;
		return false;
	}
	bool is_free(u64 at, u64 size) const
	{
		for (u64 g = at / grain; g < (at + size + grain - 1) / grain; g++)
			if (owner[g])
				return false;
		return true;
	}
	void mark(u64 at, u64 size, u64 value)
	{
		for (u64 g = at / grain; g < (at + size + grain - 1) / grain; g++)
			owner[g] = value;
	}
	u64 used() const
	{
		u64 n = 0;

		for (u64 o : owner)
			n += o != 0;
		return n * grain;
	}
	u64 largest() const
	{
		u64 best = 0, run = 0;

		for (u64 o : owner)
			best = std::max(best, run = o ? 0 : run + 1);
		return best * grain;
	}
};

static void step_alloc(heap &h, model &m, std::mt19937_64 &gen)
{
	const u64 size = 1 + gen() % (gen() % 4 ? 300 : 4000), align = u64(1) << gen() % 11;
	const u64 rounded = align_up(size, model::grain);
	u64 at = 0;
	const int err = h.alloc(size, align, &at);

	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_false(m.has_space(rounded, align));
		return;
	}
	assert_int_equal(at % align, 0);
	assert_true(range_within(at, rounded, h.size()));
	assert_true(m.is_free(at, rounded));
	assert_int_equal(h.size_at(at), rounded);
	m.mark(at, rounded, 1 + at);
	m.live.emplace_back(at, rounded);
}

static void step_free(heap &h, model &m, std::mt19937_64 &gen)
{
	const size_t i = gen() % m.live.size();
	const auto [at, size] = m.live[i];

	if (size > model::grain)
		assert_int_equal(h.free(at + model::grain), -EINVAL);
	assert_int_equal(h.free(at), 0);
	assert_int_equal(h.free(at), -EINVAL);
	m.mark(at, size, 0);
	m.live[i] = m.live.back();
	m.live.pop_back();
}

static void step_reserve(heap &h, model &m, std::mt19937_64 &gen)
{
	const u64 at = align_down(gen() % h.size(), model::grain), size = 1 + gen() % 1000;
	const int err = h.reserve(at, size);

	if (!range_within(at, size, h.size())) {
		assert_int_equal(err, -EINVAL);
	} else if (!m.is_free(at, size)) {
		assert_int_equal(err, -EEXIST);
	} else {
		assert_int_equal(err, 0);
		m.mark(at, size, 1 + at);
		m.live.emplace_back(at, align_up(size, model::grain));
	}
}

static void random_against_model(void **)
{
	auto gen = test::rng(1);
	heap h;
	model m(64 * 1024);

	h.init(64 * 1024, model::grain);
	for (unsigned i = 0; i < 20000 * test::scale(); i++) {
		const unsigned what = unsigned(gen() % 100);

		if (what < 48)
			step_alloc(h, m, gen);
		else if (what < 52)
			step_reserve(h, m, gen);
		else if (!m.live.empty())
			step_free(h, m, gen);
		assert_int_equal(h.used(), m.used());
		assert_int_equal(h.largest(), m.largest());
		assert_int_equal(h.blocks(), m.live.size());
	}
	while (!m.live.empty())
		step_free(h, m, gen);
	assert_int_equal(h.largest(), h.size());
	assert_true(h.peak() > h.size() / 2);
}

static void bad_arguments(void **)
{
	heap h;
	u64 at;

	assert_int_equal(h.alloc(1, 1, &at), -ENOMEM);
	h.init(4096 + 7, 64);
	assert_int_equal(h.size(), 4096);
	assert_int_equal(h.alloc(0, 1, &at), -EINVAL);
	assert_int_equal(h.alloc(1, 0, &at), -EINVAL);
	assert_int_equal(h.alloc(1, 3, &at), -EINVAL);
	assert_int_equal(h.alloc(~u64(0), 64, &at), -ENOMEM);
	assert_int_equal(h.alloc(4097, 64, &at), -ENOMEM);
	assert_int_equal(h.alloc(64, u64(1) << 63, &at), 0); /* offset 0 has every alignment */
	assert_int_equal(at, 0);
	assert_int_equal(h.alloc(64, u64(1) << 63, &at), -ENOMEM);
	assert_int_equal(h.free(64), -EINVAL);
	assert_int_equal(h.free(~u64(0)), -EINVAL);
	assert_int_equal(h.reserve(~u64(0), 2), -EINVAL);
	assert_int_equal(h.size_at(64), 0);
}

/* Best fit: the smallest sufficient hole is used. */
static void best_fit(void **)
{
	heap h;
	u64 at;

	h.init(10000 * 64, 64);
	for (u64 i : {10, 30, 50, 70})
		assert_int_equal(h.reserve(i * 64, 64), 0);
	assert_int_equal(h.reserve(40 * 64, 64), 0); /* holes: 0-9, 11-29, 31-39, 41-49, 51-69, 71… */
	assert_int_equal(h.alloc(9 * 64, 64, &at), 0);
	assert_int_equal(at, 31 * 64);
	assert_int_equal(h.alloc(10 * 64, 64, &at), 0);
	assert_int_equal(at, 0);
	assert_int_equal(h.alloc(19 * 64, 64, &at), 0);
	assert_int_equal(at, 11 * 64);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(random_against_model),
		cmocka_unit_test(bad_arguments),
		cmocka_unit_test(best_fit),
	};

	return cmocka_run_group_tests_name("heap", tests, nullptr, nullptr);
}
