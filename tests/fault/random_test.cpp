/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations with random faults.  Each operation has its own slot, which is
 * checked afterwards: the operation is complete, or its failure was reported and the
 * slot is unchanged.  For each stream the number of incomplete operations must equal
 * the number of reported errors.  Sometimes the device is closed, or lost with work
 * in flight, or hangs, is lost, and resumes after it has been opened again.
 * 3000 operations; a million by USDMA_TEST_SCALE=334, or by the clock (USDMA_TEST_SECONDS).
 */
#include "driver/vfio/device.h"
#include "lib/core/copy/copy.h"
#include "lib/core/memory/retire.h"
#include "tests/support/core.h"
#include "tests/support/stop_threads.h"
#include "tests/support/soak.h"
#include "tests/support/dropping.h"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::ptr;
using usdma::test::soon;

static constexpr u64 slot = 16 * KiB, slots = 48, area = slot * slots;
static constexpr unsigned n_streams = 6;
static constexpr u8 mark = 0xee;
static constexpr const char
	*rules = "fail~8000+fail~2000/transfer+drop-irq~20000+drop-record~20000+slow~2000/200+hang~20";

enum class kind : u8 {
	to_device,
	to_host,
	on_device,
	to_peer,
	fill,
	reduce,
	indirect,
	batch,
	pageable_in,
	pageable_out,
	count
};
static const char *const kind_names[] = {"to device", "to host",  "on device", "to peer",     "fill",
					 "reduce",    "indirect", "batch",     "pageable in", "pageable out"};

struct operation {
	kind what;
	u8 *cpu;        /* the destination, mapped for the CPU */
	const u8 *want; /* the expected data; null: the pattern */
	u64 len, pattern;
	int ret;
};

struct totals {
	u64 accepted = 0, complete = 0, reported = 0, refused = 0;
};

struct work_queue {
	stream *s;
	u64 dev, desc; /* destinations in device memory, descriptors */
	u64 peer;      /* destinations in the peer's memory */
	u8 *host;      /* destinations in pinned memory */
	std::vector<u8> plain;
	std::vector<operation> in_flight;
	u64 errors_before;
};

struct world {
	device *dev, *peer;
	std::set<int> engines; /* threads of dev */
	u8 *in;                /* the source in pinned memory */
	u64 dev_in;            /* the same bytes in device memory */
	std::vector<u8> plain_in;
	work_queue work[n_streams];
	totals sum[size_t(kind::count)];
	u64 rounds = 0;
	u64 resume_at = 0; /* the operation at which stopped engines of a lost device resume; 0: none are stopped */
	u64 losses = 0, stops = 0, closes = 0, lost_with_device = 0;
};

static u8 *cpu_address(device *dev, u64 addr)
{
	const memory_view v = device_memory(dev);

	return v.cpu + (translate(addr).dma - v.dma);
}

static void open_all(world *w)
{
	auto gen = test::rng(11);

	ok(device_get(1, &w->peer)); /* opened first, so that its engines are excluded */
	const std::set<int> before = test::engine_threads();
	ok(device_get(0, &w->dev));
	w->engines = test::engine_threads();
	for (int tid : before)
		w->engines.erase(tid);
	ok(w->dev->eng->transport().inject(""));
	ok(host_alloc(area, -1, reinterpret_cast<void **>(&w->in)));
	ok(device_alloc(w->dev, area, page_policy::normal_only, &w->dev_in));
	test::fill_random(w->in, area, gen);
	w->plain_in.assign(w->in, w->in + area);
	memcpy(cpu_address(w->dev, w->dev_in), w->in, area);
	for (unsigned i = 0; i < n_streams; i++) {
		work_queue &l = w->work[i];
		stream_options opt;

		opt.wait = int(i % 3);
		ok(stream_create(w->dev, opt, &l.s));
		ok(device_alloc(w->dev, area, page_policy::normal_only, &l.dev));
		ok(device_alloc(w->dev, slots * 64, page_policy::normal_only, &l.desc));
		ok(device_alloc(w->peer, area, page_policy::normal_only, &l.peer));
		ok(host_alloc(area, -1, reinterpret_cast<void **>(&l.host)));
		l.plain.resize(area);
	}
}

static void close_all(world *w)
{
	for (work_queue &l : w->work) {
		const int end = stream_destroy(l.s);

		assert_true(!end || w->dev->lost());
		ok(host_free(l.host));
		for (u64 a : {l.dev, l.desc, l.peer})
			ok(device_free(a));
	}
	ok(host_free(w->in));
	ok(device_free(w->dev_in));
	device_put(w->peer);
	device_put(w->dev);
}

