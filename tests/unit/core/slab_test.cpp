/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles: a handle never names another object. */
#include "tests/support/test.h"

#include "lib/core/base/slab.h"

#include <set>

using namespace usdma;
using namespace usdma::core;

namespace {

struct alignas(64) object {
	u64 alive = 0;
	u64 data[19] = {}; /* three cache lines: offsets that are no powers of 2 */
};
using small_slab = slab<object, 3, handle_kind::test>;

void *handle(const object *o)
{
	return reinterpret_cast<void *>(o->alive);
}

} // namespace

static constinit small_slab objects;
static constinit slab<object, 3, handle_kind::event> others;

static object *made()
{
	object *o = objects.get();

	assert_non_null(o);
	objects.publish(o);
	return o;
}

static void live_handles_name_their_object(void **)
{
	object *a = made(), *b = made();
	const std::set<void *> all = {handle(a), handle(b)};

	assert_int_equal(all.size(), 2);
	for (object *o : {a, b}) {
		assert_ptr_equal(objects.find(handle(o)), o);
		assert_ptr_equal(objects.at(handle(o)), o);
		assert_true(s64(handle(o)) > 0);
		for (unsigned bit = 0; bit < 64; bit++)
			assert_false(objects.holds(reinterpret_cast<void *>(u64(handle(o)) ^ u64(1) << bit)));
	}
	assert_false(objects.holds(nullptr));
	object *c = others.get();
	others.publish(c);
	for (object *o : {a, b})
		assert_false(objects.holds(handle(c)) || others.holds(handle(o)));
	others.put(c);
	objects.put(a);
	objects.put(b);
	assert_false(objects.holds(nullptr)); /* a dead object's handle is 0 */
}

/* More objects in one slot than 21 bits of generation can number. */
static void stale_handles_stay_stale(void **)
{
	object *o = made();
	void *const first = handle(o);

	objects.put(o);
	for (u32 i = 0; i < (1 << 21) + 2; i++) {
		assert_ptr_equal(made(), o);
		if (handle(o) == first || objects.holds(first))
			print_error("the first handle names object %u\n", i);
		assert_false(handle(o) == first || objects.holds(first));
		objects.put(o);
	}
}

/* A slot whose generations are used up is not used again; the others are. */
static void used_up_slots_are_retired(void **)
{
	object *o = made(), *p;
	void *const last = reinterpret_cast<void *>(handle(o));

	static_assert(small_slab::max_generation >= u64(1) << 34);
	objects.put(o);
	p = objects.get();
	assert_ptr_equal(p, o);
	objects.age(p, small_slab::max_generation - 1);
	objects.publish(p);
	void *const at_the_end = handle(p);
	assert_true(objects.holds(at_the_end) && !objects.holds(last));
	/* Another handle of one object may be its last one, again. */
	store_release(&p->alive, u64(0));
	objects.publish(p);
	assert_ptr_equal(handle(p), at_the_end);
	objects.put(p);
	assert_int_equal(objects.live(), 0);
	object *a = made(), *b = made();
	assert_true(a != o && b != o);
	assert_null(objects.get());
	assert_int_equal(objects.live(), 2);
	objects.put(a);
	assert_ptr_equal(made(), a);
	assert_false(objects.holds(at_the_end));
}

/* By division: only the first byte of an object is one's start, whatever the size's factors. */
template <size_t size> static void starts_of()
{
	struct alignas(64) sized {
		u64 alive = 0;
		u8 rest[size - sizeof(u64)];
	};
	static constinit no_destructor<slab<sized, 4096, handle_kind::test>> all;
	const sized *const first = all->get();
	std::mt19937_64 gen(test::seed());
	u64 ready = 0;

	static_assert(sizeof(sized) == size);
	while (all->nth(ready))
		ready++;
	const auto is_start = [&](u64 offset) {
		return all->within(reinterpret_cast<const sized *>(reinterpret_cast<u64>(first) + offset));
	};
	for (u64 offset = 0; offset < (ready + 2) * size; offset++)
		assert_int_equal(is_start(offset), offset < ready * size && offset % size == 0);
	for (unsigned i = 0; i < 100000; i++) {
		const u64 offset = gen();

		assert_int_equal(is_start(offset), offset < ready * size && offset % size == 0);
	}
}

static void starts_of_objects(void **)
{
	starts_of<64>();
	starts_of<192>();
	starts_of<448>();
	starts_of<640>();
	starts_of<1024>();
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(live_handles_name_their_object),
		cmocka_unit_test(stale_handles_stay_stale),
		cmocka_unit_test(starts_of_objects),
		cmocka_unit_test(used_up_slots_are_retired),
	};

	return cmocka_run_group_tests_name("slab", tests, nullptr, nullptr);
}
