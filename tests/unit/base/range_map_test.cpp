/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/test.h"

#include "driver/base/barrier.h"
#include "driver/base/range_map.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <thread>
#include <vector>

using namespace usdma;

static constexpr u64 top = u64(1) << 57;

static range_entry *lookup(const range_map &m, u64 addr)
{
	u64 base = 0, size = 0;
	range_entry *e = m.find(addr, &base, &size);

	if (e) {
		assert_int_equal(base, e->base);
		assert_int_equal(size, e->size);
		assert_true(addr - base < size);
	}
	return e;
}

static void bad_ranges(void **)
{
	range_map m;
	range_entry empty{0x1000, 0}, beyond{top - 4096, 4097}, wraps{~u64(0) - 10, 100}, outside{top, 1};

	assert_int_equal(m.insert(&empty), -EINVAL);
	assert_int_equal(m.insert(&beyond), -EINVAL);
	assert_int_equal(m.insert(&wraps), -EINVAL);
	assert_int_equal(m.insert(&outside), -EINVAL);
	assert_int_equal(m.count(), 0);
	assert_null(lookup(m, 0));
	assert_null(lookup(m, ~u64(0)));
	assert_null(m.first_in(0, ~u64(0)));
	m.remove(&beyond); /* was never in it */
}

static void edges(void **)
{
	range_map m;
	range_entry low{0, 1}, high{top - 1, 1}, mid{0x1001, 4096};

	assert_int_equal(m.insert(&low), 0);
	assert_int_equal(m.insert(&high), 0);
	assert_int_equal(m.insert(&mid), 0);
	assert_ptr_equal(lookup(m, 0), &low);
	assert_null(lookup(m, 1));
	assert_ptr_equal(lookup(m, top - 1), &high);
	assert_null(lookup(m, top - 2));
	assert_null(lookup(m, top));
	assert_null(lookup(m, 0x1000));
	assert_ptr_equal(lookup(m, 0x1001), &mid);
	assert_ptr_equal(lookup(m, 0x2000), &mid);
	assert_null(lookup(m, 0x2001));
	assert_int_equal(m.count(), 3);
}

static void generation_grows(void **)
{
	range_map m;
	range_entry e{0x1000, 1}, same{0x1000, 1};
	const u64 start = m.generation();

	assert_int_equal(m.insert(&e), 0);
	const u64 with = m.generation();
	assert_true(with > start);
	assert_int_equal(m.insert(&same), -EEXIST);
	assert_int_equal(m.generation(), with); /* nothing changed */
	m.remove(&e);
	assert_true(m.generation() > with);
}

/* The whole address space in one entry, and blocks of each level. */
static void huge_ranges(void **)
{
	range_map m;
	range_entry all{0, top}, one{0x123456789, 1};

	assert_int_equal(m.insert(&one), 0);
	assert_int_equal(m.insert(&all), -EEXIST);
	m.remove(&one);
	assert_int_equal(m.insert(&all), 0);
	assert_int_equal(m.insert(&one), -EEXIST);
	assert_ptr_equal(lookup(m, 0), &all);
	assert_ptr_equal(lookup(m, top - 1), &all);
	m.remove(&all);
	for (unsigned shift = 12; shift <= 48; shift += 9) {
		const u64 size = u64(1) << shift;
		range_entry block{size * 3, size}, after{size * 4, 1}, before{size * 3 - 1, 1},
			inside{size * 3 + size / 2, 1};
		range_entry around{size * 3 - 1, size + 2};

		assert_int_equal(m.insert(&block), 0);
		assert_int_equal(m.insert(&after), 0);
		assert_int_equal(m.insert(&before), 0);
		assert_int_equal(m.insert(&inside), -EEXIST);
		assert_int_equal(m.insert(&around), -EEXIST);
		assert_ptr_equal(lookup(m, size * 3), &block);
		assert_ptr_equal(lookup(m, size * 4 - 1), &block);
		assert_ptr_equal(lookup(m, size * 4), &after);
		assert_ptr_equal(lookup(m, size * 3 - 1), &before);
		m.remove(&block);
		assert_null(lookup(m, size * 3));
		assert_ptr_equal(lookup(m, size * 4), &after);
		m.remove(&after);
		m.remove(&before);
		assert_int_equal(m.insert(&around), 0);
		m.remove(&around);
	}
	assert_int_equal(m.count(), 0);
}

