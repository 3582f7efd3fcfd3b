/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Isolated devices.  A server that retains all files and writes to them neither sees nor changes what other devices
 * copy if it is isolated, or what an isolated device copies.  Copies are complete from any memory.
 * Run as: isolated_test (USDMA_SIM names the device program).
 */
#include "tests/integration/native.h"
#include "tests/support/recording_proxy.h"
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

enum : unsigned { healthy, nosy_isolated, nosy_common, sim_isolated };
static constexpr size_t mib = 1024 * 1024;

static pid_t sims[2]; /* each serves one client */
static std::string folder;
static std::unique_ptr<recording_proxy> isolated_server, common_server;

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
	isolated_server = std::make_unique<recording_proxy>(folder + "/alone", folder + "/dev0");
	common_server = std::make_unique<recording_proxy>(folder + "/common", folder + "/dev1");
	setenv("USDMA_DEVICES",
	       (std::string(device) + ",vfio-user:" + folder + "/alone:isolated=yes,vfio-user:" + folder + "/common," +
		device + ":isolated=yes")
		       .c_str(),
	       1);
	setenv("USDMA_TEST_HOST_ARENA", "2M", 1);
	return 0;
}

static int tear_down(void **)
{
	isolated_server.reset();
	common_server.reset();
	for (pid_t &sim : sims)
		end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

/* ---- what a server can access ---------------------------------------------------------------------------- */

/* True: the bytes are in a file of the client, or in memory that the server can read by messages. */
static bool can_see(recording_proxy &server, const u8 *what, size_t len)
{
	static constexpr uint32_t piece = 64 * 1024;

	for (const auto &f : server.retained_files())
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

/* Overwrites the client's pinned memory, but not its rings. */
static void overwrite_files(recording_proxy &server)
{
	for (const auto &f : server.retained_files())
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

static void pageable_round_trip(usdma_device *dev, const std::vector<u8> &data)
{
	std::vector<u8> back(data.size());
	const block mem(dev, kind::device, data.size());
	const stream s(dev);

	WORKS(usdma_copy(s, mem.data(), data.data(), data.size()));
	WORKS(usdma_copy(s, back.data(), mem.data(), data.size()));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(back.data(), data.data(), data.size());
}

/* The time between two events must not change when the server overwrites all that it can. */
static void check_timestamps(usdma_device *event_dev, usdma_device *stream_dev, recording_proxy &server)
{
	const block mem(stream_dev, kind::device, mib);
	const stream s(stream_dev);
	usdma_event *e[2];
	int64_t ns, again;

	for (usdma_event *&one : e) {
		WORKS(usdma_event_create(event_dev, USDMA_EVENT_TIMING, &one));
		WORKS(usdma_event_record(one, s));
		WORKS(usdma_fill(s, mem.data(), 5, 1, mib));
	}
	WORKS(usdma_stream_sync(s, long_ms));
	WORKS(usdma_event_elapsed(e[0], e[1], &ns));
	assert_true(ns > 0);
	overwrite_files(server);
	WORKS(usdma_event_elapsed(e[0], e[1], &again));
	assert_int_equal(ns, again);
	for (usdma_event *one : e)
		WORKS(usdma_event_destroy(one));
}

/* Does all kinds of work on dev: the server gets no file or mapping, and neither sees nor changes any data. */
static void check_no_access(recording_proxy &server, usdma_device *dev)
{
	const size_t areas = server.areas().size(), files = server.retained_files().size();
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
	pageable_round_trip(dev, secret);
	check_timestamps(dev, dev, server);
	assert_int_equal(server.areas().size(), areas);
	assert_int_equal(server.retained_files().size(), files);
	assert_false(can_see(server, secret.data(), 48));
	assert_false(can_see(server, secret.data() + mib, 48));
	overwrite_files(server);
	for (const block &b : blocks)
		assert_memory_equal(b.data(), secret.data(), b.size());
	pageable_round_trip(dev, secret);
}

/* ---- both directions ------------------------------------------------------------------------------------- */

/* Checks the test itself: a server that is not isolated sees the data. */
static void common_server_sees(void **)
{
	const device ok(healthy), bad(nosy_common);
	const std::vector<u8> secret = random_bytes(mib), own = random_bytes(mib);
	const block pinned(ok, kind::pinned, mib);

	memcpy(pinned.data(), own.data(), mib);
	pageable_round_trip(ok, secret);
	assert_true(can_see(*common_server, own.data(), 48));
	assert_true(can_see(*common_server, secret.data() + mib / 2, 48));
}

static void isolated_server_sees_no_others(void **)
{
	const device ok(healthy);
	const std::vector<u8> early = random_bytes(mib), later = random_bytes(mib);
	const block before(ok, kind::pinned, mib), before_reg(ok, kind::registered, mib);

	memcpy(before.data(), early.data(), mib);
	memcpy(before_reg.data(), early.data(), mib);
	pageable_round_trip(ok, early);
	const device bad(nosy_isolated);
	check_no_access(*isolated_server, ok);
	pageable_round_trip(bad, random_bytes(mib));
	check_no_access(*isolated_server, ok);
	assert_false(can_see(*isolated_server, early.data(), 48));
	/* Registered memory, and pinned memory of no device, is not mapped for an isolated device. */
	const size_t areas = isolated_server->areas().size();
	const block reg(bad, kind::registered, mib), unowned(nullptr, kind::pinned, mib);
	memcpy(reg.data(), later.data(), mib);
	memcpy(unowned.data(), later.data(), mib);
	assert_int_equal(isolated_server->areas().size(), areas);
	assert_false(can_see(*isolated_server, later.data(), 48));
	/* It sees what it copies itself. */
	pageable_round_trip(bad, later);
	assert_true(can_see(*isolated_server, later.data(), 48));
}

static void isolated_device_is_not_seen(void **)
{
	const device isolated(sim_isolated);
	const std::vector<u8> early = random_bytes(mib);
	const block before(isolated, kind::pinned, mib);

	memcpy(before.data(), early.data(), mib);
	pageable_round_trip(isolated, early);
	for (const unsigned other : {nosy_common, nosy_isolated}) {
		recording_proxy &server = other == nosy_common ? *common_server : *isolated_server;
		const device bad(other);

		check_no_access(server, isolated);
		pageable_round_trip(bad, random_bytes(mib));
		check_no_access(server, isolated);
		assert_false(can_see(server, early.data(), 48));
	}
}

/* Its device memory is not mapped for other devices; copies between them work. */
static void device_memory_is_not_shared(void **)
{
	const device ok(healthy), bad(nosy_isolated), third(nosy_common);
	const block theirs(ok, kind::device, mib), its(bad, kind::device, mib), thirds(third, kind::device, mib);
	const std::vector<u8> data = random_bytes(mib);
	std::vector<u8> back(mib);
	const stream s(ok), t(bad);

	/* The other devices map each other's memory. */
	WORKS(usdma_copy_sync(ok, theirs.data(), data.data(), mib, long_ms));
	WORKS(usdma_copy(s, thirds.data(), theirs.data(), mib));
	WORKS(usdma_stream_sync(s, long_ms));
	const size_t areas = isolated_server->areas().size(), others = common_server->areas().size();
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
	/* Only its staging buffers were mapped; they have files. */
	const std::vector<mapped_area> now = isolated_server->areas();
	for (size_t i = areas; i < now.size(); i++)
		assert_true(now[i].with_file && now[i].size <= 4 * mib);
	assert_true(common_server->areas().size() <= others + 1);
	assert_int_equal(usdma_fill(t, theirs.data(), 1, 1, mib), -EXDEV);
	assert_int_equal(usdma_fill(s, its.data(), 1, 1, mib), -EXDEV);
	assert_non_null(strstr(usdma_error_text(), "isolated"));
}

/* ---- what works ------------------------------------------------------------------------------------------ */

/* A kind of host memory, and the device for which it is allocated. */
struct host_memory {
	usdma_device *owner;
	kind what;
};

static void check_copies(usdma_device *dev, usdma_device *other, const host_memory &at, size_t size)
{
	const block from(at.owner, at.what, size), to(at.owner, at.what, size), mem(dev, kind::device, size);
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

/* Rows of 48 bytes at a pitch of 64. */
static void check_2d_copies(usdma_device *dev, const host_memory &at, size_t rows)
{
	const block from(at.owner, at.what, 64 * rows), to(at.owner, at.what, 64 * rows),
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
	const device ok(healthy), bad(nosy_isolated);
	const host_memory memories[] = {{bad, kind::pinned},
					{ok, kind::pinned},
					{nullptr, kind::pinned},
					{nullptr, kind::registered},
					{nullptr, kind::pageable}};

	for (const host_memory &p : memories) {
		for (const size_t size : {size_t(2), size_t(777), 64 * 1024ul, 3 * mib + 5}) {
			check_copies(bad, ok, p, size);
			check_copies(ok, bad, p, size);
		}
		for (const size_t rows : {size_t(1), size_t(100), size_t(50000)}) {
			check_2d_copies(bad, p, rows);
			check_2d_copies(ok, p, rows);
		}
	}
}

/* An event of one device is recorded on another: the time stamp is in memory that the latter can access. */
static void timestamps_across_devices(void **)
{
	const device ok(healthy), bad(nosy_isolated), third(sim_isolated);

	check_timestamps(ok, bad, *common_server);
	check_timestamps(bad, ok, *isolated_server);
	check_timestamps(bad, third, *isolated_server);
	check_timestamps(ok, third, *isolated_server);
}

static void check_refused(int ret)
{
	assert_int_equal(ret, -EXDEV);
	assert_non_null(strstr(usdma_error_text(), "isolated"));
}

/* Fills, reductions and words are not staged: they work only in memory that was allocated for the device. */
static void check_words_and_fills(usdma_device *dev, usdma_device *other)
{
	const block mine(dev, kind::pinned, 4096), theirs(other, kind::pinned, 4096), mem(dev, kind::device, 4096);
	const stream s(dev);

	memset(mine.data(), 0, 4096);
	memset(theirs.data(), 0, 4096);
	check_refused(usdma_fill(s, theirs.data(), 7, 1, 64));
	check_refused(usdma_reduce(s, mem.data(), theirs.data(), 64, USDMA_INT8, USDMA_SUM));
	check_refused(usdma_reduce(s, theirs.data(), mem.data(), 64, USDMA_INT8, USDMA_SUM));
	check_refused(usdma_write_value(s, theirs.data(), 7));
	check_refused(usdma_wait_value(s, theirs.data(), USDMA_EQ, 0));
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

static void words_and_fills_of_unreachable_memory(void **)
{
	const device ok(healthy), bad(nosy_isolated), third(sim_isolated);

	check_words_and_fills(bad, ok);
	check_words_and_fills(ok, bad);
	check_words_and_fills(bad, third);
}

/* ---- open and close -------------------------------------------------------------------------------------- */

/* Memory that outlives its closed device is not accessible to others; the reopened device can use it again. */
static void memory_outlives_isolated_device(void **)
{
	const device ok(healthy);
	std::unique_ptr<block> mem_of_closed;

	for (const unsigned which : {nosy_isolated, sim_isolated}) {
		const std::vector<u8> data = random_bytes(mib);
		{
			const device isolated(which);

			mem_of_closed = std::make_unique<block>(isolated, kind::pinned, mib);
			memcpy(mem_of_closed->data(), data.data(), mib);
			pageable_round_trip(isolated, data);
		}
		const device other(nosy_common);
		const stream s(ok);
		assert_false(can_see(*common_server, data.data(), 48));
		check_refused(usdma_fill(s, mem_of_closed->data(), 1, 1, 64));
		const block mem(ok, kind::device, mib);
		WORKS(usdma_copy(s, mem.data(), mem_of_closed->data(), mib));
		WORKS(usdma_stream_sync(s, long_ms));
		const device again(which);
		const block its(again, kind::device, mib);
		const stream t(again);
		WORKS(usdma_fill(t, mem_of_closed->data(), 0x5a, 1, 64));
		WORKS(usdma_copy(t, its.data(), mem_of_closed->data(), mib));
		WORKS(usdma_stream_sync(t, long_ms));
		assert_int_equal(mem_of_closed->data()[63], 0x5a);
		assert_memory_equal(mem_of_closed->data() + 64, data.data() + 64, mib - 64);
	}
}

/* The isolated device is lost during copies and opened again; it never sees data of the other device. */
static void lost_during_copies(void **)
{
	const device ok(healthy);
	usdma_device *bad;
	std::atomic<int> rounds{0};
	std::atomic<bool> stop{false};

	WORKS(usdma_open_index(nosy_isolated, &bad));
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
	isolated_server->hang_up();
	check_no_access(*isolated_server, ok);
	stop = true;
	copies.join();
	WORKS(usdma_close(bad));
	WORKS(usdma_open_index(nosy_isolated, &bad));
	check_no_access(*isolated_server, ok);
	pageable_round_trip(bad, random_bytes(3 * mib));
	WORKS(usdma_close(bad));
	check_no_access(*isolated_server, ok);
}

/* Some threads open and close isolated devices while others copy with all kinds of memory. */
static void opened_and_closed_during_copies(void **)
{
	const unsigned turns = 12 * scale();
	std::atomic<bool> stop{false};
	std::vector<std::thread> all;
	const device ok(healthy);

	for (const unsigned which : {nosy_isolated, sim_isolated})
		all.emplace_back([which, turns, &stop] {
			for (unsigned i = 0; i < turns; i++) {
				const device isolated(which);
				const block own(isolated, kind::pinned, 64 * 1024);

				memset(own.data(), int(i), own.size());
				pageable_round_trip(isolated, std::vector<u8>(mib + i, u8(i)));
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
				pageable_round_trip(ok, std::vector<u8>(mib + i, i));
			}
		});
	for (std::thread &t : all)
		t.join();
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(common_server_sees),
		cmocka_unit_test(isolated_server_sees_no_others),
		cmocka_unit_test(isolated_device_is_not_seen),
		cmocka_unit_test(device_memory_is_not_shared),
		cmocka_unit_test(copies_land_whole),
		cmocka_unit_test(timestamps_across_devices),
		cmocka_unit_test(words_and_fills_of_unreachable_memory),
		cmocka_unit_test(memory_outlives_isolated_device),
		cmocka_unit_test(lost_during_copies),
		cmocka_unit_test(opened_and_closed_during_copies),
	};

	return cmocka_run_group_tests_name("isolated", tests, set_up, tear_down);
}
