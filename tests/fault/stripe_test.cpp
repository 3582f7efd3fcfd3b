/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of copies that are striped over a device's engines (setting "stripe"): each
 * of their descriptors in turn fails, hangs, is slow or makes the device vanish.  Such a
 * copy counts as one: it is complete or reported once, and the failure mode of the
 * stream applies to it.
 */
#include "driver/vfio/device.h"
#include "lib/core/copy/copy.h"
#include "lib/core/stream/event.h"
#include "lib/core/stream/stream.h"
#include "tests/support/core.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::ptr;
using usdma::test::soon;

static constexpr u64 size = MiB, small = 4 * KiB;
/* On an idle stream: three parts, two WAITs in the first ring; else also a NOP and a WAIT in each other ring. */
static constexpr unsigned idle_descriptors = 5, busy_descriptors = 8;

struct setting {
	device *dev = nullptr;
	stream *s = nullptr;
	u8 *in = nullptr, *out = nullptr;
	u64 d = 0, e = 0;
};

static void new_stream(setting *t, int wait, fail_mode mode)
{
	stream_options opt;

	opt.wait = wait;
	ok(stream_create(t->dev, opt, &t->s));
	ok(stream_set_fail_mode(t->s, mode));
}

static void set_up(setting *t)
{
	auto gen = test::rng(7);

	ok(device_get(0, &t->dev));
	ok(t->dev->eng->transport().inject(""));
	ok(host_alloc(size, -1, reinterpret_cast<void **>(&t->in)));
	ok(host_alloc(size, -1, reinterpret_cast<void **>(&t->out)));
	ok(device_alloc(t->dev, size, page_policy::normal_only, &t->d));
	ok(device_alloc(t->dev, size, page_policy::normal_only, &t->e));
	test::fill_random(t->in, size, gen);
}

static void tear_down(setting *t)
{
	if (t->s)
		assert_int_equal(stream_destroy(t->s), t->dev->lost() ? -ENODEV : 0);
	ok(host_free(t->in));
	ok(host_free(t->out));
	ok(device_free(t->d));
	ok(device_free(t->e));
	device_put(t->dev);
}

static u8 *view(setting *t, u64 addr)
{
	return device_memory(t->dev).cpu + (translate(addr).dma - device_memory(t->dev).dma);
}

static void inject(setting *t, const char *what, unsigned n, const char *more = "")
{
	ok(t->dev->eng->transport().inject((std::string(what) + std::to_string(n) + more).c_str()));
}

/* Without faults, a new stream works. */
static void check_works(setting *t)
{
	stream *s;

	ok(t->dev->eng->transport().inject(""));
	ok(stream_create(t->dev, {}, &s));
	memset(t->out, 0, size);
	ok(copy_async(s, ptr(t->d), t->in, size));
	ok(copy_async(s, t->out, ptr(t->d), size));
	ok(stream_sync(s, soon()));
	assert_memory_equal(t->in, t->out, size);
	ok(stream_destroy(s));
}

static bool whole(const u8 *at, const u8 *want)
{
	return !memcmp(at, want, size);
}

static int wait_by(setting *t, int wait_kind)
{
	if (wait_kind == 3) {
		int q;

		while ((q = stream_query(t->s)) == 1)
			;
		assert_int_equal(q, 0);
	}
	return stream_sync(t->s, soon());
}

/* ---- a descriptor fails -------------------------------------------------------------------------------- */

/* true: a part failed. */
static bool one_fails(setting *t, unsigned n, int wait_kind)
{
	const u64 was = t->s->errors;

	memset(view(t, t->d), 0, size);
	memset(view(t, t->e), 0, size);
	inject(t, "fail@", n);
	ok(copy_async(t->s, ptr(t->d), t->in, size));
	ok(copy_async(t->s, ptr(t->e), t->in, small));
	const int err = wait_by(t, wait_kind);
	assert_true(err == 0 || err == -EIO);
	/* The second copy comes after the fifth descriptor, so that no fault strikes it. */
	assert_memory_equal(view(t, t->e), t->in, small);
	assert_int_equal(whole(view(t, t->d), t->in), err == 0);
	assert_int_equal(t->s->errors - was, err != 0);
	ok(stream_sync(t->s, soon()));
	return err != 0;
}

