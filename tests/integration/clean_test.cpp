/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that another user left (sim:stale=1) as a program finds it, by each value of clear_memory.  Each case is a
 * process of its own, for settings are read once.
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

constexpr unsigned char stale = 0xa5, own = 0x3c;

/* In a child: 0, or how many bytes are not as they should be. */
using look = std::function<int(usdma_device *)>;

int child(const char *mode, const char *spec, const look &fn)
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

void in_process(const char *mode, const char *spec, const look &fn)
{
	const pid_t pid = fork();
	int status = -1;

	if (!pid)
		_exit(child(mode, spec, fn));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int count_other(usdma_device *dev, void *p, size_t size, unsigned char want)
{
	std::vector<unsigned char> got(size, static_cast<unsigned char>(~want));

	if (usdma_copy_sync(dev, got.data(), p, size, long_ms))
		return -1;
	return int(std::count_if(got.begin(), got.end(), [=](unsigned char b) { return b != want; }));
}

/* Blocks of all lengths, small and large; what is found in each, and that it holds what is written later. */
int blocks(usdma_device *dev, unsigned char want)
{
	std::vector<std::pair<void *, size_t>> mine;
	int wrong = 0;

	for (size_t size = 1; size < 9 << 20; size = size * 3 + 1) {
		void *p;

		if (usdma_device_alloc(dev, size, &p))
			return -1;
		wrong += count_other(dev, p, size, want) != 0;
		const std::vector<unsigned char> data(size, own);
		wrong += usdma_copy_sync(dev, p, data.data(), size, long_ms) != 0;
		mine.emplace_back(p, size);
	}
	for (const auto &[p, size] : mine)
		wrong += count_other(dev, p, size, own) != 0;
	return wrong;
}

} // namespace

static void zeros(void **)
{
	for (const char *mode : {static_cast<const char *>(nullptr), "alloc", "open", "close"})
		in_process(mode, "sim:mem=64M:stale=1", [](usdma_device *dev) { return blocks(dev, 0); });
	in_process(nullptr, "sim:mem=64M", [](usdma_device *dev) { return blocks(dev, 0); });
	in_process(nullptr, "sim:mem=64M:stale=1:channels=1:engines=1",
		   [](usdma_device *dev) { return blocks(dev, 0); });
}

/* As asked for; and these tests would see it. */
static void what_was_left(void **)
{
	in_process("never", "sim:mem=64M:stale=1", [](usdma_device *dev) { return blocks(dev, stale); });
}

/* What cannot be cleared is not handed out; the next attempt can. */
static void a_fill_that_fails(void **)
{
	in_process(nullptr, "sim:mem=64M:stale=1:faults=fail@1", [](usdma_device *dev) {
		void *p = nullptr;

		if (!usdma_device_alloc(dev, 4096, &p) || !strstr(usdma_error_text(), "clear_memory"))
			return 1;
		return usdma_device_alloc(dev, 4096, &p) ? 1 : count_other(dev, p, 4096, 0);
	});
}

/* Threads that allocate, write and look at once. */
static void threads(void **)
{
	in_process(nullptr, "sim:mem=64M:stale=1", [](usdma_device *dev) {
		std::vector<std::thread> workers;
		std::atomic<int> wrong{0};

		for (int t = 0; t < 4; t++)
			workers.emplace_back([&] {
				std::vector<void *> mine(100);
				const std::vector<unsigned char> data(3000, own);

				for (void *&p : mine) {
					wrong += usdma_device_alloc(dev, 3000, &p) || count_other(dev, p, 3000, 0);
					wrong += usdma_copy_sync(dev, p, data.data(), 3000, long_ms) != 0;
				}
				for (void *p : mine)
					wrong += count_other(dev, p, 3000, own) != 0;
			});
		for (std::thread &t : workers)
			t.join();
		return wrong.load();
	});
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(zeros),
		cmocka_unit_test(what_was_left),
		cmocka_unit_test(a_fill_that_fails),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests_name("clean", tests, nullptr, nullptr);
}
