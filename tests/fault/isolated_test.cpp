/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that are isolated.  A server that keeps what it gets, and writes to it, sees and alters nothing of what other
 * devices copy; another such server nothing of what an isolated device copies.  Copies land whole from any memory.
 * Run as: isolated_test (USDMA_SIM names the device program).
 */
#include "tests/integration/native.h"
#include "tests/support/nosy.h"
#include "tests/support/sim_process.h"
#include "tests/support/until.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

using u8 = unsigned char;

enum : unsigned { healthy, nosy_alone, nosy_common, sim_alone };
static constexpr size_t mib = 1024 * 1024;

static pid_t sims[2]; /* each serves one client */
static std::string folder;
static std::unique_ptr<nosy_server> alone, common;

static int set_up(void **)
{
	char name[] = "/tmp/usdma-isolated-XXXXXX";
	const char *const device = "sim:mem=64M:engines=2:channels=16";

	assert_non_null(mkdtemp(name));
	folder = name;
	for (int i = 0; i < 2; i++) {
		const std::string path = folder + "/dev" + std::to_string(i);

		sims[i] = start_sim(getenv("USDMA_SIM"), path, {"--engines", "2", "--channels", "16", "--mem", "64M"});
		assert_true(sims[i] > 0);
	}
	alone = std::make_unique<nosy_server>(folder + "/alone", folder + "/dev0");
	common = std::make_unique<nosy_server>(folder + "/common", folder + "/dev1");
	setenv("USDMA_DEVICES",
	       (std::string(device) + ",vfio-user:" + folder + "/alone:isolated=yes,vfio-user:" + folder + "/common," +
		device + ":isolated=yes")
		       .c_str(),
	       1);
	setenv("USDMA_HOST_ARENA", "2M", 1);
	return 0;
}