static void each_fails(void **)
{
	unsigned failed = 0;
	setting t;

	set_up(&t);
	for (int wait_kind = 0; wait_kind < 4; wait_kind++) {
		new_stream(&t, wait_kind % 3, fail_mode::go_on);
		for (unsigned n = 1; n <= idle_descriptors; n++)
			failed += one_fails(&t, n, wait_kind);
		ok(stream_destroy(t.s));
		t.s = nullptr;
		check_works(&t);
	}
	/* The first descriptor is a part; which others are depends on the progress of the engines. */
	assert_in_range(failed, 4 * 1, 4 * idle_descriptors);
	tear_down(&t);
}

static void all_parts_fail(void **)
{
	setting t;

	set_up(&t);
	new_stream(&t, -1, fail_mode::go_on);
	ok(t.dev->eng->transport().inject("fail@1+fail@2/transfer+fail@3/dst-denied"));
	ok(copy_async(t.s, ptr(t.d), t.in, size));
	assert_true(stream_sync(t.s, soon()) < 0);
	assert_int_equal(t.s->errors, 1);
	ok(stream_sync(t.s, soon()));
	check_works(&t);
	tear_down(&t);
}

/*
 * Three large copies in a row, each to its own third, so that parts wait for earlier ones.  One descriptor fails: in
 * mode stop nothing after that copy runs.
 */
static void stops_at(setting *t, unsigned n, int wait_kind, bool *struck)
{
	static constexpr u64 third = 320 * KiB;
	u8 *d = view(t, t->d);
	bool before = true;

	new_stream(t, wait_kind % 3, fail_mode::stop);
	memset(d, 0, size);
	memset(view(t, t->e), 0, small);
	inject(t, "fail@", n);
	for (u64 i = 0; i < 3; i++) {
		const int err = copy_async(t->s, ptr(t->d + i * third), t->in + i * third, third);

		assert_true(err == 0 || err == -EIO);
	}
	const int late = copy_async(t->s, ptr(t->e), t->in, small);
	assert_true(late == 0 || late == -EIO);
	const int err = wait_by(t, wait_kind);
	assert_true(err == 0 || err == -EIO);
	for (u64 i = 0; i < 3; i++) {
		const bool complete = !memcmp(d + i * third, t->in + i * third, third);

		/* One failed, perhaps in part; those before it are complete, those after it did not start. */
		if (!before)
			for (u64 k = 0; k < third; k++)
				assert_int_equal(d[i * third + k], 0);
		before = before && complete;
	}
	/* On an idle stream the copies take fewer descriptors, so the fault may have struck the small one. */
	assert_true(before || err);
	assert_int_equal(view(t, t->e)[small - 1], err ? 0 : t->in[small - 1]);
	assert_int_equal(t->s->errors, err != 0);
	assert_int_equal(copy_async(t->s, ptr(t->e), t->in, size), err);
	*struck = err != 0;
	/* The fault may have struck this last copy. */
	const int end = stream_destroy(t->s);
	assert_true(end == 0 || (end == -EIO && !err));
	t->s = nullptr;
}

static void each_stops_the_stream(void **)
{
	unsigned failed = 0;
	setting t;

	set_up(&t);
	for (int wait_kind = 0; wait_kind < 4; wait_kind++)
		for (unsigned n = 1; n <= idle_descriptors + 2 * busy_descriptors; n++) {
			bool struck;

			stops_at(&t, n, wait_kind, &struck);
			failed += struck;
		}
	check_works(&t);
	assert_in_range(failed, 4 * 3, 4 * (idle_descriptors + 2 * busy_descriptors));
	tear_down(&t);
}