/* ---- submission: operation i of a round uses slot i ------------------------------------------------- */

static int submit_indirect(world *w, work_queue &l, u64 i, u64 from, u64 len)
{
	const u64 src = w->dev_in + from, dst = l.dev + i * slot;
	u32 block[8] = {0, 0, 0, u32(len)};

	memcpy(&block[4], &src, 8);
	memcpy(&block[6], &dst, 8);
	memcpy(cpu_address(w->dev, l.desc + i * 64), block, sizeof(block));
	return copy_indirect_async(l.s, ptr(l.desc + i * 64));
}

static int submit_call(world *w, work_queue &l, operation &op, u64 i, u64 from)
{
	const u64 dst = l.dev + i * slot;

	switch (op.what) {
	case kind::to_device:
		return copy_async(l.s, ptr(dst), w->in + from, op.len);
	case kind::to_host:
		return copy_async(l.s, l.host + i * slot, ptr(w->dev_in + from), op.len);
	case kind::on_device:
		return copy_async(l.s, ptr(dst), ptr(w->dev_in + from), op.len);
	case kind::to_peer:
		return copy_async(l.s, ptr(l.peer + i * slot), w->in + from, op.len);
	case kind::fill:
		return fill_async(l.s, ptr(dst), op.pattern, 8, op.len);
	case kind::reduce:
		return reduce_async(l.s, ptr(dst), w->in + from, op.len, dma::element::u8, dma::reduce_op::max);
	case kind::indirect:
		return submit_indirect(w, l, i, from, op.len);
	case kind::pageable_in:
		return copy_async(l.s, ptr(dst), w->plain_in.data() + from, op.len);
	case kind::pageable_out:
		return copy_async(l.s, l.plain.data() + i * slot, ptr(w->dev_in + from), op.len);
	default:
		return -EINVAL;
	}
}

static u8 *destination(world *w, work_queue &l, kind k, u64 i)
{
	switch (k) {
	case kind::to_host:
		return l.host + i * slot;
	case kind::pageable_out:
		return l.plain.data() + i * slot;
	case kind::to_peer:
		return cpu_address(w->peer, l.peer) + i * slot;
	default:
		return cpu_address(w->dev, l.dev) + i * slot;
	}
}

/* Submits several operations by one call. */
static u64 submit_batch(world *w, work_queue &l, u64 i, std::mt19937_64 &gen)
{
	const u64 n = 1 + gen() % std::min<u64>(slots - i, 8);
	copy_item items[slots];
	size_t done;

	for (u64 k = 0; k < n; k++) {
		const u64 from = gen() % (slots - 1) * slot + gen() % slot, len = 8 + gen() % 2000;
		u8 *cpu = destination(w, l, kind::batch, i + k);

		memset(cpu, mark, slot);
		items[k] = {ptr(l.dev + (i + k) * slot), w->in + from, len};
		l.in_flight.push_back({kind::batch, cpu, w->in + from, len, 0, 0});
	}
	const int err = copy_submit(l.s, items, n, nullptr, &done);
	for (u64 k = done; err && k < n; k++)
		l.in_flight[l.in_flight.size() - n + k].ret = err;
	return n;
}

static u64 submit_one(world *w, work_queue &l, u64 i, std::mt19937_64 &gen)
{
	const kind k = kind(gen() % u64(kind::count));
	const bool pageable = k == kind::pageable_in || k == kind::pageable_out;
	const u64 from = gen() % (slots - 1) * slot + gen() % slot;
	operation op = {k, destination(w, l, k, i), w->in + from, 0, 0, 0};

	if (k == kind::batch)
		return submit_batch(w, l, i, gen);
	op.len = pageable ? 4097 + gen() % (slot - 4097) : 8 + gen() % 4000;
	if (k == kind::fill) {
		op.len &= ~u64(7);
		op.pattern = gen();
		op.want = nullptr;
	}
	/* The reduction is max(): with ones the result is the source (1 for 0), and an unchanged slot is recognized. */
	memset(op.cpu, k == kind::reduce ? 1 : mark, slot);
	op.ret = submit_call(w, l, op, i, from);
	l.in_flight.push_back(op);
	return 1;
}

static u64 submit_round(world *w, work_queue &l, std::mt19937_64 &gen)
{
	const u64 count = 1 + gen() % slots;
	u64 n = 0;

	l.errors_before = l.s->errors;
	while (n < count)
		n += submit_one(w, l, n, gen);
	return n;
}

