/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libhccl's groups: processes with one or two devices of USDMA_DEVICES each, and threads of one process with all of
 * them. Each element of every result is compared with the result of plain loops.
 */
#include <acl/acl.h>
#include <hccl.h>

#include "tests/support/test.h"
#include "tests/support/until.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static std::vector<std::string> devices;
static uint32_t ranks; /* as many as devices: four, or two in the virtual machine */

/* cmocka's asserts do not work in the ranks' processes and threads: the first line that fails is printed. */
#define MUST(is)                                                                                                       \
	do {                                                                                                           \
		if (!(is)) {                                                                                           \
			fprintf(stderr, "# rank %u, line %d: %s\n", r.rank, __LINE__, #is);                            \
			return false;                                                                                  \
		}                                                                                                      \
	} while (0)
#define GOOD(call) MUST((call) == 0)

struct rank_of {
	uint32_t rank = 0;
	int32_t device = 0;
	HcclComm comm = nullptr;
	aclrtStream stream = nullptr, other = nullptr;
};

/* ---- elements ------------------------------------------------------------------------------------------ */

/* Small integers: every order of additions gives the same sum. */
template <class T> std::vector<T> data_of(uint32_t rank, size_t n, std::uint64_t round)
{
	auto gen = rng(round * 100 + rank);
	std::vector<T> v(n);

	for (T &x : v)
		x = T(gen() % 7);
	return v;
}

template <class T> T reduce_one(HcclReduceOp op, T a, T b)
{
	switch (op) {
	case HCCL_REDUCE_SUM:
		return T(a + b);
	case HCCL_REDUCE_PROD:
		return T(a * b);
	case HCCL_REDUCE_MAX:
		return a > b ? a : b;
	default:
		return a < b ? a : b;
	}
}

template <class T> std::vector<T> reduced(size_t n, std::uint64_t round, HcclReduceOp op)
{
	std::vector<T> sum = data_of<T>(0, n, round);

	for (uint32_t r = 1; r < ranks; r++) {
		const std::vector<T> v = data_of<T>(r, n, round);
		for (size_t i = 0; i < n; i++)
			sum[i] = reduce_one(op, sum[i], v[i]);
	}
	return sum;
}

/* Device memory with a copy of a vector. */
template <class T> struct buffer {
	explicit buffer(const std::vector<T> &v) : bytes(v.size() * sizeof(T))
	{
		if (aclrtMalloc(&at, bytes ? bytes : 1, ACL_MEM_MALLOC_NORMAL_ONLY))
			at = nullptr;
		else if (bytes && aclrtMemcpy(at, bytes, v.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE))
			at = nullptr;
	}
	explicit buffer(size_t n) : buffer(std::vector<T>(n, T(99))) {}
	~buffer() { aclrtFree(at); }
	buffer(const buffer &) = delete;
	buffer &operator=(const buffer &) = delete;
	std::vector<T> get() const
	{
		std::vector<T> v(bytes / sizeof(T));

		if (bytes && aclrtMemcpy(v.data(), bytes, at, bytes, ACL_MEMCPY_DEVICE_TO_HOST))
			v.clear();
		return v;
	}
	T *el(size_t i) const { return static_cast<T *>(at) + i; }
	void *at = nullptr;
	size_t bytes;
};

/* ---- operations of each rank ------------------------------------------------------------------------------- */

template <class T>
static bool one_all_reduce(rank_of &r, size_t n, HcclDataType type, HcclReduceOp op, std::uint64_t round)
{
	const std::vector<T> mine = data_of<T>(r.rank, n, round), want = reduced<T>(n, round, op);
	buffer<T> src(mine), dst(n);

	GOOD(HcclAllReduce(src.at, dst.at, n, type, op, r.comm, r.stream));
	GOOD(HcclAllReduce(src.at, src.at, n, type, op, r.comm, r.stream)); /* in place */
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(dst.get() == want);
	MUST(src.get() == want);
	return true;
}

/* Fewer elements than ranks, one chunk, and many: a slot is 1 MiB / 4. */
static bool all_reduce(rank_of &r)
{
	std::uint64_t round = 1;

	for (size_t n : {size_t(1), size_t(3), size_t(1000), sized(700001, 9001)})
		MUST(one_all_reduce<float>(r, n, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, round++));
	for (HcclReduceOp op : {HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN})
		MUST(one_all_reduce<int32_t>(r, 777, HCCL_DATA_TYPE_INT32, op, round++));
	MUST(one_all_reduce<double>(r, 1234, HCCL_DATA_TYPE_FP64, HCCL_REDUCE_SUM, round++));
	MUST(one_all_reduce<int64_t>(r, 1234, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM, round++));
	return one_all_reduce<uint8_t>(r, 4321, HCCL_DATA_TYPE_UINT8, HCCL_REDUCE_SUM, round++);
}

static bool scatter_and_gather(rank_of &r)
{
	const size_t n = sized(100003, 1003);
	const std::vector<int32_t> mine = data_of<int32_t>(r.rank, n * ranks, 20),
				   sum = reduced<int32_t>(n * ranks, 20, HCCL_REDUCE_SUM);
	buffer<int32_t> src(mine), part(n), all(n * ranks);

	GOOD(HcclReduceScatter(src.at, part.at, n, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, r.comm, r.stream));
	GOOD(HcclAllGather(part.at, all.at, n, HCCL_DATA_TYPE_INT32, r.comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(part.get() == std::vector<int32_t>(sum.begin() + long(n * r.rank), sum.begin() + long(n * (r.rank + 1))));
	MUST(all.get() == sum);
	/* In place. */
	GOOD(HcclReduceScatter(src.at, src.el(n * r.rank), n, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, r.comm, r.stream));
	GOOD(HcclAllGather(src.el(n * r.rank), src.at, n, HCCL_DATA_TYPE_INT32, r.comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(src.get() == sum);
	return true;
}

static bool with_root(rank_of &r)
{
	const size_t n = sized(300001, 1003);

	for (uint32_t root = 0; root < ranks; root++) {
		const std::vector<uint16_t> mine = data_of<uint16_t>(r.rank, n, 30 + root),
					    roots = data_of<uint16_t>(root, n, 30 + root),
					    sum = reduced<uint16_t>(n, 30 + root, HCCL_REDUCE_SUM);
		buffer<uint16_t> buf(mine), src(mine), dst(n), part(n / ranks);

		GOOD(HcclBroadcast(buf.at, n, HCCL_DATA_TYPE_UINT16, root, r.comm, r.stream));
		GOOD(HcclReduce(src.at, r.rank == root ? dst.at : nullptr, n, HCCL_DATA_TYPE_UINT16, HCCL_REDUCE_SUM,
				root, r.comm, r.stream));
		GOOD(HcclScatter(r.rank == root ? src.at : nullptr, part.at, n / ranks, HCCL_DATA_TYPE_UINT16, root,
				 r.comm, r.stream));
		GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
		MUST(buf.get() == roots);
		MUST(r.rank != root || dst.get() == sum);
		const auto from = roots.begin() + long(n / ranks * r.rank);
		MUST(part.get() == std::vector<uint16_t>(from, from + long(n / ranks)));
	}
	return true;
}

/* Number of elements that rank a sends to rank b, all of one value. */
static size_t count_of(uint32_t a, uint32_t b)
{
	return (a * 5 + b * 3) % 7 * sized(20011, 501);
}

static bool all_to_all(rank_of &r)
{
	const size_t n = sized(70001, 701);
	std::vector<int32_t> mine(n * ranks), want(n * ranks);
	std::vector<uint64_t> counts[2], offsets[2];
	std::vector<uint8_t> out, in;

	for (size_t i = 0; i < mine.size(); i++) {
		mine[i] = int32_t(r.rank * 1000 + i / n);
		want[i] = int32_t(i / n * 1000 + r.rank);
	}
	for (uint32_t p = 0; p < ranks; p++) {
		counts[0].push_back(count_of(r.rank, p));
		counts[1].push_back(count_of(p, r.rank));
		offsets[0].push_back(out.size());
		offsets[1].push_back(in.size());
		out.insert(out.end(), count_of(r.rank, p), uint8_t(r.rank * 16 + p));
		in.insert(in.end(), count_of(p, r.rank), uint8_t(p * 16 + r.rank));
	}
	buffer<int32_t> src(mine), dst(n * ranks);
	buffer<uint8_t> give(out), take(in.size());
	GOOD(HcclAlltoAll(src.at, n, HCCL_DATA_TYPE_INT32, dst.at, n, HCCL_DATA_TYPE_INT32, r.comm, r.stream));
	GOOD(HcclAlltoAllV(give.at, counts[0].data(), offsets[0].data(), HCCL_DATA_TYPE_UINT8, take.at,
			   counts[1].data(), offsets[1].data(), HCCL_DATA_TYPE_UINT8, r.comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(dst.get() == want);
	MUST(take.get() == in);
	return true;
}

/* A ring: each sends to the right, then both directions at once, with two items to the same rank. */
static bool point_to_point(rank_of &r)
{
	const uint32_t right = (r.rank + 1) % ranks, left = (r.rank + ranks - 1) % ranks;
	const size_t n = sized(200001, 2001), few = 100;
	buffer<float> mine(data_of<float>(r.rank, n, 40)), got(n), one(n), two(few);
	HcclSendRecvItem items[] = {{HCCL_SEND, mine.at, n, HCCL_DATA_TYPE_FP32, right},
				    {HCCL_SEND, mine.at, few, HCCL_DATA_TYPE_FP32, right},
				    {HCCL_RECV, one.at, n, HCCL_DATA_TYPE_FP32, left},
				    {HCCL_RECV, two.at, few, HCCL_DATA_TYPE_FP32, left}};

	for (uint32_t turn = 0; turn < 2; turn++) { /* the even ranks send first */
		if (r.rank % 2 == turn)
			GOOD(HcclSend(mine.at, n, HCCL_DATA_TYPE_FP32, right, r.comm, r.stream));
		else
			GOOD(HcclRecv(got.at, n, HCCL_DATA_TYPE_FP32, left, r.comm, r.stream));
	}
	GOOD(HcclBatchSendRecv(items, 4, r.comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	const std::vector<float> want = data_of<float>(left, n, 40);
	MUST(got.get() == want);
	MUST(one.get() == want);
	MUST(two.get() == std::vector<float>(want.begin(), want.begin() + long(few)));
	return true;
}

/* Operations in two streams are ordered without an event of the caller; a barrier; operations without data. */
static bool streams(rank_of &r)
{
	const size_t n = 5000;
	buffer<int32_t> a(std::vector<int32_t>(n, 1));

	for (int i = 0; i < 3; i++)
		GOOD(HcclAllReduce(a.at, a.at, n, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, r.comm,
				   i % 2 ? r.other : r.stream));
	GOOD(HcclBarrier(r.comm, r.other));
	GOOD(HcclAllReduce(a.at, a.at, 0, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, r.comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.other, 60000));
	MUST(a.get() == std::vector<int32_t>(n, int32_t(ranks * ranks * ranks)));
	return true;
}

static bool refusals(rank_of &r)
{
	buffer<float> a(10);
	const auto f32 = HCCL_DATA_TYPE_FP32;
	const auto sum = HCCL_REDUCE_SUM;
	HcclSendRecvItem self = {HCCL_SEND, a.at, 1, f32, r.rank};
	HcclConfigValue value = {0};
	HcclResult error = HCCL_E_RESERVED;
	char name[COMM_NAME_MAX_LENGTH];
	uint32_t n = 0;

	MUST(HcclAllReduce(nullptr, a.at, 1, f32, sum, r.comm, r.stream) == HCCL_E_PTR);
	MUST(HcclAllReduce(nullptr, nullptr, 0, f32, sum, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclReduceScatter(a.at, a.at, 0, f32, sum, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclAllGather(nullptr, nullptr, 0, f32, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclBroadcast(nullptr, 0, f32, 99, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclScatter(nullptr, nullptr, 0, f32, 0, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclReduce(nullptr, nullptr, 0, f32, sum, 0, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclSend(nullptr, 0, f32, 0, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclRecv(nullptr, 0, f32, 0, r.comm, r.stream) == HCCL_SUCCESS);
	MUST(HcclAllReduce(a.at, a.at, 1, f32, sum, &r, r.stream) == HCCL_E_PTR);
	MUST(HcclAllReduce(a.at, a.at, 1, f32, sum, r.comm, nullptr) == HCCL_E_PTR);
	MUST(HcclAllReduce(a.at, a.at, 1, HCCL_DATA_TYPE_RESERVED, sum, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAllReduce(a.at, a.at, 1, f32, HCCL_REDUCE_RESERVED, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAllReduce(a.at, a.at, 1, HCCL_DATA_TYPE_HIF8, sum, r.comm, r.stream) == HCCL_E_NOT_SUPPORT);
	MUST(HcclAllReduce(a.at, a.at, ~0ull, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclBroadcast(a.at, 1, f32, ranks, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclBatchSendRecv(&self, 1, r.comm, r.stream) == HCCL_E_PARA);
	MUST(r.rank == 0 || HcclReduceScatter(a.at, a.at, 1, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAlltoAll(a.at, 1, f32, a.at, 1, f32, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAlltoAll(nullptr, 1, f32, a.at, 1, f32, r.comm, r.stream) == HCCL_E_PTR);
	GOOD(HcclAlltoAll(nullptr, 0, f32, nullptr, 0, f32, r.comm, r.stream));
	MUST(HcclCommSuspend(r.comm) == HCCL_E_NOT_SUPPORT);
	GOOD(HcclGetCommAsyncError(r.comm, &error));
	MUST(error == HCCL_SUCCESS);
	GOOD(HcclGetRankSize(r.comm, &n));
	MUST(n == ranks);
	GOOD(HcclGetRankId(r.comm, &n));
	MUST(n == r.rank);
	GOOD(HcclGetCommName(r.comm, name));
	MUST(!strcmp(name, "the group"));
	GOOD(HcclGetConfig(HCCL_DETERMINISTIC, &value));
	MUST(value.value == 1);
	MUST(!strcmp(HcclGetErrorString(HCCL_E_OOM), "out of memory") && *HcclGetErrorString(HcclResult(999)));
	return true;
}

/* ---- the group in processes -------------------------------------------------------------------------------- */

/* Shared by the ranks: the root info when it is available, and progress counters. */
struct shared {
	HcclRootInfo root;
	std::uint32_t rooted, joined, go;
};
static shared *common;

static std::uint32_t read_word(const std::uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Replaces until(), which uses cmocka's asserts: this is a child. */
static bool eventually(const std::function<bool()> &done)
{
	for (int tries = 0; tries < 60000; tries++, usleep(1000))
		if (done())
			return true;
	return false;
}

static bool join_group(rank_of &r, uint32_t size = ranks)
{
	HcclCommConfig config;

	if (r.rank == 0) {
		GOOD(HcclGetRootInfo(&common->root));
		__atomic_store_n(&common->rooted, 1, __ATOMIC_RELEASE);
	}
	MUST(eventually([] { return read_word(&common->rooted) != 0; }));
	HcclCommConfigInit(&config);
	config.hcclBufferSize = 1;
	strcpy(config.hcclCommName, "the group");
	return HcclCommInitRootInfoConfig(size, &common->root, r.rank, &config, &r.comm) == HCCL_SUCCESS;
}

static bool open_rank(rank_of &r)
{
	MUST(eventually([&] { return !aclrtSetDevice(r.device); })); /* until the server accepts the next client */
	GOOD(aclrtCreateStream(&r.stream));
	GOOD(aclrtCreateStream(&r.other));
	return true;
}

using work = bool (*)(rank_of &);

static bool member(uint32_t rank, work what, int32_t device = 0)
{
	rank_of r{rank, device};

	MUST(open_rank(r));
	MUST(join_group(r));
	MUST(what(r));
	GOOD(HcclCommDestroy(r.comm));
	MUST(HcclCommDestroy(r.comm) == HCCL_E_PTR);
	GOOD(aclrtDestroyStream(r.stream));
	GOOD(aclrtDestroyStream(r.other));
	GOOD(aclrtResetDevice(device));
	return true;
}

static pid_t start(const std::string &with, const std::function<bool()> &run)
{
	setenv("USDMA_DEVICES", with.c_str(), 1);
	const pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(run() ? 0 : 1);
}

static pid_t start(uint32_t rank, work what)
{
	return start(devices.at(rank), [=] { return member(rank, what); });
}

static std::vector<pid_t> start_all(work what)
{
	std::vector<pid_t> pids;

	common->rooted = common->joined = common->go = 0;
	for (uint32_t rank = 0; rank < ranks; rank++)
		pids.push_back(start(rank, what));
	return pids;
}

static int status_of(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static bool everything(rank_of &r)
{
	return all_reduce(r) && scatter_and_gather(r) && with_root(r) && all_to_all(r) && point_to_point(r) &&
	       streams(r) && refusals(r);
}

static void in_processes(void **)
{
	for (pid_t pid : start_all(everything))
		assert_int_equal(status_of(pid), 0);
}

/* Two processes with two ranks each: each device has its own imports. */
static bool two_members(uint32_t first)
{
	bool second = false;
	std::thread thread([&] { second = member(first + 1, everything, 1); });
	const bool both = member(first, everything);

	thread.join();
	return both && second;
}

static void in_two_processes(void **)
{
	std::vector<pid_t> pids;

	common->rooted = 0;
	for (uint32_t i = 0; i < ranks; i += 2)
		pids.push_back(start(devices.at(i) + "," + devices.at(i + 1), [=] { return two_members(i); }));
	for (pid_t pid : pids)
		assert_int_equal(status_of(pid), 0);
}

/* The other ranks wait for a rank that is killed, or late: they get an error, and their streams stop. */
static bool is_missed(rank_of &r, HcclResult why)
{
	buffer<float> a(100000);
	HcclResult error = HCCL_SUCCESS;
	const bool victim = r.rank == common->go;

	if (!victim)
		GOOD(HcclAllReduce(a.at, a.at, 100000, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.stream));
	__atomic_add_fetch(&common->joined, 1, __ATOMIC_ACQ_REL);
	for (int s = 0; victim && s < 60; s++)
		sleep(1); /* until it is killed */
	MUST(aclrtSynchronizeStreamWithTimeout(r.stream, 60000) != 0);
	GOOD(HcclGetCommAsyncError(r.comm, &error));
	MUST(error == why || error == HCCL_E_REMOTE);
	MUST(HcclAllReduce(a.at, a.at, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r.comm, r.other) == error);
	return true;
}

static bool misses_killed(rank_of &r)
{
	return is_missed(r, HCCL_E_REMOTE);
}

static bool misses_late(rank_of &r)
{
	return is_missed(r, HCCL_E_TIMEOUT);
}

static void lose(uint32_t victim, work what)
{
	std::vector<pid_t> pids;

	common->rooted = common->joined = 0;
	common->go = victim;
	for (uint32_t rank = 0; rank < ranks; rank++)
		pids.push_back(start(rank, what));
	until("all have joined", [] { return read_word(&common->joined) == ranks; });
	if (what == misses_killed)
		kill(pids[victim], SIGKILL);
	for (uint32_t rank = 0; rank < ranks; rank++)
		if (rank != victim)
			assert_int_equal(status_of(pids[rank]), 0);
	kill(pids[victim], SIGKILL);
	assert_true(WIFSIGNALED(status_of(pids[victim])));
}

static void a_rank_is_killed(void **)
{
	lose(0, misses_killed); /* the rank that accepts connections */
	lose(ranks - 1, misses_killed);
}

static void a_rank_is_late(void **)
{
	setenv("HCCL_EXEC_TIMEOUT", "1", 1);
	lose(1, misses_late);
	unsetenv("HCCL_EXEC_TIMEOUT");
}

/* ---- the group in threads ---------------------------------------------------------------------------------- */

static void in_threads(void **)
{
	std::vector<int32_t> numbers(ranks);
	std::vector<HcclComm> comms(ranks);
	std::vector<std::thread> threads;
	std::vector<char> done(ranks);
	std::string list;

	for (const std::string &d : devices)
		list += (list.empty() ? "" : ",") + d;
	setenv("USDMA_DEVICES", list.c_str(), 1);
	for (uint32_t i = 0; i < ranks; i++)
		numbers[i] = int32_t(i);
	assert_int_equal(aclInit(nullptr), 0);
	assert_int_equal(HcclCommInitAll(ranks, numbers.data(), comms.data()), 0);
	for (uint32_t i = 0; i < ranks; i++)
		threads.emplace_back([&, i] {
			rank_of r{i, int32_t(i), comms[i]};
			const bool set = !aclrtSetDevice(int32_t(i)) && !aclrtCreateStream(&r.stream) &&
					 !aclrtCreateStream(&r.other);

			done[i] = set && all_reduce(r) && with_root(r) && all_to_all(r) && point_to_point(r) &&
				  streams(r);
			aclrtDestroyStream(r.stream);
			aclrtDestroyStream(r.other);
		});
	for (std::thread &t : threads)
		t.join();
	for (uint32_t i = 0; i < ranks; i++) {
		assert_true(done[i]);
		assert_int_equal(HcclCommDestroy(comms[i]), 0);
	}
}

/* ---- joining ------------------------------------------------------------------------------------------------- */

/* In this process, which has a device: invalid infos and ranks, and a group that no other rank joins. */
static void wrong_groups(void **)
{
	HcclRootInfo root = {}, wrong;
	HcclCommConfig config;
	HcclComm comm;

	assert_int_equal(aclrtSetDevice(0), 0);
	assert_int_equal(HcclGetRootInfo(nullptr), HCCL_E_PTR);
	assert_int_equal(HcclGetRootInfo(&root), 0);
	assert_int_equal(HcclCommInitRootInfo(2, &root, 2, &comm), HCCL_E_PARA);
	assert_int_equal(HcclCommInitRootInfo(0, &root, 0, &comm), HCCL_E_PARA);
	memset(&wrong, 'x', sizeof(wrong));
	assert_int_equal(HcclCommInitRootInfo(2, &wrong, 0, &comm), HCCL_E_PARA);
	wrong = root;
	wrong.internal[8] = char(wrong.internal[8] ^ 1); /* of another host */
	assert_int_equal(HcclCommInitRootInfo(2, &wrong, 0, &comm), HCCL_E_NOT_SUPPORT);
	memset(&config, 0, sizeof(config));
	assert_int_equal(HcclCommInitRootInfoConfig(1, &root, 0, &config, &comm), HCCL_E_PARA);
	HcclCommConfigInit(&config);
	config.hcclBufferSize = 0;
	assert_int_equal(HcclCommInitRootInfoConfig(1, &root, 0, &config, &comm), HCCL_E_PARA);
	setenv("HCCL_CONNECT_TIMEOUT", "1", 1);
	assert_int_equal(HcclCommInitRootInfo(2, &root, 0, &comm), HCCL_E_TIMEOUT);
	unsetenv("HCCL_CONNECT_TIMEOUT");
	assert_int_equal(HcclCommInitRootInfo(2, &root, 0, &comm), HCCL_E_TCP_CONNECT); /* used up */
	assert_int_equal(HcclGetRootInfo(&root), 0);
	assert_int_equal(HcclCommInitRootInfo(1, &root, 0, &comm), 0); /* a group of one */
	assert_int_equal(HcclCommDestroy(comm), 0);
	assert_int_equal(HcclCommDestroy(nullptr), HCCL_E_PTR);
}

/* The handle of a communicator that was destroyed is that of no other one. */
static void a_stale_handle(void **)
{
	HcclComm stale = nullptr, comm;
	HcclRootInfo root;
	uint32_t n;

	assert_int_equal(aclrtSetDevice(0), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(HcclGetRootInfo(&root), 0);
		assert_int_equal(HcclCommInitRootInfo(1, &root, 0, &comm), 0);
		assert_int_equal(HcclGetRankSize(comm, &n), 0);
		assert_int_equal(HcclGetRankSize(stale, &n), HCCL_E_PTR);
		assert_int_equal(HcclCommDestroy(stale), HCCL_E_PTR);
		assert_int_equal(HcclCommDestroy(comm), 0);
		stale = stale ? stale : comm;
	}
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(in_processes), cmocka_unit_test(in_two_processes),
				    cmocka_unit_test(a_rank_is_killed), cmocka_unit_test(a_rank_is_late),
				    /* From here on this process uses the library, and must not fork. */
				    cmocka_unit_test(in_threads), cmocka_unit_test(wrong_groups),
				    cmocka_unit_test(a_stale_handle)};
	std::string list = getenv("USDMA_DEVICES");

	seed(); /* before the forks */
	for (size_t at; (at = list.find(',')) != list.npos; list.erase(0, at + 1))
		devices.push_back(list.substr(0, at));
	devices.push_back(list);
	ranks = uint32_t(devices.size());
	common = static_cast<shared *>(
		mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	return cmocka_run_group_tests_name("hccl_collectives", tests, nullptr, nullptr);
}
