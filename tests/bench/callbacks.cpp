/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a callback after each copy: the time per callback, the longest gap
 * between two callbacks, and how often a thread had to be woken.
 * bench-callbacks [CALLS].  Run it with and without USDMA_TEST_COALESCE_COUNT; without
 * USDMA_DEVICES the device takes 20 us for the 4 KiB.
 */
#include "usdma/usdma.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
#include <vector>

using clock_type = std::chrono::steady_clock;

static std::vector<clock_type::time_point> call_times;
static std::atomic<unsigned> calls;

static void need(long err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %ld %s\n", what, err, usdma_error_text());
	exit(1);
}

static void called(void *)
{
	call_times[calls] = clock_type::now();
	calls++;
}

int main(int argc, char **argv)
{
	const unsigned n = argc > 1 ? unsigned(atoi(argv[1])) : 10000;
	usdma_device *dev;
	usdma_stream *s;
	void *host, *mem;
	rusage before, after;

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=1:rate=200M", 0);
	call_times.resize(n);
	need(usdma_open("0", &dev), "usdma_open");
	need(usdma_stream_create(dev, nullptr, &s), "usdma_stream_create");
	need(usdma_host_alloc(dev, 4096, &host), "usdma_host_alloc");
	need(usdma_device_alloc(dev, 4096, &mem), "usdma_device_alloc");
	getrusage(RUSAGE_SELF, &before);
	const auto start = clock_type::now();
	for (unsigned i = 0; i < n; i++) {
		need(usdma_copy(s, mem, host, 4096), "usdma_copy");
		need(usdma_stream_call(s, called, nullptr, 0), "usdma_stream_call");
	}
	need(usdma_stream_sync(s, -1), "usdma_stream_sync");
	while (calls < n)
		;
	getrusage(RUSAGE_SELF, &after);
	std::vector<double> gaps;
	for (unsigned i = 1; i < n; i++)
		gaps.push_back(std::chrono::duration<double, std::micro>(call_times[i] - call_times[i - 1]).count());
	std::sort(gaps.begin(), gaps.end());
	const double took = std::chrono::duration<double, std::micro>(call_times[n - 1] - start).count();
	printf("%u callbacks: %.1f us each, longest gap of 99 %%: %.0f us, %.2f thread switches each\n", n, took / n,
	       gaps[size_t(double(gaps.size()) * 0.99)], double(after.ru_nvcsw - before.ru_nvcsw) / n);
	need(usdma_stream_destroy(s), "usdma_stream_destroy");
	return 0;
}