/* ---- checks of the results -------------------------------------------------------------------------- */

static u8 initial_byte(const operation &op)
{
	return op.what == kind::reduce ? 1 : mark;
}

static u8 expected_byte(const operation &op, u64 i)
{
	const u8 v = op.want ? op.want[i] : u8(op.pattern >> i % 8 * 8);

	return op.what == kind::reduce && !v ? 1 : v;
}

static bool is_whole(const operation &op)
{
	for (u64 i = 0; i < op.len; i++)
		if (op.cpu[i] != expected_byte(op, i))
			return false;
	return true;
}

/* The slot is unchanged from byte `at` on. */
static bool is_untouched(const operation &op, u64 at)
{
	for (u64 i = at; i < slot; i++)
		if (op.cpu[i] != initial_byte(op))
			return false;
	return true;
}

static bool is_synchronous(kind k)
{
	return k == kind::pageable_in || k == kind::pageable_out;
}

static void check_operation(world *w, const operation &op, u64 *missing)
{
	totals &t = w->sum[size_t(op.what)];
	const bool whole = is_whole(op);

	if (!is_untouched(op, op.len) || (!whole && !is_untouched(op, 0))) {
		print_error("%s of %" PRIu64 " bytes: neither whole nor untouched\n", kind_names[size_t(op.what)],
			    op.len);
		assert_true(false);
	}
	if (op.ret) { /* reported by the call; such a fault strikes before the first byte is written */
		t.refused++;
		assert_false(whole);
		return;
	}
	t.accepted++;
	if (whole)
		t.complete++;
	else if (is_synchronous(op.what))
		assert_true(whole); /* the call reported success */
	else {
		t.reported++;
		(*missing)++;
	}
}

static void finish_round(world *w, work_queue &l)
{
	bool reported = stream_sync(l.s, soon()) != 0;
	u64 missing = 0;

	assert_int_not_equal(stream_wait(l.s, soon()), -ETIMEDOUT);
	for (const operation &op : l.in_flight) {
		reported |= op.ret != 0;
		check_operation(w, op, &missing);
	}
	/* Each missing operation was counted as an error, and the caller was notified. */
	assert_int_equal(missing, l.s->errors - l.errors_before);
	assert_true(reported || !missing);
	l.in_flight.clear();
	w->rounds++;
}

/* ---- the device is lost or closed ----------------------------------------------------------------- */

/* After a loss: an incomplete operation was reported by its call or by the loss; no other memory was written. */
static void check_lost_operation(world *w, const operation &op, bool reported)
{
	totals &t = w->sum[size_t(op.what)];
	const bool whole = is_whole(op);

	assert_true(is_untouched(op, op.len));
	assert_true(!op.ret || op.ret == -ENODEV || op.ret == -EIO);
	if (op.ret) {
		t.refused++;
		return;
	}
	t.accepted++;
	t.complete += whole;
	t.reported += !whole;
	w->lost_with_device += !whole;
	assert_true(whole || (reported && !is_synchronous(op.what)));
}

static void finish_lost(world *w, work_queue &l)
{
	const int end = stream_sync(l.s, soon());
	bool reported = end != 0;

	assert_int_not_equal(end, -ETIMEDOUT);
	reported |= l.s->errors != l.errors_before;
	for (const operation &op : l.in_flight)
		check_lost_operation(w, op, reported);
	l.in_flight.clear();
	w->rounds++;
}

/* Loses the device at its next descriptor or reply; sometimes its engines are stopped before and resume later. */
static void lose_device(world *w, u64 n, std::mt19937_64 &gen)
{
	const bool stop_engines = !w->resume_at && (!w->stops || gen() % 8 == 0);
	void *extra;

	ok(w->dev->eng->transport().inject(stop_engines || gen() % 2 ? "reply@1/garbage" : "vanish@1"));
	if (stop_engines) {
		test::stop_threads(w->engines);
		w->resume_at = n + 100 + gen() % 1000;
		w->stops++;
	}
	const deadline end = soon();
	for (unsigned i = 0; !w->dev->lost() && !end.passed(); i++) {
		const work_queue &l = w->work[i % n_streams]; /* one may hang */

		copy_async(l.s, ptr(l.desc), w->in, 64); /* one more descriptor; its target is unused */
		if (!host_alloc(MiB, -1, &extra))        /* a new mapping: a request to the device */
			ok(host_free(extra));
	}
	assert_true(w->dev->lost());
	w->losses++;
	for (work_queue &l : w->work)
		finish_lost(w, l);
}