static int tear_down(void **)
{
	alone.reset();
	common.reset();
	for (pid_t &sim : sims)
		end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

/* ---- what a server has ----------------------------------------------------------------------------------- */

/* In a file that it was given, or where it may reach by messages. */
static bool sees(nosy_server &server, const u8 *what, size_t len)
{
	static constexpr uint32_t piece = 64 * 1024;

	for (const kept_file &f : server.kept())
		if (f.from_client && memmem(f.data, f.size, what, len))
			return true;
	for (const mapped_area &a : server.areas())
		for (uint64_t at = 0; !a.with_file && at < a.size; at += piece) {
			std::vector<u8> got(std::min<uint64_t>(piece, a.size - at));

			if (!server.read_client(a.iova + at, got.data(), uint32_t(got.size())) &&
			    memmem(got.data(), got.size(), what, len))
				return true;
		}
	return false;
}

/* Not over what carries the ring. */
static void scribble(nosy_server &server)
{
	for (const kept_file &f : server.kept())
		if (f.from_client && f.name == "/memfd:usdma (deleted)")
			memset(f.data, 0xdb, f.size);
}

static std::vector<u8> random_bytes(size_t size)
{
	static unsigned round = 0;
	std::vector<u8> v(size);
	auto gen = rng(++round);

	fill_random(v.data(), v.size(), gen);
	return v;
}

static void pageable_both_ways(usdma_device *dev, const std::vector<u8> &data)
{
	std::vector<u8> back(data.size());
	const block mem(dev, kind::device, data.size());
	const stream s(dev);

	WORKS(usdma_copy(s, mem.data(), data.data(), data.size()));
	WORKS(usdma_copy(s, back.data(), mem.data(), data.size()));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(back.data(), data.data(), data.size());
}

/* Two marks, and the time between them: it is the same when somebody has written wherever he could. */
static void takes_times(usdma_device *made_for, usdma_device *on, nosy_server &server)
{
	const block mem(on, kind::device, mib);
	const stream s(on);
	usdma_event *e[2];
	int64_t ns, again;

	for (usdma_event *&one : e) {
		WORKS(usdma_event_create(made_for, USDMA_EVENT_TIMING, &one));
		WORKS(usdma_event_record(one, s));
		WORKS(usdma_fill(s, mem.data(), 5, 1, mib));
	}
	WORKS(usdma_stream_sync(s, long_ms));
	WORKS(usdma_event_elapsed(e[0], e[1], &ns));
	assert_true(ns > 0);
	scribble(server);
	WORKS(usdma_event_elapsed(e[0], e[1], &again));
	assert_int_equal(ns, again);
	for (usdma_event *one : e)
		WORKS(usdma_event_destroy(one));
}

/* Work of all kinds on dev, in whose course the server gets nothing, and sees and alters nothing. */
static void keeps_from(nosy_server &server, usdma_device *dev)
{
	const size_t areas = server.areas().size(), files = server.kept().size();
	const std::vector<u8> secret = random_bytes(2 * mib + 4711);
	std::vector<block> blocks;

	for (const size_t size : {size_t(64), size_t(8192), 300 * 1024ul, 2 * mib + 4711})
		blocks.emplace_back(dev, kind::pinned, size);
	for (const block &b : blocks)
		memcpy(b.data(), secret.data(), b.size());
	const block mem(dev, kind::device, secret.size());
	const stream s(dev);
	for (const block &b : blocks)
		WORKS(usdma_copy(s, mem.data(), b.data(), b.size()));
	WORKS(usdma_stream_sync(s, long_ms));
	pageable_both_ways(dev, secret);
	takes_times(dev, dev, server);
	assert_int_equal(server.areas().size(), areas);
	assert_int_equal(server.kept().size(), files);
	assert_false(sees(server, secret.data(), 48));
	assert_false(sees(server, secret.data() + mib, 48));
	scribble(server);
	for (const block &b : blocks)
		assert_memory_equal(b.data(), secret.data(), b.size());
	pageable_both_ways(dev, secret);
}

/* ---- both directions ------------------------------------------------------------------------------------- */

/* The test's own measure: one that is not isolated sees all of it. */
static void a_common_server_sees(void **)
{
	const device ok(healthy), bad(nosy_common);
	const std::vector<u8> secret = random_bytes(mib), own = random_bytes(mib);
	const block pinned(ok, kind::pinned, mib);

	memcpy(pinned.data(), own.data(), mib);
	pageable_both_ways(ok, secret);
	assert_true(sees(*common, own.data(), 48));
	assert_true(sees(*common, secret.data() + mib / 2, 48));
}

static void sees_nothing_of_others(void **)
{
	const device ok(healthy);
	const std::vector<u8> early = random_bytes(mib), later = random_bytes(mib);
	const block before(ok, kind::pinned, mib), before_reg(ok, kind::registered, mib);

	memcpy(before.data(), early.data(), mib);
	memcpy(before_reg.data(), early.data(), mib);
	pageable_both_ways(ok, early);
	const device bad(nosy_alone);
	keeps_from(*alone, ok);
	pageable_both_ways(bad, random_bytes(mib));
	keeps_from(*alone, ok);
	assert_false(sees(*alone, early.data(), 48));
	/* Registered, and allocated for nobody: for none that is isolated. */
	const size_t areas = alone->areas().size();
	const block reg(bad, kind::registered, mib), nobody(nullptr, kind::pinned, mib);
	memcpy(reg.data(), later.data(), mib);
	memcpy(nobody.data(), later.data(), mib);
	assert_int_equal(alone->areas().size(), areas);
	assert_false(sees(*alone, later.data(), 48));
	/* What is copied with it, it sees. */
	pageable_both_ways(bad, later);
	assert_true(sees(*alone, later.data(), 48));
}

static void is_seen_by_no_other(void **)
{
	const device isolated(sim_alone);
	const std::vector<u8> early = random_bytes(mib);
	const block before(isolated, kind::pinned, mib);

	memcpy(before.data(), early.data(), mib);
	pageable_both_ways(isolated, early);
	for (const unsigned other : {nosy_common, nosy_alone}) {
		nosy_server &server = other == nosy_common ? *common : *alone;
		const device bad(other);

		keeps_from(server, isolated);
		pageable_both_ways(bad, random_bytes(mib));
		keeps_from(server, isolated);
		assert_false(sees(server, early.data(), 48));
	}
}

/* Its memory is shown to no other either. */
static void its_memory_is_no_peers(void **)
{
	const device ok(healthy), bad(nosy_alone), third(nosy_common);
	const block theirs(ok, kind::device, mib), its(bad, kind::device, mib), thirds(third, kind::device, mib);
	const std::vector<u8> data = random_bytes(mib);
	std::vector<u8> back(mib);
	const stream s(ok), t(bad);

	/* Between the others it is, as ever. */
	WORKS(usdma_copy_sync(ok, theirs.data(), data.data(), mib, long_ms));
	WORKS(usdma_copy(s, thirds.data(), theirs.data(), mib));
	WORKS(usdma_stream_sync(s, long_ms));
	const size_t areas = alone->areas().size(), others = common->areas().size();
	for (usdma_stream *by : {static_cast<usdma_stream *>(s), static_cast<usdma_stream *>(t)}) {
		const std::vector<u8> now = random_bytes(mib);

		WORKS(usdma_copy_sync(ok, theirs.data(), now.data(), mib, long_ms));
		WORKS(usdma_copy(by, its.data(), theirs.data(), mib));
		WORKS(usdma_copy(by, thirds.data(), its.data(), mib));
		WORKS(usdma_stream_sync(by, long_ms));
		WORKS(usdma_copy_sync(ok, back.data(), thirds.data(), mib, long_ms));
		assert_memory_equal(back.data(), now.data(), mib);
	}
	WORKS(usdma_copy_sync(ok, theirs.data(), its.data(), mib, long_ms));
	WORKS(usdma_copy_sync(bad, its.data(), theirs.data(), mib, long_ms));
	/* But for its staging buffers, which have files, nothing came. */
	const std::vector<mapped_area> now = alone->areas();
	for (size_t i = areas; i < now.size(); i++)
		assert_true(now[i].with_file && now[i].size <= 4 * mib);
	assert_true(common->areas().size() <= others + 1);
	assert_int_equal(usdma_fill(t, theirs.data(), 1, 1, mib), -EXDEV);
	assert_int_equal(usdma_fill(s, its.data(), 1, 1, mib), -EXDEV);
	assert_non_null(strstr(usdma_error_text(), "isolated"));
}

/* ---- what works ------------------------------------------------------------------------------------------ */

/* A block of memory, and who it was made for. */
struct host_place {
	usdma_device *made_for;
	kind what;
};

static void land_from(usdma_device *dev, usdma_device *other, const host_place &at, size_t size)
{
	const block from(at.made_for, at.what, size), to(at.made_for, at.what, size), mem(dev, kind::device, size);
	const stream s(dev), t(other);
	const std::vector<u8> data = random_bytes(size);
	size_t done;

	memcpy(from.data(), data.data(), size);
	for (usdma_stream *by : {static_cast<usdma_stream *>(s), static_cast<usdma_stream *>(t)}) {
		memset(to.data(), 0, size);
		WORKS(usdma_copy(by, mem.data(), from.data(), size));
		WORKS(usdma_copy(by, to.data(), mem.data(), size));
		WORKS(usdma_stream_sync(by, long_ms));
		assert_memory_equal(to.data(), data.data(), size);
		memset(to.data(), 0, size);
		WORKS(usdma_copy(by, to.data(), from.data(), size));
		WORKS(usdma_stream_sync(by, long_ms));
		assert_memory_equal(to.data(), data.data(), size);
	}
	memset(to.data(), 0, size);
	WORKS(usdma_fill_sync(dev, mem.data(), 0, 1, size, long_ms));
	WORKS(usdma_copy_sync(dev, mem.data(), from.data(), size, long_ms));
	WORKS(usdma_copy_sync(other, to.data(), mem.data(), size, long_ms));
	assert_memory_equal(to.data(), data.data(), size);
	const size_t half = size / 2;
	const usdma_copy_item items[] = {{mem.data(), from.data() + half, size - half},
					 {mem.data() + size - half, from.data(), half},
					 {to.data(), mem.data(), size}};
	WORKS(usdma_copy_batch(s, items, 3, &done));
	assert_int_equal(done, 3);
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(to.data(), data.data() + half, size - half);
	assert_memory_equal(to.data() + size - half, data.data(), half);
}

/* Rows of 48 in 64, out and in. */
static void rows_from(usdma_device *dev, const host_place &at, size_t rows)
{
	const block from(at.made_for, at.what, 64 * rows), to(at.made_for, at.what, 64 * rows),
		mem(dev, kind::device, 64 * rows);
	const std::vector<u8> data = random_bytes(64 * rows);
	const stream s(dev);

	memcpy(from.data(), data.data(), data.size());
	memset(to.data(), 0xee, to.size());
	const usdma_copy_rect in = {mem.data(), 64, from.data(), 64, 48, rows},
			      out = {to.data(), 64, mem.data(), 64, 48, rows};
	WORKS(usdma_copy_2d(s, &in));
	WORKS(usdma_stream_sync(s, long_ms));
	WORKS(usdma_copy_2d_sync(dev, &out, long_ms));
	for (size_t r = 0; r < rows; r++) {
		assert_memory_equal(to.data() + 64 * r, data.data() + 64 * r, 48);
		assert_int_equal(to.data()[64 * r + 48], 0xee);
	}
}

static void copies_land_whole(void **)
{
	const device ok(healthy), bad(nosy_alone);
	const host_place places[] = {{bad, kind::pinned},
				     {ok, kind::pinned},
				     {nullptr, kind::pinned},
				     {nullptr, kind::registered},
				     {nullptr, kind::pageable}};

	for (const host_place &p : places) {
		for (const size_t size : {size_t(2), size_t(777), 64 * 1024ul, 3 * mib + 5}) {
			land_from(bad, ok, p, size);
			land_from(ok, bad, p, size);
		}
		for (const size_t rows : {size_t(1), size_t(100), size_t(50000)}) {
			rows_from(bad, p, rows);
			rows_from(ok, p, rows);
		}
	}
}

/* An event of one device recorded on the other: the time goes to memory that this one reaches. */
static void times_of_either(void **)
{
	const device ok(healthy), bad(nosy_alone), third(sim_alone);

	takes_times(ok, bad, *common);
	takes_times(bad, ok, *alone);
	takes_times(bad, third, *alone);
	takes_times(ok, third, *alone);
}

static void refuses(int ret)
{
	assert_int_equal(ret, -EXDEV);
	assert_non_null(strstr(usdma_error_text(), "isolated"));
}

/* What names one address, and has no data to stage: in memory that was allocated for the device, or an error. */
static void words_and_fills(usdma_device *dev, usdma_device *other)
{
	const block mine(dev, kind::pinned, 4096), theirs(other, kind::pinned, 4096), mem(dev, kind::device, 4096);
	const stream s(dev);

	memset(mine.data(), 0, 4096);
	memset(theirs.data(), 0, 4096);
	refuses(usdma_fill(s, theirs.data(), 7, 1, 64));
	refuses(usdma_reduce(s, mem.data(), theirs.data(), 64, USDMA_INT8, USDMA_SUM));
	refuses(usdma_reduce(s, theirs.data(), mem.data(), 64, USDMA_INT8, USDMA_SUM));
	refuses(usdma_write_value(s, theirs.data(), 7));
	refuses(usdma_wait_value(s, theirs.data(), USDMA_EQ, 0));
	WORKS(usdma_fill(s, mem.data(), 1, 1, 4096));
	WORKS(usdma_fill(s, mine.data(), 3, 1, 64));
	WORKS(usdma_reduce(s, mem.data(), mine.data(), 64, USDMA_INT8, USDMA_SUM));
	WORKS(usdma_write_value(s, mine.data() + 64, 9));
	WORKS(usdma_wait_value(s, mine.data() + 64, USDMA_EQ, 9));
	WORKS(usdma_copy(s, mine.data() + 128, mem.data(), 65));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(mine.data()[128], 4);
	assert_int_equal(mine.data()[128 + 63], 4);
	assert_int_equal(mine.data()[128 + 64], 1);
	WORKS(usdma_fill_sync(dev, theirs.data(), 8, 1, 64, long_ms));
	assert_int_equal(theirs.data()[63], 8);
}

static void words_and_fills_refuse_what_is_out_of_reach(void **)
{
	const device ok(healthy), bad(nosy_alone), third(sim_alone);

	words_and_fills(bad, ok);
	words_and_fills(ok, bad);
	words_and_fills(bad, third);
}

/* ---- coming and going ------------------------------------------------------------------------------------ */

/* Closed with memory still allocated, and opened again: that memory is its own again, and no other's meanwhile. */
static void memory_outlives_it(void **)
{
	const device ok(healthy);
	std::unique_ptr<block> kept;

	for (const unsigned which : {nosy_alone, sim_alone}) {
		const std::vector<u8> data = random_bytes(mib);
		{
			const device isolated(which);

			kept = std::make_unique<block>(isolated, kind::pinned, mib);
			memcpy(kept->data(), data.data(), mib);
			pageable_both_ways(isolated, data);
		}
		const device other(nosy_common);
		const stream s(ok);
		assert_false(sees(*common, data.data(), 48));
		refuses(usdma_fill(s, kept->data(), 1, 1, 64));
		const block mem(ok, kind::device, mib);
		WORKS(usdma_copy(s, mem.data(), kept->data(), mib));
		WORKS(usdma_stream_sync(s, long_ms));
		const device again(which);
		const block its(again, kind::device, mib);
		const stream t(again);
		WORKS(usdma_fill(t, kept->data(), 0x5a, 1, 64));
		WORKS(usdma_copy(t, its.data(), kept->data(), mib));
		WORKS(usdma_stream_sync(t, long_ms));
		assert_int_equal(kept->data()[63], 0x5a);
		assert_memory_equal(kept->data() + 64, data.data() + 64, mib - 64);
	}
}

/* Lost in the middle of copies; the other goes on, and one that comes anew sees nothing of before. */
static void lost_in_mid_copy(void **)
{
	const device ok(healthy);
	usdma_device *bad;
	std::atomic<int> rounds{0};
	std::atomic<bool> stop{false};

	WORKS(usdma_open_index(nosy_alone, &bad));
	const block own(bad, kind::pinned, mib);
	std::thread copies([&] {
		const std::vector<u8> data(3 * mib, 0x31);
		void *mem;

		WORKS(usdma_device_alloc(bad, data.size(), &mem));
		for (int ret = 0; !ret && !stop; rounds++)
			ret = usdma_copy_sync(bad, mem, data.data(), data.size(), long_ms);
		usdma_device_free(mem);
	});
	until("some copies", [&] { return rounds > 3; });
	alone->hang_up();
	keeps_from(*alone, ok);
	stop = true;
	copies.join();
	WORKS(usdma_close(bad));
	WORKS(usdma_open_index(nosy_alone, &bad));
	keeps_from(*alone, ok);
	pageable_both_ways(bad, random_bytes(3 * mib));
	WORKS(usdma_close(bad));
	keeps_from(*alone, ok);
}

/* Some open and close what is isolated, others copy with all there is. */
static void comes_and_goes_under_copies(void **)
{
	const unsigned turns = 12 * scale();
	std::atomic<bool> stop{false};
	std::vector<std::thread> all;
	const device ok(healthy);

	for (const unsigned which : {nosy_alone, sim_alone})
		all.emplace_back([which, turns, &stop] {
			for (unsigned i = 0; i < turns; i++) {
				const device isolated(which);
				const block own(isolated, kind::pinned, 64 * 1024);

				memset(own.data(), int(i), own.size());
				pageable_both_ways(isolated, std::vector<u8>(mib + i, u8(i)));
			}
			stop = true;
		});
	for (int k = 0; k < 2; k++)
		all.emplace_back([&ok, &stop, k] {
			for (u8 i = 0; !stop; i++) {
				const block host(ok, k ? kind::pinned : kind::registered, 300 * 1024);
				const block mem(ok, kind::device, 300 * 1024);
				const stream s(ok);

				memset(host.data(), i, host.size());
				WORKS(usdma_copy(s, mem.data(), host.data(), host.size()));
				WORKS(usdma_stream_sync(s, long_ms));
				pageable_both_ways(ok, std::vector<u8>(mib + i, i));
			}
		});
	for (std::thread &t : all)
		t.join();
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(a_common_server_sees),
		cmocka_unit_test(sees_nothing_of_others),
		cmocka_unit_test(is_seen_by_no_other),
		cmocka_unit_test(its_memory_is_no_peers),
		cmocka_unit_test(copies_land_whole),
		cmocka_unit_test(times_of_either),
		cmocka_unit_test(words_and_fills_refuse_what_is_out_of_reach),
		cmocka_unit_test(memory_outlives_it),
		cmocka_unit_test(lost_in_mid_copy),
		cmocka_unit_test(comes_and_goes_under_copies),
	};

	return cmocka_run_group_tests_name("isolated", tests, set_up, tear_down);
}
