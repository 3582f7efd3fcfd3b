/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents of new blocks, with old data of another user in the memory (sim:stale=1), for each value of clear_memory.
 * Each case runs in its own process, because settings are read once.
 */
#include "tests/integration/native.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

namespace {

constexpr unsigned char stale = 0xa5, own_byte = 0x3c;

/* Runs in a child; returns the number of errors. */
using check_fn = std::function<int(usdma_device *)>;

int child(const char *mode, const char *spec, const check_fn &fn)
{
	usdma_device *dev;

	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_DEVICES", spec, 1);
	if (mode)
		setenv("USDMA_CLEAR_MEMORY", mode, 1);
	else
		unsetenv("USDMA_CLEAR_MEMORY");
	if (usdma_open_index(0, &dev)) {
		print_error("%s\n", usdma_error_text());
		return 9;
	}
	const int wrong = fn(dev);
	return usdma_close(dev) ? 8 : wrong ? 1 : 0;
}

void in_process(const char *mode, const char *spec, const check_fn &fn)
{
	const pid_t pid = fork();
	int status = -1;

	if (!pid)
		_exit(child(mode, spec, fn));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int count_different(usdma_device *dev, void *p, size_t size, unsigned char want)
{
	std::vector<unsigned char> got(size, static_cast<unsigned char>(~want));

	if (usdma_copy_sync(dev, got.data(), p, size, long_ms))
		return -1;
	return int(std::count_if(got.begin(), got.end(), [=](unsigned char b) { return b != want; }));
}

/* Blocks of all sizes: checks their initial contents, and the data written later. */
int check_blocks(usdma_device *dev, unsigned char want)
{
	std::vector<std::pair<void *, size_t>> mine;
	int wrong = 0;

	for (size_t size = 1; size < 9 << 20; size = size * 3 + 1) {
		void *p;

		if (usdma_device_alloc(dev, size, &p))
			return -1;
		wrong += count_different(dev, p, size, want) != 0;
		const std::vector<unsigned char> data(size, own_byte);
		wrong += usdma_copy_sync(dev, p, data.data(), size, long_ms) != 0;
		mine.emplace_back(p, size);
	}
	for (const auto &[p, size] : mine)
		wrong += count_different(dev, p, size, own_byte) != 0;
	return wrong;
}

} // namespace

static void blocks_are_zeroed(void **)
{
	for (const char *mode : {static_cast<const char *>(nullptr), "alloc", "open", "close"})
		in_process(mode, "sim:mem=64M:stale=1", [](usdma_device *dev) { return check_blocks(dev, 0); });
	in_process(nullptr, "sim:mem=64M", [](usdma_device *dev) { return check_blocks(dev, 0); });
	in_process(nullptr, "sim:mem=64M:stale=1:channels=1:engines=1",
		   [](usdma_device *dev) { return check_blocks(dev, 0); });
}

/* With "never" the old data is visible, which also shows that the tests detect it. */
static void old_data_without_clearing(void **)
{
	in_process("never", "sim:mem=64M:stale=1", [](usdma_device *dev) { return check_blocks(dev, stale); });
}

/* A block that cannot be cleared is not allocated; the next attempt succeeds. */
static void a_failed_fill(void **)
{
	in_process(nullptr, "sim:mem=64M:stale=1:faults=fail@1", [](usdma_device *dev) {
		void *p = nullptr;

		if (!usdma_device_alloc(dev, 4096, &p) || !strstr(usdma_error_text(), "clear_memory"))
			return 1;
		return usdma_device_alloc(dev, 4096, &p) ? 1 : count_different(dev, p, 4096, 0);
	});
}

/* Several threads allocate, write and check at the same time. */
static void threads(void **)
{
	in_process(nullptr, "sim:mem=64M:stale=1", [](usdma_device *dev) {
		std::vector<std::thread> workers;
		std::atomic<int> wrong{0};

		for (int t = 0; t < 4; t++)
			workers.emplace_back([&] {
				std::vector<void *> mine(100);
				const std::vector<unsigned char> data(3000, own_byte);

				for (void *&p : mine) {
					wrong += usdma_device_alloc(dev, 3000, &p) || count_different(dev, p, 3000, 0);
					wrong += usdma_copy_sync(dev, p, data.data(), 3000, long_ms) != 0;
				}
				for (void *p : mine)
					wrong += count_different(dev, p, 3000, own_byte) != 0;
			});
		for (std::thread &t : workers)
			t.join();
		return wrong.load();
	});
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_zeroed),
		cmocka_unit_test(old_data_without_clearing),
		cmocka_unit_test(a_failed_fill),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests_name("clean", tests, nullptr, nullptr);
}