/* A request before a striped copy fails: its parts are posted, but run only in mode go_on. */
static void earlier_request_fails(void **)
{
	const u32 bad_desc[8] = {0, 0, 0, 64, 0, 0x100, 0, 0x100}; /* a descriptor with unmapped addresses */
	setting t;

	set_up(&t);
	for (fail_mode mode : {fail_mode::stop, fail_mode::go_on}) {
		new_stream(&t, -1, mode);
		memset(view(&t, t.d), 0, size);
		ok(copy_sync(t.dev, ptr(t.e), bad_desc, sizeof(bad_desc), soon()));
		inject(&t, "slow%", 1, "/20000");
		ok(copy_async(t.s, ptr(t.e + small), t.in, small));
		ok(copy_indirect_async(t.s, ptr(t.e)));
		ok(copy_async(t.s, ptr(t.d), t.in, size));
		ok(copy_async(t.s, ptr(t.d), t.in, size));
		assert_int_equal(stream_sync(t.s, soon()), -EFAULT);
		for (u64 i = 0; i < size; i++)
			assert_int_equal(view(&t, t.d)[i], mode == fail_mode::stop ? 0 : t.in[i]);
		assert_int_equal(t.s->errors, 1);
		ok(stream_destroy(t.s));
		t.s = nullptr;
	}
	check_works(&t);
	tear_down(&t);
}

/* ---- in flight -------------------------------------------------------------------------------------------- */

/* Slow copies are aborted or destroyed: nothing is written after the call returns. */
static void aborted_or_destroyed(void **)
{
	setting t;

	set_up(&t);
	for (int i = 0; i < 12; i++) {
		new_stream(&t, i % 3, fail_mode::go_on);
		inject(&t, "slow%", 1, i % 2 ? "/3000" : "/30000");
		for (int k = 0; k < 3; k++)
			ok(copy_async(t.s, ptr(t.d), t.in, size));
		if (i % 4 < 2) {
			ok(stream_abort(t.s));
			memset(view(&t, t.d), 0x77, size);
			assert_int_equal(copy_async(t.s, ptr(t.d), t.in, size), -ECANCELED);
			ok(stream_destroy(t.s));
		} else {
			ok(stream_destroy_force(t.s));
			memset(view(&t, t.d), 0x77, size);
		}
		t.s = nullptr;
		ok(t.dev->eng->transport().inject(""));
		device_sync(t.dev, soon());
		copy_sync(t.dev, t.out, ptr(t.d), size, soon());
		for (u64 k = 0; k < size; k++)
			assert_int_equal(t.out[k], 0x77);
	}
	check_works(&t);
	tear_down(&t);
}

static void destroyed_when_done(void **)
{
	setting t;

	set_up(&t);
	new_stream(&t, -1, fail_mode::go_on);
	inject(&t, "slow%", 1, "/5000");
	for (int k = 0; k < 3; k++)
		ok(copy_async(t.s, ptr(t.d), t.in, size));
	ok(stream_destroy(t.s));
	t.s = nullptr;
	assert_true(whole(view(&t, t.d), t.in));
	check_works(&t);
	tear_down(&t);
}

/* A wait times out, and the copy continues. */
static void wait_times_out(void **)
{
	setting t;

	set_up(&t);
	new_stream(&t, -1, fail_mode::go_on);
	inject(&t, "slow@", 1, "/200000"); /* a part, on any engine */
	ok(copy_async(t.s, ptr(t.d), t.in, size));
	assert_int_equal(stream_sync(t.s, deadline::in_ms(20)), -ETIMEDOUT);
	ok(stream_sync(t.s, soon()));
	assert_true(whole(view(&t, t.d), t.in));
	check_works(&t);
	tear_down(&t);
}

/* ---- engines that hang, a device that vanishes --------------------------------------------------------- */

static void each_hangs(void **)
{
	setting t;

	set_up(&t);
	for (fail_mode mode : {fail_mode::go_on, fail_mode::stop})
		for (unsigned n = 1; n <= idle_descriptors; n++) {
			new_stream(&t, int(n % 3), mode);
			memset(view(&t, t.d), 0, size);
			inject(&t, "hang@", n);
			ok(copy_async(t.s, ptr(t.d), t.in, size));
			const int err = stream_sync(t.s, soon());
			assert_true(err == 0 || err == -EIO);
			assert_int_equal(whole(view(&t, t.d), t.in), err == 0);
			assert_int_equal(t.s->errors, err != 0);
			ok(stream_destroy(t.s));
			t.s = nullptr;
			check_works(&t);
		}
	tear_down(&t);
}

