/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server in another process can access.  One that retains every file that it gets, and writes to it, neither
 * sees nor changes any data of the program after the device was closed or lost.
 * Run as: reach_test (USDMA_SIM names the device program).
 */
#include "tests/integration/native.h"
#include "tests/support/recording_proxy.h"
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
static std::unique_ptr<recording_proxy> proxy;

static int set_up(void **)
{
	char name[] = "/tmp/usdma-reach-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev", {"--engines", "2", "--channels", "16", "--mem", "64M"});
	assert_true(sim > 0);
	proxy = std::make_unique<recording_proxy>(folder + "/proxy", folder + "/dev");
	setenv("USDMA_DEVICES", ("sim:mem=64M:engines=2:channels=16,vfio-user:" + folder + "/proxy").c_str(), 1);
	setenv("USDMA_TEST_HOST_ARENA", "2M", 1);
	return 0;
}

static int tear_down(void **)
{
	proxy.reset();
	end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

/* ---- what the server retains --------------------------------------------------------------------------- */

static bool is_pinned(const retained_file &f)
{
	return f.from_client && f.name == "/memfd:usdma (deleted)";
}

/* The number of mappings of the file in this process; one of them is the server's. */
static unsigned mappings_of(unsigned long number)
{
	const std::string ino = " " + std::to_string(number) + " ";
	std::ifstream maps("/proc/self/maps");
	unsigned n = 0;

	for (std::string line; std::getline(maps, line);)
		n += line.find("/memfd:") != std::string::npos && line.find(ino) != std::string::npos;
	return n;
}

static bool server_has(const u8 *what, size_t len)
{
	for (const auto &f : proxy->retained_files())
		if (is_pinned(f) && memmem(f.data, f.size, what, len))
			return true;
	return false;
}

static void overwrite_pinned()
{
	for (const auto &f : proxy->retained_files())
		if (is_pinned(f))
			memset(f.data, 0xdb, f.size);
}

/* All kinds of work that use pinned memory: staging buffers, time stamps, blocks. */
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

/* The server neither sees nor changes new blocks, staging buffers and time stamps. */
static void check_no_access(usdma_device *dev)
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
	assert_false(server_has(secret.data(), 48));
	overwrite_pinned();
	for (const block &b : blocks)
		assert_memory_equal(b.data(), secret.data(), b.size());
	work(dev, secret);
}

/* ---- after close or loss ----------------------------------------------------------------------------- */

static void no_access_after_close(void **)
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
		assert_true(server_has(reinterpret_cast<const u8 *>("seen while it was open"), 22));
	}
	check_no_access(ok);
	/* Only the file with the block that is still allocated is still mapped. */
	unsigned left = 0;
	for (const auto &f : proxy->retained_files())
		left += is_pinned(f) && mappings_of(f.ino) > 1;
	assert_int_equal(left, 1);
	live.reset();
	for (const auto &f : proxy->retained_files())
		assert_false(is_pinned(f) && mappings_of(f.ino) > 1);
}

static void lose_device(usdma_device *dev)
{
	proxy->hang_up();
	until("the loss of the device", [=] { return flags_of(dev) & USDMA_DEVICE_LOST; });
}

static void no_access_after_loss(void **)
{
	device ok(healthy);
	usdma_device *bad;

	WORKS(usdma_open_index(nosy_one, &bad));
	const std::vector<u8> data(2 * mib, 0x22);
	work(bad, data);
	work(ok, data);
	lose_device(bad);
	check_no_access(ok);
	WORKS(usdma_close(bad));
	check_no_access(ok);
	for (const auto &f : proxy->retained_files())
		assert_false(is_pinned(f) && mappings_of(f.ino) > 1);
}

/* ---- rings, records and stamps of a lost device ------------------------------------------------------------ */

