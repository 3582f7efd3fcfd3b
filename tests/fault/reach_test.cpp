/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server of another process reaches.  One that keeps every file that it gets, and writes to it, sees and
 * alters nothing of what the program does after the device was closed, or lost.
 * Run as: reach_test (USDMA_SIM names the device program).
 */
#include "tests/integration/native.h"
#include "tests/support/nosy.h"
#include "tests/support/sim_process.h"
#include "tests/support/until.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace usdma::test;

using u8 = unsigned char;

static constexpr unsigned healthy = 0, nosy_one = 1;
static constexpr size_t mib = 1024 * 1024;

static pid_t sim;
static std::string folder;
static std::unique_ptr<nosy_server> nosy;

static int set_up(void **)
{
	char name[] = "/tmp/usdma-reach-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev", {"--engines", "2", "--channels", "16", "--mem", "64M"});
	assert_true(sim > 0);
	nosy = std::make_unique<nosy_server>(folder + "/nosy", folder + "/dev");
	setenv("USDMA_DEVICES", ("sim:mem=64M:engines=2:channels=16,vfio-user:" + folder + "/nosy").c_str(), 1);
	setenv("USDMA_HOST_ARENA", "2M", 1);
	return 0;
}

static int tear_down(void **)
{
	nosy.reset();
	end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

/* ---- what is kept -------------------------------------------------------------------------------------- */

static bool is_pinned(const kept_file &f)
{
	return f.from_client && f.name == "/memfd:usdma (deleted)";
}

/* Mappings of the file in this process: one is the server's own. */
static unsigned mappings_of(unsigned long number)
{
	const std::string ino = " " + std::to_string(number) + " ";
	std::ifstream maps("/proc/self/maps");
	unsigned n = 0;

	for (std::string line; std::getline(maps, line);)
		n += line.find("/memfd:") != std::string::npos && line.find(ino) != std::string::npos;
	return n;
}

static bool is_kept(const u8 *what, size_t len)
{
	for (const kept_file &f : nosy->kept())
		if (is_pinned(f) && memmem(f.data, f.size, what, len))
			return true;
	return false;
}

static void scribble()
{
	for (const kept_file &f : nosy->kept())
		if (is_pinned(f))
			memset(f.data, 0xdb, f.size);
}

/* Work of every kind that leaves something in pinned memory: staging buffers, time stamps, blocks. */
static void work(usdma_device *dev, const std::vector<u8> &data)
{
	std::vector<u8> back(data.size());
	block mem(dev, kind::device, data.size());
	stream s(dev);
	usdma_event *e;
	int64_t ns;

	WORKS(usdma_event_create(dev, USDMA_EVENT_TIMING, &e));
	WORKS(usdma_event_record(e, s));
	WORKS(usdma_copy(s, mem.data(), data.data(), data.size()));
	WORKS(usdma_copy(s, back.data(), mem.data(), data.size()));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(back.data(), data.data(), data.size());
	WORKS(usdma_event_elapsed(e, e, &ns));
	WORKS(usdma_event_destroy(e));
}

/* New blocks, staging and time stamps: the server neither sees nor alters them. */
static void keeps_nothing_of(usdma_device *dev)
{
	std::vector<block> blocks;
	std::vector<u8> secret(3 * mib);
	static unsigned round = 0;
	auto gen = rng(++round);

	fill_random(secret.data(), secret.size(), gen);
	for (size_t size : {size_t(64), size_t(4096), 64 * 1024ul, 300 * 1024ul, 3 * mib})
		for (int i = 0; i < 8; i++) {
			blocks.emplace_back(dev, kind::pinned, size);
			memcpy(blocks.back().data(), secret.data(), size);
		}
	work(dev, secret);
	assert_false(is_kept(secret.data(), 48));
	scribble();
	for (const block &b : blocks)
		assert_memory_equal(b.data(), secret.data(), b.size());
	work(dev, secret);
}

/* ---- C5 ---------------------------------------------------------------------------------------------- */

static void nothing_after_its_close(void **)
{
	device ok(healthy);
	std::vector<u8> data(2 * mib, 0x11);
	std::unique_ptr<block> live;
	{
		device bad(nosy_one);
		const block freed(bad, kind::pinned, 64 * 1024);

		live = std::make_unique<block>(ok, kind::pinned, 64 * 1024);
		work(bad, data);
		work(ok, data);
		memcpy(live->data(), "seen while it was open", 22);
		assert_true(is_kept(reinterpret_cast<const u8 *>("seen while it was open"), 22));
	}
	keeps_nothing_of(ok);
	/* All that it has is given back, but where a block of that time still lies. */
	unsigned left = 0;
	for (const kept_file &f : nosy->kept())
		left += is_pinned(f) && mappings_of(f.ino) > 1;
	assert_int_equal(left, 1);
	live.reset();
	for (const kept_file &f : nosy->kept())
		assert_false(is_pinned(f) && mappings_of(f.ino) > 1);
}

static void lose(usdma_device *dev)
{
	nosy->hang_up();
	until("its loss", [=] { return flags_of(dev) & USDMA_DEVICE_LOST; });
}

static void nothing_after_its_loss(void **)
{
	device ok(healthy);
	usdma_device *bad;

	WORKS(usdma_open_index(nosy_one, &bad));
	const std::vector<u8> data(2 * mib, 0x22);
	work(bad, data);
	work(ok, data);
	lose(bad);
	keeps_nothing_of(ok);
	WORKS(usdma_close(bad));
	keeps_nothing_of(ok);
	for (const kept_file &f : nosy->kept())
		assert_false(is_pinned(f) && mappings_of(f.ino) > 1);
}

/* ---- rings, records and stamps of a lost device ------------------------------------------------------------ */

/* Writes over all that the server was given until now, rings too, for as long as it lives. */
class scribbler {
public:
	scribbler() : files_(nosy->kept()), thread_([this] { run(); }) {}
	~scribbler()
	{
		stop_ = true;
		thread_.join();
	}
	scribbler(const scribbler &) = delete;
	/* Of the files that came since then none is one of its. */
	void is_of_others(const std::vector<kept_file> &now) const
	{
		for (size_t i = files_.size(); i < now.size(); i++)
			for (const kept_file &f : files_)
				assert_false(now[i].from_client && now[i].ino == f.ino);
	}
	unsigned long rounds() const { return rounds_; }

private:
	void run()
	{
		for (u8 with = 0x5b; !stop_; with++, rounds_++)
			for (const kept_file &f : files_)
				if (f.from_client)
					memset(f.data, with, f.size);
	}
	std::vector<kept_file> files_;
	std::atomic<bool> stop_{false};
	std::atomic<unsigned long> rounds_{0};
	std::thread thread_;
};

/* Streams of their own, data, and stamps that could be true. */
static void works_in_new_memory(usdma_device *dev, std::mt19937_64 &gen)
{
	const auto began = std::chrono::steady_clock::now();
	std::vector<u8> data(300 * 1024);
	usdma_event *from, *to;
	int64_t ns;

	fill_random(data.data(), data.size(), gen);
	for (int i = 0; i < 6; i++) {
		stream s(dev);

		WORKS(usdma_event_create(dev, USDMA_EVENT_TIMING, &from));
		WORKS(usdma_event_create(dev, USDMA_EVENT_TIMING, &to));
		WORKS(usdma_event_record(from, s));
		work(dev, data);
		WORKS(usdma_event_record(to, s));
		WORKS(usdma_event_sync(to, long_ms));
		WORKS(usdma_event_elapsed(from, to, &ns));
		assert_in_range(ns, 0, uint64_t((std::chrono::steady_clock::now() - began).count()));
		WORKS(usdma_event_destroy(from));
		WORKS(usdma_event_destroy(to));
	}
}

static void no_ring_or_stamp_lives_on(void **)
{
	device ok(healthy);
	usdma_device *bad;
	auto gen = rng(79);

	WORKS(usdma_open_index(nosy_one, &bad));
	works_in_new_memory(bad, gen);
	works_in_new_memory(ok, gen);
	lose(bad);
	const scribbler late;
	works_in_new_memory(ok, gen);
	WORKS(usdma_close(bad));
	WORKS(usdma_open_index(nosy_one, &bad));
	for (int i = 0; i < 3; i++) {
		works_in_new_memory(bad, gen);
		works_in_new_memory(ok, gen);
	}
	WORKS(usdma_close(bad));
	until("a few rounds", [&] { return late.rounds() > 3; });
	late.is_of_others(nosy->kept());
}

/* ---- trust=no ---------------------------------------------------------------------------------------- */

/* Neither side maps anything of the other's, and all works. */
static void shares_nothing_untrusted(void **)
{
	usdma_device *bad;
	std::vector<u8> data(2 * mib);
	auto gen = rng(77);

	fill_random(data.data(), data.size(), gen);
	const size_t before = nosy->kept().size();
	WORKS(usdma_open(("vfio-user:" + folder + "/nosy:trust=no").c_str(), &bad));
	{
		const block host(bad, kind::pinned, mib), own(bad, kind::registered, mib), mem(bad, kind::device, mib);
		stream s(bad);

		work(bad, data);
		memcpy(host.data(), data.data(), mib);
		WORKS(usdma_copy(s, mem.data(), host.data(), mib));
		WORKS(usdma_copy(s, own.data(), mem.data(), mib));
		WORKS(usdma_stream_sync(s, long_ms));
		assert_memory_equal(own.data(), data.data(), mib);
	}
	assert_false(flags_of(bad) & USDMA_DEVICE_CPU_VISIBLE);
	const std::vector<kept_file> all = nosy->kept();
	for (size_t i = before; i < all.size(); i++) {
		assert_false(all[i].from_client);
		assert_int_equal(mappings_of(all[i].ino), 1);
	}
	WORKS(usdma_close(bad));
}

/* ---- C6 ---------------------------------------------------------------------------------------------- */

/* Of memory that is registered the bytes, not the pages around them. */
static void reaches_the_bytes_that_are_registered(void **)
{
	static constexpr size_t page = 4096;
	device bad(nosy_one);
	auto *const pages = static_cast<u8 *>(aligned_alloc(page, 3 * page));
	auto gen = rng(78);
	const size_t skip = 1 + gen() % 2000, len = page + gen() % 2000;
	u8 got[16], other[16];

	fill_random(pages, 3 * page, gen);
	fill_random(other, sizeof(other), gen);
	const std::vector<u8> before(pages, pages + 3 * page);
	WORKS(usdma_host_register(pages + skip, len, 0));
	const mapped_area area = nosy->areas().back();
	assert_false(area.with_file);
	for (size_t at : {skip, skip + 16, skip + len - 16}) {
		assert_int_equal(nosy->read_client(area.iova + at, got, 16), 0);
		assert_memory_equal(got, pages + at, 16);
	}
	for (size_t at : {size_t(0), skip - 1, skip + len - 15, skip + len, 2 * page - 16}) {
		assert_int_equal(nosy->read_client(area.iova + at, got, 16), EFAULT);
		assert_int_equal(nosy->write_client(area.iova + at, other, 16), EFAULT);
	}
	assert_memory_equal(pages, before.data(), before.size());
	assert_int_equal(nosy->write_client(area.iova + skip + len - 16, other, 16), 0);
	assert_memory_equal(pages + skip + len - 16, other, 16);
	WORKS(usdma_host_unregister(pages + skip));
	assert_int_equal(nosy->read_client(area.iova + skip, got, 16), EFAULT);
	free(pages);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(nothing_after_its_close),
		cmocka_unit_test(nothing_after_its_loss),
		cmocka_unit_test(no_ring_or_stamp_lives_on),
		cmocka_unit_test(shares_nothing_untrusted),
		cmocka_unit_test(reaches_the_bytes_that_are_registered),
	};

	return cmocka_run_group_tests_name("reach", tests, set_up, tear_down);
}
