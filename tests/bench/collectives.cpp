/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HcclAllReduce, HcclAllGather and HcclReduceScatter over 2 and 4 ranks, in threads of one process and in processes,
 * against the copies and reductions of the same schedule alone: into the same slots of the peers, back to back, without
 * any notify. The ratio is what the waits of ranks for each other leave of it. Then 8 bytes against a round of a copy
 * and a notify between two ranks. bench-collectives [LARGEST MiB [TRIES]]; the devices are software.
 */
#include "acl/acl.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <hccl.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
constexpr std::size_t slot_bytes = 2 << 20;

void need(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %d %s\n", what, err, aclGetRecentErrMsg());
	exit(1);
}
#define NEED(call) need(int(call), #call)

constexpr unsigned most_ranks = 4;
constexpr std::size_t key_len = 65;

/* A rank's slots and notify, for the others: keys in processes, addresses and handles in threads. */
struct exported {
	int32_t pid;
	char *slot;
	aclrtNotify notify;
	char slot_key[key_len], notify_key[key_len];
};

/* Shared by all ranks. */
struct common {
	pthread_barrier_t together;
	HcclRootInfo root;
	bool processes;
	exported ranks[most_ranks];
};

struct rank {
	unsigned index, ranks;
	common *with;
	HcclComm comm;
	aclrtStream stream;
	char *from, *to, *slot;
	aclrtNotify notify, next_notify; /* the own one, and the next rank's */
	char *slots[most_ranks];         /* of each rank, by number */
};

enum kind { all_reduce, all_gather, reduce_scatter };
constexpr const char *names[] = {"AllReduce", "AllGather", "ReduceScatter"};

void copy(const rank &r, char *to, const char *from, std::size_t bytes)
{
	NEED(aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, r.stream));
}

/* As exchange.cpp's. */
std::size_t piece_of(std::size_t bytes)
{
	return std::clamp<std::size_t>(std::bit_floor(bytes / 8), 512 << 10, slot_bytes);
}

/* Where `from` writes its n-th piece in the slots of `to`. */
char *slot_of(const rank &r, unsigned from, unsigned to, std::size_t n)
{
	return r.slots[to] + (2 * from + n % 2) * slot_bytes;
}

/*
 * An exchange of `part` bytes with each other rank, by pieces: what it puts and takes. A reduction adds all to the
 * rank's part, else each has its part.
 */
void exchange_alone(const rank &r, const char *from, std::size_t part, bool reduces)
{
	const std::size_t piece = piece_of(part);

	for (std::size_t at = 0; at < part; at += piece) {
		const std::size_t n = std::min(piece, part - at);

		for (unsigned i = 1; i < r.ranks; i++) {
			const unsigned to = (r.index + i) % r.ranks;

			copy(r, slot_of(r, r.index, to, at / piece), from + (reduces ? to * part : 0) + at, n);
		}
		for (unsigned i = 1; i < r.ranks; i++) {
			const unsigned of = (r.index + i) % r.ranks;
			char *const slot = slot_of(r, of, r.index, at / piece);

			if (!reduces)
				copy(r, r.to + of * part + at, slot, n);
			else
				NEED(aclrtReduceAsync(r.to + r.index * part + at, slot, n,
						      ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, r.stream, nullptr));
		}
	}
}

void alone(const rank &r, kind what, std::size_t bytes)
{
	const std::size_t part = bytes / r.ranks;
	char *const own = r.to + r.index * part;

	copy(r, own, r.from, part);
	if (what != all_gather)
		exchange_alone(r, r.from, part, true);
	if (what != reduce_scatter)
		exchange_alone(r, own, part, false);
}

/* To the next rank, and from the one before. */
void copy_and_notify(const rank &r)
{
	copy(r, slot_of(r, r.index, (r.index + 1) % r.ranks, 0), r.from, 8);
	NEED(aclrtRecordNotify(r.next_notify, r.stream));
	NEED(aclrtWaitAndResetNotify(r.notify, r.stream, 0));
}

