/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault table: fault × path × wait mode over the embedded device.  For each
 * cell: what the caller hears, after how long, and the state after it.  A copy
 * that was accepted either lands whole or is reported; nothing hangs; and the
 * same device goes on afterwards, by itself or after resets (or, once lost,
 * opens again).
 */
#include "driver/vfio/device.h"
#include "lib/core/copy.h"
#include "lib/core/event.h"
#include "tests/support/core.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::ptr;
using usdma::test::soon;

static constexpr u64 size = 256 * KiB;

struct setting {
	device *dev = nullptr;
	stream *s = nullptr;
	u8 *in = nullptr, *out = nullptr;
	std::vector<u8> pageable;
	u64 d = 0, d2 = 0, desc = 0;
	device *peer = nullptr;
	u64 p = 0; /* memory of the peer, which has no faults */
};

static void set_up(setting *t, wait_mode mode)
{
	stream_options opt;

	opt.wait = int(mode);
	ok(device_get(0, &t->dev));
	ok(t->dev->eng->transport().inject(""));
	ok(stream_create(t->dev, opt, &t->s));
	ok(host_alloc(size, -1, reinterpret_cast<void **>(&t->in)));
	ok(host_alloc(size, -1, reinterpret_cast<void **>(&t->out)));
	ok(device_alloc(t->dev, size, page_policy::normal_only, &t->d));
	ok(device_alloc(t->dev, size, page_policy::normal_only, &t->d2));
	ok(device_get(1, &t->peer));
	ok(device_alloc(t->peer, size, page_policy::normal_only, &t->p));
	ok(device_alloc(t->dev, 64, page_policy::normal_only, &t->desc));
	t->pageable.resize(size);
	auto gen = test::rng(7);
	test::fill_random(t->in, size, gen);
}

static void tear_down(setting *t)
{
	ok(stream_destroy(t->s));
	ok(host_free(t->in));
	ok(host_free(t->out));
	for (u64 a : {t->d, t->d2, t->desc, t->p})
		ok(device_free(a));
	device_put(t->peer);
	device_put(t->dev);
}

/* ---- paths: each moves in → device → out and says the first error -------------------------------------- */

static int wait_all(setting *t)
{
	return stream_sync(t->s, soon());
}

static int path_pinned(setting *t)
{
	int err = copy_async(t->s, ptr(t->d), t->in, size);

	if (!err)
		err = copy_async(t->s, t->out, ptr(t->d), size);
	const int end = wait_all(t);
	return err ? err : end;
}

static int path_pageable(setting *t)
{
	int err;

	memcpy(t->pageable.data(), t->in, size);
	err = copy_async(t->s, ptr(t->d), t->pageable.data(), size);
	memset(t->pageable.data(), 0, size);
	if (!err)
		err = copy_async(t->s, t->pageable.data(), ptr(t->d), size);
	if (!err)
		memcpy(t->out, t->pageable.data(), size);
	return err;
}

static int path_batch(setting *t)
{
	std::vector<copy_item> items;
	size_t done;
	int err;

	for (u64 off = 0; off < size; off += 4096)
		items.push_back({ptr(t->d + off), t->in + off, 4096});
	err = copy_batch(t->s, items.data(), items.size(), &done);
	items.clear();
	for (u64 off = 0; off < size; off += 4096)
		items.push_back({t->out + off, ptr(t->d + off), 4096});
	if (!err)
		err = copy_batch(t->s, items.data(), items.size(), &done);
	const int end = wait_all(t);
	return err ? err : end;
}

static int path_descriptor(setting *t)
{
	u32 block[8] = {0, 0, 0, u32(size)};
	int err, end;

	memcpy(&block[4], &t->d, 8);
	memcpy(&block[6], &t->d2, 8);
	err = copy_async(t->s, ptr(t->d), t->in, size);
	if (!err)
		err = copy_async(t->s, ptr(t->desc), block, sizeof(block));
	if (!err)
		err = copy_indirect_async(t->s, ptr(t->desc));
	if (!err)
		err = copy_async(t->s, t->out, ptr(t->d2), size);
	end = wait_all(t);
	return err ? err : end;
}

static int path_peer(setting *t)
{
	int err = copy_async(t->s, ptr(t->d), t->in, size);

	if (!err)
		err = copy_async(t->s, ptr(t->p), ptr(t->d), size);
	if (!err)
		err = copy_async(t->s, t->out, ptr(t->p), size);
	const int end = wait_all(t);
	return err ? err : end;
}

struct path {
	const char *name;
	int (*run)(setting *t);
};
static const path paths[] = {
	{"pinned", path_pinned}, {"pageable", path_pageable}, {"batch", path_batch}, {"descriptor", path_descriptor},
	{"peer", path_peer}};
static const char *const mode_names[] = {"poll", "interrupt", "hybrid"};

/* ---- faults ------------------------------------------------------------------------------------------ */

/* What the caller hears, and what the device is afterwards. */
enum class after : u8 {
	whole,      /* nothing: the data is there */
	told,       /* an error; the device goes on, once the fault is over */
	cured,      /* an error; resets have brought it back, though nobody took the fault away */
	given_up,   /* errors until it is lost; it opens again */
	gone,       /* ENODEV; it opens again */
};
struct fault_case {
	const char *rules;
	after what;
};
static const fault_case cases[] = {
	{"fail@1", after::told},
	{"fail@2/src-unmapped", after::told},
	{"fail@1/transfer", after::told},
	{"slow@1/20000", after::whole},
	{"slow@1/600000", after::whole}, /* beyond USDMA_HANG_MS: slow is not dead */
	{"drop-irq%1", after::whole},
	{"drop-irq@1", after::whole},
	{"drop-record@1", after::whole},
	{"drop-record%2+drop-irq%2", after::whole},
	{"drop-record~900000", after::whole}, /* records come late */
	{"hang@1", after::cured},
	{"hang@1/device", after::cured},
	{"hang@1/for-good", after::given_up},
	{"vanish@1", after::gone},
};