/* Overwrites all files that the server has got so far, rings too, until it is destroyed. */
class overwriter {
public:
	overwriter() : files_(proxy->retained_files()), thread_([this] { run(); }) {}
	~overwriter()
	{
		stop_ = true;
		thread_.join();
	}
	overwriter(const overwriter &) = delete;
	/* None of the files that came since then is one of these. */
	void check_not_reused(const std::vector<retained_file> &now) const
	{
		for (size_t i = files_.size(); i < now.size(); i++)
			for (const retained_file &f : files_)
				assert_false(now[i].from_client && now[i].ino == f.ino);
	}
	unsigned long rounds() const { return rounds_; }

private:
	void run()
	{
		for (u8 byte = 0x5b; !stop_; byte++, rounds_++)
			for (const retained_file &f : files_)
				if (f.from_client)
					memset(f.data, byte, f.size);
	}
	std::vector<retained_file> files_;
	std::atomic<bool> stop_{false};
	std::atomic<unsigned long> rounds_{0};
	std::thread thread_;
};

/* Uses new streams; checks the data and that time stamps are plausible. */
static void check_new_streams(usdma_device *dev, std::mt19937_64 &gen)
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

static void no_ring_or_stamp_is_reused(void **)
{
	device ok(healthy);
	usdma_device *bad;
	auto gen = rng(79);

	WORKS(usdma_open_index(nosy_one, &bad));
	check_new_streams(bad, gen);
	check_new_streams(ok, gen);
	lose_device(bad);
	const overwriter late;
	check_new_streams(ok, gen);
	WORKS(usdma_close(bad));
	WORKS(usdma_open_index(nosy_one, &bad));
	for (int i = 0; i < 3; i++) {
		check_new_streams(bad, gen);
		check_new_streams(ok, gen);
	}
	WORKS(usdma_close(bad));
	until("a few rounds", [&] { return late.rounds() > 3; });
	late.check_not_reused(proxy->retained_files());
}

/* ---- trust=no ---------------------------------------------------------------------------------------- */

/* Neither side maps memory of the other, and everything works. */
static void untrusted_server_shares_nothing(void **)
{
	usdma_device *bad;
	std::vector<u8> data(2 * mib);
	auto gen = rng(77);

	fill_random(data.data(), data.size(), gen);
	const size_t before = proxy->retained_files().size();
	WORKS(usdma_open(("vfio-user:" + folder + "/proxy:trust=no").c_str(), &bad));
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
	const std::vector<retained_file> all = proxy->retained_files();
	for (size_t i = before; i < all.size(); i++) {
		assert_false(all[i].from_client);
		assert_int_equal(mappings_of(all[i].ino), 1);
	}
	WORKS(usdma_close(bad));
}

/* ---- registered memory ------------------------------------------------------------------------------- */

/* The server can access the registered bytes, but not the rest of their pages. */
static void only_registered_bytes_are_accessible(void **)
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
	const mapped_area area = proxy->areas().back();
	assert_false(area.with_file);
	for (size_t at : {skip, skip + 16, skip + len - 16}) {
		assert_int_equal(proxy->read_client(area.iova + at, got, 16), 0);
		assert_memory_equal(got, pages + at, 16);
	}
	for (size_t at : {size_t(0), skip - 1, skip + len - 15, skip + len, 2 * page - 16}) {
		assert_int_equal(proxy->read_client(area.iova + at, got, 16), EFAULT);
		assert_int_equal(proxy->write_client(area.iova + at, other, 16), EFAULT);
	}
	assert_memory_equal(pages, before.data(), before.size());
	assert_int_equal(proxy->write_client(area.iova + skip + len - 16, other, 16), 0);
	assert_memory_equal(pages + skip + len - 16, other, 16);
	WORKS(usdma_host_unregister(pages + skip));
	assert_int_equal(proxy->read_client(area.iova + skip, got, 16), EFAULT);
	free(pages);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(no_access_after_close),
		cmocka_unit_test(no_access_after_loss),
		cmocka_unit_test(no_ring_or_stamp_is_reused),
		cmocka_unit_test(untrusted_server_shares_nothing),
		cmocka_unit_test(only_registered_bytes_are_accessible),
	};

	return cmocka_run_group_tests_name("reach", tests, set_up, tear_down);
}