/* bytes: of the larger buffer. */
void together(const rank &r, kind what, std::size_t bytes)
{
	const std::size_t all = bytes / 4, part = all / r.ranks;

	if (what == all_reduce)
		NEED(HcclAllReduce(r.from, r.to, all, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
	else if (what == all_gather)
		NEED(HcclAllGather(r.from, r.to, part, HCCL_DATA_TYPE_FP32, r.comm, r.stream));
	else
		NEED(HcclReduceScatter(r.from, r.to, part, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
}

template <class F> double median_us(const rank &r, int tries, F f)
{
	std::vector<double> took;

	for (int i = 0; i < tries; i++) {
		pthread_barrier_wait(&r.with->together);
		const auto start = clock_type::now();
		f();
		NEED(aclrtSynchronizeStream(r.stream));
		took.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - start).count());
	}
	std::sort(took.begin(), took.end());
	return took[took.size() / 2];
}

void measure(const rank &r, const char *mode, std::size_t largest, int tries)
{
	for (kind what : {all_reduce, all_gather, reduce_scatter})
		for (std::size_t bytes = 1 << 10; bytes <= largest; bytes *= 4) {
			const int n = std::max(5, std::min(tries, int((std::size_t(tries) << 20) / bytes)));
			const double base = median_us(r, n, [&] { alone(r, what, bytes); });
			const double took = median_us(r, n, [&] { together(r, what, bytes); });

			if (!r.index)
				printf("%-13s %u ranks in %-9s %9zu KiB %10.1f us, alone %10.1f us: %.2f\n",
				       names[what], r.ranks, mode, bytes >> 10, took, base, base / took);
			fflush(stdout);
		}
	const double round = median_us(r, tries, [&] { copy_and_notify(r); });
	const double took = median_us(r, tries, [&] { together(r, all_reduce, 8); });
	if (!r.index)
		printf("AllReduce of 8 bytes, %u ranks in %s: %.1f us, a copy and a notify to the next %.1f us: %.2f\n",
		       r.ranks, mode, took, round, took / round);
	fflush(stdout);
}

/* Its slots and notify for the others, and theirs for it. */
void meet(rank &r)
{
	exported &own = r.with->ranks[r.index];

	NEED(aclrtDeviceGetBareTgid(&own.pid));
	own.slot = r.slot;
	own.notify = r.notify;
	if (r.with->processes) {
		const std::size_t bytes = 2 * r.ranks * slot_bytes;

		NEED(aclrtIpcMemGetExportKey(r.slot, bytes, own.slot_key, key_len,
					     ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
		NEED(aclrtNotifyGetExportKey(r.notify, own.notify_key, key_len,
					     ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	}
	pthread_barrier_wait(&r.with->together);
	for (unsigned i = 0; i < r.ranks; i++) {
		exported &t = r.with->ranks[i];

		r.slots[i] = t.slot;
		if (r.with->processes && i != r.index)
			NEED(aclrtIpcMemImportByKey(reinterpret_cast<void **>(&r.slots[i]), t.slot_key, 0));
	}
	exported &next = r.with->ranks[(r.index + 1) % r.ranks];
	r.next_notify = next.notify;
	if (r.with->processes)
		NEED(aclrtNotifyImportByKey(&r.next_notify, next.notify_key, 0));
}

void run(common *with, unsigned index, unsigned ranks, int device, const char *mode, std::size_t largest, int tries)
{
	rank r = {index, ranks, with, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, {}};

	NEED(aclrtSetDevice(device));
	NEED(aclrtCreateStream(&r.stream));
	for (char **p : {&r.from, &r.to, &r.slot}) {
		const std::size_t bytes = p == &r.slot ? 2 * ranks * slot_bytes : largest;

		NEED(aclrtMalloc(reinterpret_cast<void **>(p), bytes, ACL_MEM_MALLOC_HUGE_FIRST));
		NEED(aclrtMemset(*p, bytes, 0, bytes));
	}
	NEED(aclrtCreateNotify(&r.notify, 0));
	meet(r);
	if (!index)
		NEED(HcclGetRootInfo(&with->root));
	pthread_barrier_wait(&with->together);
	NEED(HcclCommInitRootInfo(ranks, &with->root, index, &r.comm));
	measure(r, mode, largest, tries);
	NEED(HcclCommDestroy(r.comm));
	pthread_barrier_wait(&with->together);
	NEED(aclrtDestroyStream(r.stream));
	for (char *p : {r.from, r.to, r.slot})
		NEED(aclrtFree(p));
}

common *prepare(unsigned ranks, bool processes)
{
	auto *c = static_cast<common *>(
		mmap(nullptr, sizeof(common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	pthread_barrierattr_t shared;

	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&c->together, &shared, ranks);
	c->processes = processes;
	return c;
}

void in_processes(unsigned ranks, std::size_t largest, int tries)
{
	common *const with = prepare(ranks, true);

	setenv("USDMA_DEVICES", "sim:mem=1G", 1);
	for (unsigned i = 0; i < ranks; i++)
		if (!fork()) {
			run(with, i, ranks, 0, "processes", largest, tries);
			_exit(0);
		}
	for (unsigned i = 0; i < ranks; i++)
		wait(nullptr);
}

void in_threads(unsigned ranks, std::size_t largest, int tries)
{
	common *const with = prepare(ranks, false);
	std::vector<std::thread> all;

	for (unsigned i = 0; i < ranks; i++)
		all.emplace_back(run, with, i, ranks, int(i), "threads", largest, tries);
	for (std::thread &t : all)
		t.join();
}

} // namespace

int main(int argc, char **argv)
{
	const std::size_t largest = std::size_t(argc > 1 ? atoi(argv[1]) : 256) << 20;
	const int tries = argc > 2 ? atoi(argv[2]) : 200;

	for (unsigned ranks : {2, 4})
		in_processes(ranks, largest, tries);
	setenv("USDMA_DEVICES", "sim:mem=1G,sim:mem=1G,sim:mem=1G,sim:mem=1G", 1);
	NEED(aclInit(nullptr));
	for (unsigned ranks : {2, 4})
		in_threads(ranks, largest, tries);
	return 0;
}