/* Only a device reset recovers it. */
static void each_needs_a_device_reset(void **)
{
	setting t;

	set_up(&t);
	for (unsigned n = 1; n <= idle_descriptors; n++) {
		new_stream(&t, int(n % 3), fail_mode::go_on);
		inject(&t, "hang@", n, "/device");
		ok(copy_async(t.s, ptr(t.d), t.in, size));
		ok(copy_async(t.s, ptr(t.d), t.in, size));
		assert_int_equal(stream_sync(t.s, soon()), -EIO);
		/* Again, until it has been recovered. */
		for (int i = 0; i < 4 && copy_sync(t.dev, ptr(t.d), t.in, size, soon()); i++)
			;
		ok(stream_destroy(t.s));
		t.s = nullptr;
		check_works(&t);
	}
	tear_down(&t);
}

static void vanishes(void **)
{
	for (unsigned n = 1; n <= idle_descriptors; n++) {
		setting t;

		set_up(&t);
		new_stream(&t, int(n % 3), fail_mode::go_on);
		inject(&t, "vanish@", n);
		ok(copy_async(t.s, ptr(t.d), t.in, size));
		assert_int_equal(stream_sync(t.s, soon()), -ENODEV);
		assert_int_equal(copy_sync(t.dev, ptr(t.d), t.in, size, soon()), -ENODEV);
		tear_down(&t);
		t = {};
		set_up(&t);
		check_works(&t);
		tear_down(&t);
	}
}

/* ---- several streams ---------------------------------------------------------------------------------------- */

/* The number of reported errors equals that of incomplete copies. */
static void copy_with_faults(setting *t, stream *s, u64 dst, u8 *src, u64 len, int rounds, u64 *missing)
{
	u8 *d = view(t, dst);

	for (int i = 0; i < rounds; i++) {
		const u64 was = s->errors;
		u64 failed = 0;

		memset(d, 0, 3 * len);
		for (u64 k = 0; k < 3; k++)
			ok(copy_async(s, ptr(dst + k * len), src, len));
		stream_sync(s, soon());
		ok(stream_wait(s, soon()));
		for (u64 k = 0; k < 3; k++)
			failed += memcmp(d + k * len, src, len) != 0;
		assert_int_equal(s->errors - was, failed);
		*missing += failed;
	}
}

static void eight_streams_with_faults(void **)
{
	static constexpr unsigned n = 8;
	static constexpr u64 len = 200 * KiB;
	std::vector<std::thread> all;
	u64 missing[n] = {}, dst[n], sum = 0;
	stream *s[n];
	setting t;

	set_up(&t);
	for (unsigned i = 0; i < n; i++) {
		stream_options opt;

		opt.wait = int(i % 3);
		ok(stream_create(t.dev, opt, &s[i]));
		ok(device_alloc(t.dev, 3 * len, page_policy::normal_only, &dst[i]));
	}
	ok(t.dev->eng->transport().inject("fail~30000+drop-irq~20000+drop-record~20000+slow~2000/300+hang~200"));
	for (unsigned i = 0; i < n; i++)
		all.emplace_back(copy_with_faults, &t, s[i], dst[i], t.in + i, len, 60, &missing[i]);
	for (unsigned i = 0; i < n; i++) {
		all[i].join();
		ok(stream_destroy(s[i]));
		ok(device_free(dst[i]));
		sum += missing[i];
	}
	assert_true(sum > 0);
	check_works(&t);
	tear_down(&t);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(each_fails),
		cmocka_unit_test(all_parts_fail),
		cmocka_unit_test(each_stops_the_stream),
		cmocka_unit_test(earlier_request_fails),
		cmocka_unit_test(aborted_or_destroyed),
		cmocka_unit_test(destroyed_when_done),
		cmocka_unit_test(wait_times_out),
		cmocka_unit_test(each_hangs),
		cmocka_unit_test(each_needs_a_device_reset),
		cmocka_unit_test(vanishes),
		cmocka_unit_test(eight_streams_with_faults),
	};

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=3:channels=16:faults=", 1);
	setenv("USDMA_STRIPE", "128K", 1);
	setenv("USDMA_HANG_MS", "400", 1);
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests_name("faults of copies over several engines", tests, nullptr, nullptr);
}