/* Each byte of two pages is an entry; they are removed in random order. */
static void bytes_of_a_page(void **)
{
	constexpr size_t n = 8192;
	constexpr u64 base = 0x7ffff0000000;
	std::unique_ptr<range_entry[]> e(new range_entry[n]);
	std::vector<size_t> order(n);
	auto gen = test::rng(1);
	range_map m;

	for (size_t i = 0; i < n; i++)
		order[i] = i;
	std::shuffle(order.begin(), order.end(), gen);
	for (size_t i : order) {
		e[i].base = base + i;
		e[i].size = 1;
		assert_int_equal(m.insert(&e[i]), 0);
	}
	assert_int_equal(m.insert(&e[77]), -EEXIST);
	for (size_t i = 0; i < n; i += 7)
		assert_ptr_equal(lookup(m, base + i), &e[i]);
	std::shuffle(order.begin(), order.end(), gen);
	for (size_t k = 0; k < n; k++) {
		m.remove(&e[order[k]]);
		assert_null(lookup(m, base + order[k]));
		if (k + 1 < n)
			assert_ptr_equal(lookup(m, base + order[k + 1]), &e[order[k + 1]]);
	}
}

/* ---- random, against a std::map ------------------------------------------------------------------------ */

struct model {
	range_map map;
	std::map<u64, std::unique_ptr<range_entry>> ref; /* by base */

	range_entry *find(u64 addr)
	{
		auto it = ref.upper_bound(addr);

		if (it == ref.begin())
			return nullptr;
		range_entry *e = std::prev(it)->second.get();
		return addr - e->base < e->size ? e : nullptr;
	}
	bool overlaps(u64 base, u64 size)
	{
		auto it = ref.lower_bound(base);

		return find(base) || (it != ref.end() && it->first - base < size);
	}
	void insert(u64 base, u64 size)
	{
		auto e = std::make_unique<range_entry>();
		const bool hit = overlaps(base, size);

		e->base = base;
		e->size = size;
		assert_int_equal(map.insert(e.get()), hit ? -EEXIST : 0);
		if (!hit)
			ref.emplace(base, std::move(e));
	}
	void remove_at_or_after(u64 addr)
	{
		auto it = ref.lower_bound(addr);

		if (it == ref.end())
			return;
		map.remove(it->second.get());
		ref.erase(it); /* freed at once: ASan sees a pointer left in the tree */
	}
	void check(u64 addr) { assert_ptr_equal(lookup(map, addr), find(addr)); }
	void check_first(u64 first, u64 last)
	{
		auto it = ref.lower_bound(first);
		range_entry *want = find(first);

		if (!want && it != ref.end() && it->first <= last)
			want = it->second.get();
		assert_ptr_equal(map.first_in(first, last), want);
	}
};

static u64 random_size(std::mt19937_64 &gen, unsigned max_order)
{
	return 1 + gen() % (u64(1) << gen() % max_order);
}

static void random_ops(unsigned window_order, unsigned size_order, u64 stream)
{
	auto gen = test::rng(stream);
	const u64 base = window_order < 57 ? (gen() % (top >> window_order)) << window_order : 0;
	const u64 mask = (u64(1) << window_order) - 1;
	model m;

	for (unsigned i = 0; i < 30000 * test::scale(); i++) {
		u64 at = gen() & mask;

		if (gen() % 4 == 0)
			at = align_down(at, u64(1) << gen() % 31); /* whole blocks are a case of their own */
		u64 size = random_size(gen, size_order);
		if (gen() % 4 == 0)
			size = std::max<u64>(align_down(size, u64(4096)), 1);
		size = std::min(size, mask + 1 - at);
		if (gen() % 8 < (m.ref.size() > 2000 ? 2 : 4))
			m.insert(base + at, size);
		else if (gen() % 2)
			m.remove_at_or_after(base + at);
		for (u64 probe : {at, at + size - 1, (at + size) & mask, (at - 1) & mask, gen() & mask})
			m.check(base + probe);
		m.check_first(base + at, base + at + size - 1);
		m.check_first(base + at, gen() % 2 ? ~u64(0) : base + at + (gen() & mask));
		assert_int_equal(m.map.count(), m.ref.size());
	}
	while (!m.ref.empty())
		m.remove_at_or_after(0);
	assert_int_equal(m.map.count(), 0);
}

static void random_few_pages(void **)
{
	random_ops(14, 12, 10);
}

static void random_megabytes(void **)
{
	random_ops(26, 22, 11);
}

static void random_terabytes(void **)
{
	random_ops(42, 36, 12);
}

static void random_whole_space(void **)
{
	random_ops(57, 48, 13);
}

static void many(void **)
{
	constexpr size_t n = 100000;
	constexpr u64 step = 3 * 4096, base = 0x100000000000;
	std::unique_ptr<range_entry[]> e(new range_entry[n]);
	range_map m;

	for (size_t i = 0; i < n; i++) {
		e[i].base = base + i * step;
		e[i].size = 2 * 4096;
		assert_int_equal(m.insert(&e[i]), 0);
	}
	assert_int_equal(m.count(), n);
	for (size_t i = 0; i < n; i += 3) {
		assert_ptr_equal(lookup(m, base + i * step + 8191), &e[i]);
		assert_null(lookup(m, base + i * step + 8192));
	}
}

