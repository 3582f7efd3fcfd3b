/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hccl-ring [RANKS [MIB]]: all-reduce and all-gather of floats over RANKS devices
 * (default: all), checked, with the bus bandwidth compared with that of memcpy by
 * as many threads at the same time.
 *
 *	USDMA_DEVICES=sim,sim,sim,sim hccl-ring
 */
#include "ring.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

constexpr int rounds = 5;

struct job {
	ring *all;
	unsigned index;
	u64 count;
	double reduce_s, gather_s, memcpy_s; /* best of the rounds; this rank's view */
	HcclResult result;
	bool right;
};

template <class F> double seconds(F &&f)
{
	auto from = std::chrono::steady_clock::now();

	f();
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

/* The limit: each rank copies its data once, all at the same time. */
double measure_memcpy(ring &all, std::vector<float> &from, std::vector<float> &to)
{
	double best = 1e9;

	for (int i = 0; i < rounds; i++) {
		all.meet.arrive_and_wait();
		best = std::min(best,
				seconds([&] { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); }));
	}
	return best;
}

bool put(rank &r, const std::vector<float> &v)
{
	size_t bytes = v.size() * sizeof(float);

	return aclrtMemcpy(r.data(), bytes, v.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS;
}

bool get(rank &r, std::vector<float> &v)
{
	size_t bytes = v.size() * sizeof(float);

	return aclrtMemcpy(v.data(), bytes, r.data(), bytes, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS;
}

/* One collective, timed from when all ranks are ready until this one is done. */
template <class F> HcclResult timed(ring &all, rank &r, double *best, F &&collective)
{
	HcclResult ret = HCCL_SUCCESS;

	all.meet.arrive_and_wait();
	double t = seconds([&] {
		ret = collective();
		if (ret == HCCL_SUCCESS)
			ret = r.wait();
	});
	*best = std::min(*best, t);
	return ret;
}

void run(job *j)
{
	ring &all = *j->all;
	const unsigned n = unsigned(all.members.size());
	std::vector<float> mine(j->count), got(j->count);
	rank r(all, j->index);

	j->right = true;
	j->memcpy_s = measure_memcpy(all, mine, got);
	j->result = r.open(s32(j->index), j->count * sizeof(float));
	if (j->result != HCCL_SUCCESS)
		return;
	for (int round = 0; round < rounds; round++) {
		/* small whole numbers: any order of adding gives the same float */
		for (size_t i = 0; i < mine.size(); i++)
			mine[i] = float((i + j->index + size_t(round)) % 1000);
		if (!put(r, mine))
			j->result = HCCL_E_RUNTIME;
		HcclResult ret = timed(all, r, &j->reduce_s,
				       [&] { return r.all_reduce(j->count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM); });
		all.meet.arrive_and_wait(); /* no rank starts again before all have checked */
		if (ret != HCCL_SUCCESS || !get(r, got))
			j->result = HCCL_E_RUNTIME;
		for (size_t i = 0; i < got.size() && j->right; i++) {
			float sum = 0;

			for (unsigned k = 0; k < n; k++)
				sum += float((i + k + size_t(round)) % 1000);
			j->right = got[i] == sum;
		}
		/* all ranks have the same data: gathering must not change it */
		ret = timed(all, r, &j->gather_s, [&] { return r.all_gather(j->count, HCCL_DATA_TYPE_FP32); });
		all.meet.arrive_and_wait();
		if (ret != HCCL_SUCCESS || !get(r, mine))
			j->result = HCCL_E_RUNTIME;
		j->right = j->right && mine == got;
	}
}

int report(const std::vector<job> &jobs, u64 bytes)
{
	const double n = double(jobs.size()), gib = double(bytes) / (1 << 30);
	double reduce = 0, gather = 0, copy = 0;

	for (const job &j : jobs) {
		if (j.result != HCCL_SUCCESS || !j.right) {
			std::fprintf(stderr, "rank %u: %s (result %d)\n", j.index, j.right ? "failed" : "wrong data",
				     j.result);
			return 1;
		}
		reduce = std::max(reduce, j.reduce_s);
		gather = std::max(gather, j.gather_s);
		copy = std::max(copy, j.memcpy_s);
	}
	std::printf("%zu devices, %.1f MiB of float each, sums checked\n", jobs.size(), gib * 1024);
	std::printf("%-12s %10s %14s\n", "", "ms", "bus GiB/s");
	std::printf("%-12s %10.3f %14.2f\n", "all-reduce", reduce * 1e3, gib * 2 * (n - 1) / n / reduce);
	std::printf("%-12s %10.3f %14.2f\n", "all-gather", gather * 1e3, gib * (n - 1) / n / gather);
	std::printf("%-12s %10.3f %14.2f  (limit: %zu threads, each copies that much)\n", "memcpy", copy * 1e3,
		    gib / copy, jobs.size());
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	uint32_t devices = 0;

	if (aclInit(nullptr) != ACL_SUCCESS || aclrtGetDeviceCount(&devices) != ACL_SUCCESS) {
		std::fprintf(stderr, "no devices: %s\n", aclGetRecentErrMsg());
		return 1;
	}
	const unsigned ranks = argc > 1 ? unsigned(std::atoi(argv[1])) : devices;
	const double mib = argc > 2 ? std::atof(argv[2]) : 16;
	if (ranks < 2 || ranks > devices || mib <= 0) {
		std::fprintf(stderr,
			     "usage: %s [RANKS [MIB]]  (RANKS: 2 ... %u; USDMA_DEVICES=sim,sim,... gives more)\n",
			     argv[0], devices);
		return 2;
	}
	ring all(ranks);
	const u64 count = u64(mib * (1 << 20)) / sizeof(float);
	std::vector<job> jobs(ranks);
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < ranks; i++) {
		jobs[i] = {&all, i, count, 1e9, 1e9, 1e9, HCCL_SUCCESS, false};
		threads.emplace_back(run, &jobs[i]);
	}
	for (std::thread &t : threads)
		t.join();
	int status = report(jobs, count * sizeof(float));
	return aclFinalize() == ACL_SUCCESS ? status : 1;
}