static void check_data(setting *t)
{
	assert_memory_equal(t->in, t->out, size);
}

/* Without faults, or after what cured them, the path is whole. */
static void goes_on(setting *t, const path &p)
{
	stream_sync(t->s, soon());
	memset(t->out, 0, size);
	ok(p.run(t));
	check_data(t);
}

/* A reset of the device comes after one of the channel did not help: whoever tried in between hears of that too. */
static void is_cured(setting *t, const path &p)
{
	int err = -EIO;

	for (int i = 0; i < 3 && err == -EIO; i++)
		err = p.run(t);
	assert_int_equal(err, 0);
	goes_on(t, p);
}

/* Resets did not help for good: within a few tries it is lost. */
static void ends_lost(setting *t, const path &p)
{
	int err = 0;

	for (int i = 0; i < 8 && err != -ENODEV; i++) {
		err = p.run(t);
		assert_int_not_equal(err, 0);
	}
	assert_int_equal(err, -ENODEV);
}

static void report_cell(const fault_case &f, const path &p, wait_mode mode, int err, u64 us)
{
	static const char *const state[] = {"goes on", "goes on", "goes on", "lost, opens again", "lost, opens again"};

	fprintf(stderr, "# %-26s %-10s %-9s %-24s %8llu us  %s\n", f.rules, p.name, mode_names[int(mode)],
		err ? strerror(-err) : "lands whole", static_cast<unsigned long long>(us), state[int(f.what)]);
}

static int strike(setting *t, const fault_case &f, const path &p, wait_mode mode)
{
	memset(t->out, 0, size);
	ok(t->dev->eng->transport().inject(f.rules));
	const u64 began = now_ns();
	const int err = p.run(t);
	report_cell(f, p, mode, err, (now_ns() - began) / ns_per_us);
	assert_int_not_equal(err, -ETIMEDOUT);
	assert_int_equal(err != 0, f.what != after::whole);
	if (!err)
		check_data(t);
	return err;
}

static void opens_again(const path &p, wait_mode mode)
{
	setting t;

	set_up(&t, mode);
	goes_on(&t, p);
	tear_down(&t);
}

static void cell(const fault_case &f, const path &p, wait_mode mode)
{
	setting t;

	set_up(&t, mode);
	const int err = strike(&t, f, p, mode);
	if (f.what == after::gone)
		assert_int_equal(err, -ENODEV);
	if (f.what == after::given_up)
		ends_lost(&t, p);
	if (f.what == after::gone || f.what == after::given_up) {
		assert_int_equal(copy_sync(t.dev, ptr(t.d), t.in, size, soon()), -ENODEV);
		tear_down(&t);
		return opens_again(p, mode);
	}
	if (f.what == after::cured)
		is_cured(&t, p);
	ok(t.dev->eng->transport().inject(""));
	goes_on(&t, p);
	tear_down(&t);
}

static void table(void **)
{
	for (const fault_case &f : cases)
		for (const path &p : paths)
			for (wait_mode m : {wait_mode::poll, wait_mode::interrupt, wait_mode::hybrid})
				cell(f, p, m);
}

/* Answers gone wrong while memory is mapped: an error or a loss, then the device opens again. */
static void wrong_answers(void **)
{
	for (const char *how : {"drop", "close", "short", "long", "wrong-id", "garbage"}) {
		setting t;
		void *mem = nullptr;
		int err;

		set_up(&t, wait_mode::hybrid);
		ok(t.dev->eng->transport().inject((std::string("reply@1/") + how).c_str()));
		err = host_alloc(64 * MiB, -1, &mem);
		fprintf(stderr, "# reply %-10s %s\n", how, t.dev->lost() ? "device lost" : "device goes on");
		/* The memory is the host's: it is there even when the device that should have reached it is gone. */
		ok(err);
		ok(host_free(mem));
		/* An answer without a body cannot be cut short. */
		assert_true(t.dev->lost() || !strcmp(how, "short"));
		assert_int_equal(path_pinned(&t), t.dev->lost() ? -ENODEV : 0);
		tear_down(&t);
		set_up(&t, wait_mode::hybrid);
		ok(path_pinned(&t));
		check_data(&t);
		tear_down(&t);
	}
}

static void refused_map(void **)
{
	setting t;
	void *mem;

	set_up(&t, wait_mode::hybrid);
	ok(t.dev->eng->transport().inject("refuse-map@1"));
	assert_true(host_alloc(64 * MiB, -1, &mem) < 0);
	ok(host_alloc(64 * MiB, -1, &mem));
	ok(host_free(mem));
	tear_down(&t);
}

static void bad_rules(void **)
{
	setting t;

	set_up(&t, wait_mode::hybrid);
	for (const char *text : {"fail", "fail@0", "fail@x", "fail@1/nonsense", "slow@1", "die@1", "hang@1/3", "reply@1", "+"})
		assert_int_equal(t.dev->eng->transport().inject(text), -EINVAL);
	tear_down(&t);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(table),	 cmocka_unit_test(wrong_answers),
		cmocka_unit_test(refused_map),	 cmocka_unit_test(bad_rules),
	};

	setenv("USDMA_DEVICES", "sim:mem=256M:engines=1:channels=4:faults=,sim:mem=64M:engines=1:channels=2", 1);
	setenv("USDMA_HANG_MS", "250", 1);
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests_name("fault table", tests, nullptr, nullptr);
}