static void resume(world *w)
{
	w->resume_at = 0;
	test::resume_threads();
}

/* Closes the device, with work in flight or lost, and opens it again. */
static u64 reopen(world *w, u64 n, std::mt19937_64 &gen)
{
	u64 more = 0;

	for (work_queue &l : w->work)
		if (l.in_flight.empty())
			more += submit_round(w, l, gen);
	if (!w->losses || gen() % 4) {
		lose_device(w, n, gen);
	} else {
		w->closes++;
		for (work_queue &l : w->work)
			finish_round(w, l);
	}
	close_all(w);
	open_all(w);
	ok(w->dev->eng->transport().inject(rules));
	return more;
}

/* The library releases a lost device whose engines have resumed, without a call of the program. */
static void wait_released()
{
	const deadline end = soon();

	for (unsigned i = 0; retired_get().devices && !end.passed(); i++)
		test::poll_pause(i);
	assert_int_equal(retired_get().devices, 0);
}

/* ---- the test --------------------------------------------------------------------------------------- */

static void print_totals(const char *name, const totals &t)
{
	fprintf(stderr,
		"# %-13s accepted %8" PRIu64 " complete %8" PRIu64 " reported %6" PRIu64
		"; failed in the call %6" PRIu64 "\n",
		name, t.accepted, t.complete, t.reported, t.refused);
}

static totals add_up(const world &w)
{
	totals all;

	for (const totals &t : w.sum) {
		all.accepted += t.accepted;
		all.complete += t.complete;
		all.reported += t.reported;
		all.refused += t.refused;
	}
	return all;
}

/* True: the test is over.  A time limit is checked only with nothing in flight. */
static bool is_over(world *w, test::soak *by_clock, u64 n)
{
	if (!test::soak::wanted())
		return n >= 3000 * u64(test::scale());
	for (work_queue &l : w->work)
		if (!l.in_flight.empty())
			return false;
	return by_clock->over(n);
}

static void random_operations(void **)
{
	const u64 report_interval = 100000;
	auto gen = test::rng(12);
	std::string struck;
	u64 n = 0;
	world w;

	open_all(&w);
	ok(w.dev->eng->transport().inject(rules));
	test::soak by_clock("random-faults");
	while (!is_over(&w, &by_clock, n)) {
		work_queue &l = w.work[gen() % n_streams];
		const u64 reports = n / report_interval;

		if (w.resume_at && n > w.resume_at)
			resume(&w);
		if (gen() % 25 == 0 || (n > 1000 && !w.losses))
			n += reopen(&w, n, gen);
		else if (l.in_flight.empty())
			n += submit_round(&w, l, gen);
		else
			finish_round(&w, l);
		if (n / report_interval != reports)
			fprintf(stderr, "# %" PRIu64 " operations\n", n);
	}
	if (w.resume_at)
		resume(&w);
	for (work_queue &l : w.work)
		if (!l.in_flight.empty())
			finish_round(&w, l);
	ok(w.dev->eng->transport().injected(&struck));
	const totals all = add_up(w);
	for (size_t k = 0; k < size_t(kind::count); k++)
		print_totals(kind_names[k], w.sum[k]);
	print_totals("all", all);
	fprintf(stderr,
		"# %" PRIu64 " operations in %" PRIu64 " rounds; the device was lost %" PRIu64 " times, %" PRIu64
		" of them with stopped engines, and closed %" PRIu64 " times; %" PRIu64 " reported by its loss\n"
		"# since the last open:\n%s",
		n, w.rounds, w.losses, w.stops, w.closes, w.lost_with_device, struck.c_str());
	assert_int_equal(all.accepted + all.refused, n);
	assert_int_equal(all.accepted, all.complete + all.reported);
	assert_true(all.reported > 0 && all.complete > 0 && w.losses > 0 && w.stops > 0);
	if (test::soak::wanted())
		by_clock.finish(n);
	close_all(&w);
	wait_released();
}

int main()
{
	const usdma::test::dropping_interrupts scope;
	const CMUnitTest tests[] = {cmocka_unit_test(random_operations)};

	setenv("USDMA_DEVICES", "sim:mem=256M:engines=2:channels=4:faults=,sim:mem=64M:engines=1:channels=2", 1);
	setenv("USDMA_HANG_MS", "1000", 1);
	setenv("USDMA_TEST_HOST_ARENA", "1M", 1);
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests_name("random operations, random faults", tests, nullptr, nullptr);
}
