/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it costs that work waits for work: from the record, write or end to the end of what waited, the collectives of
 * two ranks, and the CPU time of streams that wait. bench-gates [TRIES [gates|collectives|cpu]]. USDMA_WAIT selects
 * the wait mode; without USDMA_DEVICES there are two software devices.
 */
#include "acl/acl.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <hccl.h>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
constexpr std::size_t most = 64 << 20;

void need(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %d %s\n", what, err, aclGetRecentErrMsg());
	exit(1);
}
#define NEED(call) need(int(call), #call)

double us_since(clock_type::time_point start)
{
	return std::chrono::duration<double, std::micro>(clock_type::now() - start).count();
}

double cpu_us()
{
	rusage u;

	getrusage(RUSAGE_SELF, &u);
	return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + double(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* One rank: a device, a stream on it and memory. */
struct rank {
	aclrtContext context;
	aclrtStream stream, second;
	char *from, *to, *slot;

	explicit rank(int device)
	{
		NEED(aclrtCreateContext(&context, device));
		NEED(aclrtCreateStream(&stream));
		NEED(aclrtCreateStream(&second));
		for (char **p : {&from, &to, &slot}) {
			NEED(aclrtMalloc(reinterpret_cast<void **>(p), most, ACL_MEM_MALLOC_HUGE_FIRST));
			NEED(aclrtMemset(*p, most, 0, most));
		}
	}
	void use() const { NEED(aclrtSetCurrentContext(context)); }
};

/* Its engine polls for 50 us now. */
void keep_awake(const rank &r)
{
	r.use();
	NEED(aclrtMemcpyAsync(r.to, 64, r.from, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, r.stream));
	NEED(aclrtSynchronizeStream(r.stream));
}

std::vector<const rank *> used;

/* The waiting side is set up, the engines used fall asleep or have just run, then go() is timed. */
void row(const char *name, int tries, bool asleep, const std::function<void()> &set_up, const std::function<void()> &go)
{
	std::vector<double> took;

	for (int i = 0; i < tries; i++) {
		for (const rank *r : used)
			keep_awake(*r);
		set_up();
		if (asleep)
			std::this_thread::sleep_for(std::chrono::microseconds(300));
		const auto start = clock_type::now();
		go();
		took.push_back(us_since(start));
	}
	std::sort(took.begin(), took.end());
	printf("%-60s %8.1f us, of 99 %%: %.0f\n", name, took[took.size() / 2], took[took.size() * 99 / 100]);
}

void gates(const rank &a, const rank &b, int tries)
{
	aclrtNotify here, there;
	aclrtEvent e;
	std::uint64_t value = 0;
	const auto sync = [](const rank &r, aclrtStream s) {
		r.use();
		NEED(aclrtSynchronizeStream(s));
	};

	b.use();
	NEED(aclrtCreateNotify(&there, 0));
	a.use();
	NEED(aclrtCreateNotify(&here, 0));
	NEED(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	for (bool asleep : {false, true}) {
		printf("%s:\n", asleep ? "engines asleep" : "engines awake");
		used = {&a};
		row(
			"copy of 64 bytes", tries, asleep, [] {},
			[&] {
				NEED(aclrtMemcpyAsync(a.to, 64, a.from, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, a.stream));
				sync(a, a.stream);
			});
		row(
			"notify, same device", tries, asleep, [&] { NEED(aclrtWaitAndResetNotify(here, a.second, 0)); },
			[&] {
				NEED(aclrtRecordNotify(here, a.stream));
				sync(a, a.second);
			});
		row(
			"notify, time limit", tries, asleep,
			[&] { NEED(aclrtWaitAndResetNotify(here, a.second, 100)); },
			[&] {
				NEED(aclrtRecordNotify(here, a.stream));
				sync(a, a.second);
			});
		row(
			"value, same device", tries, asleep, [&] { NEED(aclrtValueWait(a.to, ++value, 0, a.second)); },
			[&] {
				NEED(aclrtValueWrite(a.to, value, 0, a.stream));
				sync(a, a.second);
			});
		used = {&b, &a};
		row(
			"notify, other device", tries, asleep,
			[&] {
				b.use();
				NEED(aclrtWaitAndResetNotify(there, b.second, 0));
				a.use();
			},
			[&] {
				NEED(aclrtRecordNotify(there, a.stream));
				sync(b, b.second);
				a.use();
			});
		row(
			"copy of 1 MiB", tries, asleep, [] {},
			[&] {
				NEED(aclrtMemcpyAsync(a.to, 1 << 20, a.from, 1 << 20, ACL_MEMCPY_DEVICE_TO_DEVICE,
						      a.stream));
				sync(a, a.stream);
			});
		row(
			"event, other device, with a copy of 1 MiB before it", tries, asleep, [] {},
			[&] {
				NEED(aclrtMemcpyAsync(a.to, 1 << 20, a.from, 1 << 20, ACL_MEMCPY_DEVICE_TO_DEVICE,
						      a.stream));
				NEED(aclrtRecordEvent(e, a.stream));
				b.use();
				NEED(aclrtStreamWaitEvent(b.stream, e));
				NEED(aclrtSynchronizeStream(b.stream));
				a.use();
			});
	}
}

/* The copies and the reduction of one of two ranks, without a wait. */
void same_work(const rank &r, std::size_t bytes)
{
	const std::size_t half = bytes / 2;
	const auto copy = [&](char *to, const char *from) {
		NEED(aclrtMemcpyAsync(to, half, from, half, ACL_MEMCPY_DEVICE_TO_DEVICE, r.stream));
	};

	copy(r.to, r.from);
	copy(r.slot, r.from + half);
	NEED(aclrtReduceAsync(r.to, r.slot, half, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, r.stream, nullptr));
	copy(r.slot, r.to);
	copy(r.to + half, r.slot);
}

void collectives(const rank &a, const rank &b, int tries)
{
	const int devices[] = {0, 1};
	HcclComm comm[2];
	std::barrier together(2);

	NEED(HcclCommInitAll(2, const_cast<int *>(devices), comm));
	const auto main_of = [&](const rank &r, int i) {
		r.use();
		for (std::size_t bytes = 8; bytes <= most; bytes *= bytes == 8 ? 1 << 17 : 8)
			for (bool waits : {false, true}) {
				std::vector<double> took;

				for (int n = 0; n < std::min(tries, int(most / bytes) + 15); n++) {
					together.arrive_and_wait();
					const auto start = clock_type::now();
					if (waits)
						NEED(HcclAllReduce(r.from, r.to, bytes / 4, HCCL_DATA_TYPE_FP32,
								   HCCL_REDUCE_SUM, comm[i], r.stream));
					else
						same_work(r, bytes);
					NEED(aclrtSynchronizeStream(r.stream));
					took.push_back(us_since(start));
				}
				std::sort(took.begin(), took.end());
				if (!i)
					printf("%9zu bytes, %-48s %8.1f us\n", bytes,
					       waits ? "AllReduce of two ranks" : "the same work without a wait",
					       took[took.size() / 2]);
			}
	};
	std::thread other(main_of, std::cref(b), 1);
	main_of(a, 0);
	other.join();
	for (HcclComm c : comm)
		NEED(HcclCommDestroy(c));
}

enum class wait { notify, limited, value };
const char *const wait_names[] = {"notifies", "notifies with a time limit", "values"};

/* For the i-th of some streams. */
void waits_for(wait what, const rank &a, aclrtNotify n, std::size_t i, aclrtStream s)
{
	if (what == wait::value)
		NEED(aclrtValueWait(a.slot + 8 * i, 1, 0, s));
	else
		NEED(aclrtWaitAndResetNotify(n, s, what == wait::limited ? 1000 : 0));
}

void cpu_time(const rank &a, wait what, std::size_t n, const char *devices)
{
	std::vector<aclrtStream> s(n);
	std::vector<aclrtNotify> gate(n);

	a.use();
	for (std::size_t i = 0; i < n; i++) {
		NEED(aclrtCreateStream(&s[i]));
		NEED(aclrtCreateNotify(&gate[i], 0));
		waits_for(what, a, gate[i], i, s[i]);
	}
	const double before = cpu_us();
	std::this_thread::sleep_for(std::chrono::seconds(3));
	printf("CPU time of 3 s, %s, %2zu streams that wait for %s: %.1f ms\n", devices, n, wait_names[int(what)],
	       (cpu_us() - before) / 1e3);
	for (std::size_t i = 0; i < n; i++) {
		NEED(aclrtRecordNotify(gate[i], a.stream));
		NEED(aclrtValueWrite(a.slot + 8 * i, 1, 0, a.stream));
		NEED(aclrtSynchronizeStream(s[i]));
		NEED(aclrtDestroyStream(s[i]));
		NEED(aclrtDestroyNotify(gate[i]));
		NEED(aclrtMemset(a.slot + 8 * i, 8, 0, 8));
	}
}

void cpu_times(const rank &a, const char *devices)
{
	cpu_time(a, wait::notify, 0, devices);
	for (wait what : {wait::notify, wait::limited, wait::value})
		for (std::size_t n : {1, 64})
			cpu_time(a, what, n, devices);
}

} // namespace

int main(int argc, char **argv)
{
	const int tries = argc > 1 ? atoi(argv[1]) : 200;
	const auto wanted = [&](const char *part) { return argc < 3 || !strcmp(argv[2], part); };

	setenv("USDMA_DEVICES", "sim,sim", 0);
	NEED(aclInit(nullptr));
	const rank a(0);
	if (wanted("cpu"))
		cpu_times(a, "one device");
	const rank b(1);
	if (wanted("cpu"))
		cpu_times(a, "two devices");
	if (wanted("gates"))
		gates(a, b, tries);
	if (wanted("collectives"))
		collectives(a, b, tries);
	return 0;
}