/* ---- concurrent readers and a writer ------------------------------------------------------------------- */

/*
 * Even slots are always present, odd ones are inserted, removed and resized: a reader
 * must always find an even slot, and an odd one either not or with consistent values.
 */
struct race {
	static constexpr size_t slots = 64;
	static constexpr u64 base = 0x7f0000000000 - 4096, step = 1000;
	range_map map;
	range_entry e[slots];
	std::atomic<bool> stop{false};
	std::atomic<u64> wrong{0}, seen{0};

	race()
	{
		for (size_t i = 0; i < slots; i++)
			e[i].base = base + i * step;
		for (size_t i = 0; i < slots; i += 2)
			e[i].size = step;
	}

	bool right(size_t i, range_entry *got, u64 b, u64 size)
	{
		if (i % 2 == 0)
			return got == &e[i] && b == base + i * step && size == step;
		return !got || (got == &e[i] && b == base + i * step && (size == step || size == step / 2));
	}

	void read(u64 stream)
	{
		auto gen = test::rng(stream);

		while (!stop.load(std::memory_order_relaxed)) {
			const size_t i = gen() % slots;
			u64 b = 0, size = 0;
			range_entry *got = map.find(base + i * step + gen() % (step / 2), &b, &size);

			if (!right(i, got, b, size))
				wrong++;
			if (got && i % 2)
				seen++;
		}
	}

	void write(unsigned turns)
	{
		auto gen = test::rng(99);
		bool in[slots] = {};

		for (unsigned t = 0; t < turns; t++) {
			const size_t i = gen() % slots | 1;

			if (in[i]) {
				map.remove(&e[i]);
			} else {
				/* Late readers may read it (range_map.h). */
				store_relaxed(&e[i].size, gen() % 2 ? step : step / 2);
				assert_int_equal(map.insert(&e[i]), 0);
			}
			in[i] = !in[i];
		}
	}
};

static void readers_and_a_writer(void **)
{
	race r;
	std::vector<std::thread> readers;

	for (size_t i = 0; i < race::slots; i += 2)
		assert_int_equal(r.map.insert(&r.e[i]), 0);
	for (u64 t = 0; t < 3; t++)
		readers.emplace_back([&r, t] { r.read(100 + t); });
	do {
		r.write(20000 * test::scale());
		for (size_t i = 1; i < race::slots; i += 2)
			r.map.remove(&r.e[i]);
	} while (r.seen == 0);
	r.stop = true;
	for (std::thread &t : readers)
		t.join();
	assert_int_equal(r.wrong, 0);
	assert_true(r.seen > 0);
}

/* Nodes are replaced under the readers: a huge block and small ranges alternate at the same address. */
static void readers_and_huge_changes(void **)
{
	constexpr u64 base = u64(5) << 39, size = u64(1) << 30;
	range_map m;
	range_entry huge{base, size}, low{base, 4096}, high{base + size - 4096, 4096}, fixed{base + size, 100};
	std::atomic<bool> stop{false};
	std::atomic<u64> wrong{0};
	std::vector<std::thread> readers;

	assert_int_equal(m.insert(&fixed), 0);
	for (u64 t = 0; t < 3; t++) {
		readers.emplace_back([&, t] {
			auto gen = test::rng(200 + t);
			u64 b, s;

			while (!stop.load(std::memory_order_relaxed)) {
				range_entry *a = m.find(base + size - 1 - gen() % 4096, &b, &s);

				wrong += a && !(a == &huge && b == base && s == size) &&
					 !(a == &high && b == base + size - 4096 && s == 4096);
				wrong += m.find(base + size + gen() % 100, &b, &s) != &fixed || b != base + size ||
					 s != 100;
			}
		});
	}
	for (unsigned i = 0; i < 5000 * test::scale(); i++) {
		assert_int_equal(m.insert(&huge), 0);
		m.remove(&huge);
		assert_int_equal(m.insert(&low), 0);
		assert_int_equal(m.insert(&high), 0);
		m.remove(&low);
		m.remove(&high);
	}
	stop = true;
	for (std::thread &t : readers)
		t.join();
	assert_int_equal(wrong, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(bad_ranges),           cmocka_unit_test(edges),
		cmocka_unit_test(generation_grows),     cmocka_unit_test(huge_ranges),
		cmocka_unit_test(bytes_of_a_page),      cmocka_unit_test(random_few_pages),
		cmocka_unit_test(random_megabytes),     cmocka_unit_test(random_terabytes),
		cmocka_unit_test(random_whole_space),   cmocka_unit_test(many),
		cmocka_unit_test(readers_and_a_writer), cmocka_unit_test(readers_and_huge_changes),
	};

	return cmocka_run_group_tests_name("range_map", tests, nullptr, nullptr);
}
