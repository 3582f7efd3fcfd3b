/* SPDX-License-Identifier: BSD-3-Clause */
/* libhccl's groups: how ranks meet and leave, what becomes of a group in which one fails, and what calls refuse. */
#include "tests/integration/hccl/group.h"

#include <atomic>
#include <sys/mman.h>
#include <sys/stat.h>

namespace {

constexpr auto f32 = HCCL_DATA_TYPE_FP32;
constexpr auto sum = HCCL_REDUCE_SUM;

/* Device memory of floats, all of one value. */
struct floats {
	explicit floats(size_t count, float value = 1) : n(count)
	{
		const std::vector<float> v(n, value);

		if (aclrtMalloc(&at, n * 4, ACL_MEM_MALLOC_NORMAL_ONLY) ||
		    aclrtMemcpy(at, n * 4, v.data(), n * 4, ACL_MEMCPY_HOST_TO_DEVICE))
			at = nullptr;
	}
	~floats() { aclrtFree(at); }
	floats(const floats &) = delete;
	floats &operator=(const floats &) = delete;
	bool are(float value) const
	{
		std::vector<float> v(n);

		return !aclrtMemcpy(v.data(), n * 4, at, n * 4, ACL_MEMCPY_DEVICE_TO_HOST) &&
		       v == std::vector<float>(n, value);
	}
	size_t n;
	void *at = nullptr;
};

bool sums_up(const rank_of &r, HcclComm comm, float want, size_t n = 100)
{
	floats a(n);

	GOOD(HcclAllReduce(a.at, a.at, n, f32, sum, comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(a.are(want));
	return true;
}

/* The texts of the thread's last failed call: the code's, the call's name and the cause. */
bool says(HcclResult code, const char *call, const char *why)
{
	const std::string text = HcclGetErrorString(code);
	const char *recent = aclGetRecentErrMsg();
	const bool found = text.find(call) != text.npos && text.find(why) != text.npos && recent &&
			   std::string(recent).find(why) != std::string::npos;

	if (!found)
		fprintf(stderr, "# %d: \"%s\", \"%s\": no %s, %s\n", code, text.c_str(), recent ? recent : "", call,
			why);
	return found;
}

/* ---- what calls refuse ------------------------------------------------------------------------------------ */

bool refuses_arguments(rank_of &r)
{
	floats a(100);
	HcclSendRecvItem self = {HCCL_SEND, a.at, 1, f32, r.rank};
	const uint64_t counts[64] = {}, many[64] = {1000, 1000, 1000, 1000};
	char pageable[64];
	void *pinned;

	MUST(HcclAllReduce(nullptr, a.at, 1, f32, sum, r.comm, r.stream) == HCCL_E_PTR);
	MUST(says(HCCL_E_PTR, "HcclAllReduce", "sendBuf is NULL"));
	MUST(HcclAllReduce(a.at, a.at, 1, f32, sum, &r, r.stream) == HCCL_E_PTR);
	MUST(says(HCCL_E_PTR, "HcclAllReduce", "communicator"));
	MUST(HcclAllReduce(a.at, a.at, 1, f32, sum, r.comm, nullptr) == HCCL_E_PTR);
	MUST(HcclAllReduce(a.at, a.at, 1, HCCL_DATA_TYPE_RESERVED, sum, r.comm, r.stream) == HCCL_E_NOT_SUPPORT);
	MUST(says(HCCL_E_NOT_SUPPORT, "HcclAllReduce", "data type 255"));
	MUST(HcclAllReduce(a.at, a.at, 1, f32, HCCL_REDUCE_RESERVED, r.comm, r.stream) == HCCL_E_NOT_SUPPORT);
	MUST(HcclAllReduce(a.at, a.at, 1, HCCL_DATA_TYPE_HIF8, sum, r.comm, r.stream) == HCCL_E_NOT_SUPPORT);
	MUST(HcclAllReduce(a.at, a.at, ~0ull, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAllReduce(a.at, a.at, 10000, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
	MUST(says(HCCL_E_PARA, "HcclAllReduce", "exceeds its block"));
	GOOD(aclrtMallocHost(&pinned, 64));
	for (void *other :
	     {static_cast<void *>(pageable), pinned, static_cast<void *>(static_cast<char *>(a.at) + 2)}) {
		MUST(HcclAllReduce(other, a.at, 1, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
		MUST(HcclAllReduce(a.at, other, 1, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
	}
	GOOD(aclrtFreeHost(pinned));
	MUST(HcclBroadcast(a.at, 1, f32, ranks, r.comm, r.stream) == HCCL_E_PARA);
	MUST(says(HCCL_E_PARA, "HcclBroadcast", "root is"));
	MUST(HcclBatchSendRecv(&self, 1, r.comm, r.stream) == HCCL_E_PARA); /* and does not receive it */
	MUST(HcclSend(a.at, 1, f32, r.rank, r.comm, r.stream) == HCCL_E_PARA);
	MUST(r.rank == 0 || HcclReduceScatter(a.at, a.at, 1, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclReduceScatterV(a.at, counts, counts, a.at, 1, f32, sum, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAllGatherV(a.at, 1, a.at, counts, counts, f32, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAllGatherV(a.at, 1000, a.at, many, counts, f32, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAllGatherV(a.at, 1, a.at, nullptr, counts, f32, r.comm, r.stream) == HCCL_E_PTR);
	MUST(HcclAlltoAll(a.at, 1, f32, a.at, 1, f32, r.comm, r.stream) == HCCL_E_PARA);
	MUST(HcclAlltoAll(nullptr, 1, f32, a.at, 1, f32, r.comm, r.stream) == HCCL_E_PTR);
	MUST(HcclAlltoAllVC(a.at, nullptr, f32, a.at, f32, r.comm, r.stream) == HCCL_E_PTR);
	MUST(HcclCommSetMemoryRange(r.comm, a.at, 1, 0, 0) == HCCL_E_NOT_SUPPORT);
	return true;
}

/* Nothing to do is no error, whatever the other arguments. */
bool accepts_nothing(rank_of &r)
{
	GOOD(HcclAllReduce(nullptr, nullptr, 0, f32, sum, r.comm, r.stream));
	GOOD(HcclReduceScatter(nullptr, nullptr, 0, f32, sum, r.comm, r.stream));
	GOOD(HcclAllGather(nullptr, nullptr, 0, f32, r.comm, r.stream));
	GOOD(HcclBroadcast(nullptr, 0, f32, 99, r.comm, r.stream));
	GOOD(HcclScatter(nullptr, nullptr, 0, f32, 0, r.comm, r.stream));
	GOOD(HcclReduce(nullptr, nullptr, 0, f32, sum, 0, r.comm, r.stream));
	GOOD(HcclSend(nullptr, 0, f32, 0, r.comm, r.stream));
	GOOD(HcclRecv(nullptr, 0, f32, 0, r.comm, r.stream));
	GOOD(HcclAlltoAll(nullptr, 0, f32, nullptr, 0, f32, r.comm, nullptr));
	GOOD(HcclAlltoAll(nullptr, 0, HCCL_DATA_TYPE_RESERVED, nullptr, 0, f32, nullptr, nullptr));
	GOOD(HcclBatchSendRecv(nullptr, 0, nullptr, nullptr));
	return true;
}

/* A stream of another context, a dead one: the call fails, the group does not. */
bool refuses_streams(rank_of &r)
{
	floats a(100);
	aclrtContext own, other;
	aclrtStream foreign, dead;

	GOOD(aclrtGetCurrentContext(&own));
	GOOD(aclrtCreateContext(&other, r.device));
	GOOD(aclrtCreateStream(&foreign));
	GOOD(aclrtSetCurrentContext(own));
	GOOD(aclrtCreateStream(&dead));
	GOOD(aclrtDestroyStream(dead));
	for (aclrtStream s : {foreign, dead}) {
		MUST(HcclAllReduce(a.at, a.at, 100, f32, sum, r.comm, s) == HCCL_E_RUNTIME);
		MUST(says(HCCL_E_RUNTIME, "HcclAllReduce", "returned 1070"));
	}
	GOOD(aclrtDestroyContext(other));
	GOOD(aclrtSetCurrentContext(own));
	return true;
}

bool reports(rank_of &r)
{
	HcclConfigValue value = {0};
	HcclCommStatus status = HCCL_COMM_STATUS_INVALID;
	HcclOpExpansionMode mode;
	HcclResult error = HCCL_E_RESERVED;
	HcclComm found = nullptr;
	char name[COMM_NAME_MAX_LENGTH];
	uint32_t n = 0;

	GOOD(HcclGetRankSize(r.comm, &n));
	MUST(n == ranks);
	GOOD(HcclGetRankId(r.comm, &n));
	MUST(n == r.rank);
	GOOD(HcclGetCommName(r.comm, name));
	MUST(!strcmp(name, "the group"));
	GOOD(HcclCommGetHandleWithName(name, &found));
	MUST(found == r.comm);
	MUST(HcclCommGetHandleWithName("no group", &found) == HCCL_E_PARA);
	GOOD(HcclCommGetStatus(name, &status));
	MUST(status == HCCL_COMM_STATUS_READY);
	GOOD(HcclGetConfig(HCCL_DETERMINISTIC, &value));
	MUST(value.value == 1);
	GOOD(HcclGetCommConfig(r.comm, HCCL_DETERMINISTIC, &value));
	MUST(HcclSetCommConfig(r.comm, HCCL_CONFIG_RESERVED, value) == HCCL_E_PARA);
	GOOD(HcclConfigGetInfo(r.comm, HCCL_CONFIG_TYPE_OP_EXPANSION_MODE, sizeof(mode), &mode));
	MUST(mode == HCCL_OP_EXPANSION_MODE_HOST_TS);
	MUST(HcclConfigGetInfo(r.comm, HCCL_CONFIG_TYPE_HCCL_ALGO, sizeof(mode), &mode) == HCCL_E_NOT_SUPPORT);
	MUST(HcclGetCommConfigCapability() > HCCL_COMM_CONFIG_BUFFER_NAME);
	MUST(*HcclGetErrorString(HcclResult(999)) && !strcmp(HcclGetErrorString(HCCL_E_OOM), "out of memory"));
	GOOD(HcclGetCommAsyncError(r.comm, &error));
	MUST(error == HCCL_SUCCESS);
	return true;
}

bool windows(rank_of &r)
{
	floats a(1000);
	HcclCommSymWindow w = nullptr, again = nullptr;
	size_t offset = 0;
	char *const at = static_cast<char *>(a.at);

	MUST(HcclCommSymWinRegister(r.comm, at, 1000, &w, 0) == HCCL_E_PARA);
	MUST(HcclCommSymWinRegister(r.comm, at, 8192, &w, 1) == HCCL_E_PARA);
	GOOD(HcclCommSymWinRegister(r.comm, at, 1000, &w, HCCL_WIN_COLL_SYMMETRIC));
	MUST(HcclCommSymWinRegister(r.comm, at + 999, 10, &again, 1) == HCCL_E_PARA);
	GOOD(HcclCommSymWinGet(r.comm, at + 100, 900, &again, &offset));
	MUST(again == w && offset == 100);
	MUST(HcclCommSymWinGet(r.comm, at + 100, 901, &again, &offset) == HCCL_E_NOT_FOUND);
	GOOD(HcclCommSymWinDeregister(w));
	MUST(HcclCommSymWinDeregister(w) == HCCL_E_PARA);
	return true;
}

/* After all refusals the group works. */
bool refusals(rank_of &r)
{
	return refuses_arguments(r) && accepts_nothing(r) && refuses_streams(r) && reports(r) && windows(r) &&
	       sums_up(r, r.comm, float(ranks));
}

void refused_calls_leave_the_group(void **)
{
	in_group(refusals);
}

/* What A2 and A3 have not: hicann/hccl's pages of HcclAllReduce and HcclReduceScatterV. */
bool product_rules(rank_of &r)
{
	floats a(100);
	const uint64_t zero[64] = {};
	const bool a2 = !strcmp(getenv("USDMA_PROFILE"), "910B");
	HcclCommSymWindow w;

	for (HcclDataType t : {HCCL_DATA_TYPE_UINT8, HCCL_DATA_TYPE_FP64, HCCL_DATA_TYPE_UINT64})
		MUST(HcclAllReduce(a.at, a.at, 1, t, sum, r.comm, r.stream) == HCCL_E_NOT_SUPPORT);
	for (HcclDataType t : {HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_BFP16})
		MUST(HcclAllReduce(a.at, a.at, 1, t, HCCL_REDUCE_PROD, r.comm, r.stream) == HCCL_E_NOT_SUPPORT);
	MUST(HcclBroadcast(a.at, 1, HCCL_DATA_TYPE_INT128, 0, r.comm, r.stream) == HCCL_E_NOT_SUPPORT);
	MUST(HcclReduceScatterV(a.at, zero, zero, nullptr, 0, f32, HCCL_REDUCE_PROD, r.comm, r.stream) ==
	     HCCL_E_NOT_SUPPORT);
	MUST((HcclReduceScatterV(a.at, zero, zero, nullptr, 0, HCCL_DATA_TYPE_INT64, sum, r.comm, r.stream) ==
	      HCCL_E_NOT_SUPPORT) == a2);
	MUST((HcclCommSymWinRegister(r.comm, a.at, 4, &w, 1) == HCCL_E_NOT_SUPPORT) == a2);
	GOOD(HcclBroadcast(a.at, 1, HCCL_DATA_TYPE_UINT8, 0, r.comm, r.stream));
	return sums_up(r, r.comm, float(ranks));
}

void products_have_rules(void **)
{
	for (const char *product : {"910B", "910C"}) {
		setenv("USDMA_PROFILE", product, 1);
		in_group(product_rules);
	}
	unsetenv("USDMA_PROFILE");
}

/* HCCL_BUFFSIZE MiB; with a product's profile twice that, by default 2 x 200, which these devices have not. */
bool takes_memory(rank_of &r)
{
	size_t before = 0, after = 0, all;
	HcclComm comm = nullptr;

	MUST(open_rank(r));
	GOOD(aclrtGetMemInfo(ACL_HBM_MEM, &before, &all));
	setenv("HCCL_BUFFSIZE", "12", 1);
	GOOD(HcclGetRootInfo(&common->root));
	GOOD(HcclCommInitRootInfo(1, &common->root, 0, &comm));
	GOOD(aclrtGetMemInfo(ACL_HBM_MEM, &after, &all));
	const size_t mib = (before - after) >> 20;
	MUST(mib >= 11 && mib <= 14);
	GOOD(HcclCommDestroy(comm));
	return close_rank(r);
}

bool takes_more_memory(rank_of &r)
{
	HcclComm comm = nullptr;

	setenv("USDMA_PROFILE", "910B", 1);
	MUST(open_rank(r));
	GOOD(HcclGetRootInfo(&common->root));
	MUST(HcclCommInitRootInfo(1, &common->root, 0, &comm) == HCCL_E_OOM);
	return close_rank(r);
}

void buffers_have_the_size(void **)
{
	for (work what : {work(takes_memory), work(takes_more_memory)})
		assert_int_equal(status_of(start(devices[0],
						 [=] {
							 rank_of r;

							 return what(r);
						 })),
				 0);
}

/* ---- losses -------------------------------------------------------------------------------------------------- */

/* The sum of all ranks; to replay. */
bool record_sum(const rank_of &r, const floats &a, aclmdlRI *graph)
{
	GOOD(aclmdlRICaptureBegin(r.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	GOOD(HcclAllReduce(a.at, a.at, a.n, f32, sum, r.comm, r.stream));
	GOOD(aclmdlRICaptureEnd(r.stream, graph));
	return true;
}

/* As a call, or as the replay of a graph. */
bool begin_sum(const rank_of &r, const floats &a, bool recorded)
{
	aclmdlRI graph;

	if (!recorded) {
		GOOD(HcclAllReduce(a.at, a.at, a.n, f32, sum, r.comm, r.stream));
		return true;
	}
	MUST(record_sum(r, a, &graph));
	GOOD(aclmdlRIExecuteAsync(graph, r.stream));
	return true;
}

/* It keeps copies of this process's sockets, but not of the test's output. */
pid_t child_with_copies()
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (;;)
		pause();
}

/* The others wait for the rank `go`, which does nothing, in two streams: both stop, with an error and its cause. */
bool misses(rank_of &r, HcclResult why, bool recorded)
{
	floats a(100000);
	HcclResult error = HCCL_SUCCESS;

	MUST(r.rank == common->go ||
	     (begin_sum(r, a, recorded) && !HcclAllReduce(a.at, a.at, 1, f32, sum, r.comm, r.other)));
	if (r.rank == common->go)
		common->child = child_with_copies();
	count_up(&common->joined);
	for (int s = 0; r.rank == common->go && s < 60; s++)
		sleep(1); /* until it is killed */
	for (aclrtStream stream : {r.other, r.stream})
		MUST(aclrtSynchronizeStreamWithTimeout(stream, 60000) == ACL_ERROR_RT_STREAM_ABORT);
	GOOD(HcclGetCommAsyncError(r.comm, &error));
	MUST(error == why || error == HCCL_E_REMOTE);
	const std::string text = HcclGetErrorString(error);
	MUST(text.find(error == HCCL_E_TIMEOUT ? "not complete" : "rank ") != text.npos);
	MUST(HcclAllReduce(a.at, a.at, 1, f32, sum, r.comm, r.other) == error);
	return true;
}

bool misses_killed(rank_of &r)
{
	return misses(r, HCCL_E_REMOTE, false);
}

bool misses_in_graph(rank_of &r)
{
	return misses(r, HCCL_E_REMOTE, true);
}

bool misses_late(rank_of &r)
{
	return misses(r, HCCL_E_TIMEOUT, false);
}

/*
 * All ranks sum again and again, until one is lost. One that goes on after the others ended may find that their memory
 * is no longer there before it hears of them.
 */
bool sums_until_it_fails(rank_of &r)
{
	floats a(30000);
	HcclResult ret = HCCL_SUCCESS, error = HCCL_SUCCESS;
	aclError code = ACL_SUCCESS;

	for (int turn = 0; !ret && !code; turn++) {
		ret = HcclAllReduce(a.at, a.at, a.n, f32, HCCL_REDUCE_MAX, r.comm, r.stream);
		if (!ret)
			code = aclrtSynchronizeStreamWithTimeout(r.stream, 60000);
		if (turn == 2)
			count_up(&common->joined);
	}
	MUST(ret || code == ACL_ERROR_RT_STREAM_ABORT || (r.rank == common->go && code == ACL_ERROR_RT_SYS_DMA));
	MUST(eventually([&] { return HcclGetCommAsyncError(r.comm, &error) || error; }));
	MUST(error == HCCL_E_REMOTE || error == HCCL_E_TIMEOUT || (r.rank == common->go && error == HCCL_E_RUNTIME));
	MUST(!ret || ret == error);
	MUST(*HcclGetErrorString(error));
	MUST(HcclAllReduce(a.at, a.at, 1, f32, sum, r.comm, r.other) == error);
	return true;
}

/* Its streams may have failed. */
bool comes_back(uint32_t rank, work what)
{
	rank_of r{rank};

	MUST(open_rank(r) && join_group(r) && what(r));
	GOOD(HcclCommDestroy(r.comm));
	GOOD(aclrtResetDeviceForce(r.device));
	return true;
}

/* The signal stops or kills this rank; goes_on: it continues after the others ended, and gets an error as they did. */
void lose(uint32_t victim, work what, int signal, bool goes_on = false)
{
	common->go = victim;
	const std::vector<pid_t> pids = start_all(
		[=](uint32_t rank) { return goes_on && rank == victim ? comes_back(rank, what) : member(rank, what); });

	until("all have joined", [] { return read_word(&common->joined) == ranks; });
	kill(pids[victim], signal);
	const time_t at = time(nullptr);
	for (uint32_t rank = 0; rank < ranks; rank++)
		if (rank != victim)
			assert_int_equal(status_of(pids[rank]), 0);
	if (getenv("USDMA_TEST_LIMITS"))
		assert_in_range(time(nullptr) - at, 0, 20);
	if (common->child)
		kill(std::exchange(common->child, 0), SIGKILL);
	kill(pids[victim], goes_on ? SIGCONT : SIGKILL);
	const int status = status_of(pids[victim]);
	assert_true(goes_on ? status == 0 : WIFSIGNALED(status));
}

/* Rank 0 accepts connections. */
void a_rank_is_killed(void **)
{
	lose(0, misses_killed, SIGKILL);
	lose(ranks - 1, misses_killed, SIGKILL);
}

void each_rank_is_killed(void **)
{
	for (uint32_t victim = 0; victim < ranks; victim++) {
		lose(victim, misses_killed, SIGKILL);
		lose(victim, misses_in_graph, SIGKILL);
	}
}

void a_rank_is_killed_in_a_graph(void **)
{
	lose(ranks - 1, misses_in_graph, SIGKILL);
}

/* It is stopped: its sockets stay open. */
void a_rank_is_late(void **)
{
	setenv("HCCL_EXEC_TIMEOUT", "1", 1);
	for (uint32_t victim = 0; victim < ranks; victim++)
		lose(victim, misses_late, SIGSTOP);
	unsetenv("HCCL_EXEC_TIMEOUT");
}

/* In the midst of its work. */
void each_rank_is_killed_at_work(void **)
{
	for (uint32_t victim = 0; victim < ranks; victim++)
		lose(victim, sums_until_it_fails, SIGKILL);
}

void each_rank_is_stopped_at_work(void **)
{
	setenv("HCCL_EXEC_TIMEOUT", "3", 1);
	for (uint32_t victim = 0; victim < ranks; victim++)
		for (bool goes_on : {false, true})
			lose(victim, sums_until_it_fails, SIGSTOP, goes_on);
	unsetenv("HCCL_EXEC_TIMEOUT");
}

/* A copy of rank 0's device fails, before or after its monitor sees it: no rank takes what it has for the sum. */
bool sees_failure(rank_of &r, bool recorded)
{
	floats a(1 << 20);
	HcclResult error = HCCL_SUCCESS;

	/* The group may have failed by now. */
	const bool begun = begin_sum(r, a, recorded);
	const aclError code = aclrtSynchronizeStreamWithTimeout(r.stream, 60000);
	MUST(!begun || code == ACL_ERROR_RT_STREAM_ABORT || (!r.rank && code == ACL_ERROR_RT_SYS_DMA));
	MUST(eventually([&] { return HcclGetCommAsyncError(r.comm, &error) || error; }));
	MUST(error == (r.rank ? HCCL_E_REMOTE : HCCL_E_RUNTIME));
	count_up(&common->joined);
	return eventually([] { return read_word(&common->joined) == ranks; });
}

bool sees_failure_of_call(rank_of &r)
{
	return sees_failure(r, false);
}

bool sees_failure_of_replay(rank_of &r)
{
	return sees_failure(r, true);
}

void a_copy_fails(void **)
{
	const std::vector<std::string> given = devices;

	/* A server's device has no access to one of another kind. */
	devices.assign(ranks, "sim:mem=64M:engines=1:channels=4");
	devices[0] += ":faults=fail@9";
	for (work what : {sees_failure_of_call, sees_failure_of_replay})
		for (pid_t pid : start_all([=](uint32_t rank) { return comes_back(rank, what); }))
			assert_int_equal(status_of(pid), 0);
	devices = given;
}

/* ---- joining ------------------------------------------------------------------------------------------------- */

/* One rank does not come, or is killed while the others wait for it: the limit is the connection's. */
bool joins_in_vain(uint32_t rank)
{
	rank_of r{rank};
	HcclCommConfig config;

	MUST(open_rank(r));
	MUST(share_root(r));
	set_config(&config);
	count_up(&common->joined);
	const HcclResult ret = HcclCommInitRootInfoConfig(ranks, &common->root, rank, &config, &r.comm);
	MUST(ret == HCCL_E_TIMEOUT || ret == HCCL_E_REMOTE || ret == HCCL_E_TCP_CONNECT);
	MUST(says(ret, "HcclCommInitRootInfoConfig", ret == HCCL_E_TCP_CONNECT ? "ended" : "join"));
	return close_rank(r);
}

void a_rank_does_not_come(void **)
{
	setenv("HCCL_CONNECT_TIMEOUT", "1", 1);
	for (uint32_t late = 0; late < ranks; late += ranks - 1) {
		run_all([=](uint32_t rank) {
			if (rank != late)
				return joins_in_vain(rank);
			rank_of r{rank};
			MUST(open_rank(r));
			return share_root(r) && eventually([] { return read_word(&common->joined) == ranks - 1; }) &&
			       (rank || (sleep(2), true)); /* the root info's process stays */
		});
	}
	unsetenv("HCCL_CONNECT_TIMEOUT");
}

/* Sockets of the group's name: the one that listens, and one for each rank that has connected. */
unsigned connections()
{
	const char *const name = common->root.internal + 40;
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, name) != nullptr;
	if (f)
		fclose(f);
	return n;
}

/* The last rank never comes, one that waits is killed: the others need not wait until the time limit. */
void a_joining_rank_is_killed(void **)
{
	setenv("HCCL_CONNECT_TIMEOUT", "100", 1);
	for (uint32_t victim = 0; victim + 1 < ranks; victim++) {
		common->rooted = common->joined = 0;
		std::vector<pid_t> pids;
		for (uint32_t rank = 0; rank + 1 < ranks; rank++)
			pids.push_back(start(devices.at(rank), [=] { return joins_in_vain(rank); }));
		until("all wait", [] { return read_word(&common->joined) == ranks - 1 && connections() == ranks - 1; });
		kill(pids[victim], SIGKILL);
		for (uint32_t rank = 0; rank + 1 < ranks; rank++)
			assert_true(rank == victim ? WIFSIGNALED(status_of(pids[rank])) : status_of(pids[rank]) == 0);
	}
	unsetenv("HCCL_CONNECT_TIMEOUT");
}

/* One is stopped, joins last, and the group works. */
bool joins_late(uint32_t rank)
{
	rank_of r{rank};
	HcclCommConfig config;

	MUST(open_rank(r));
	MUST(share_root(r));
	if (rank == common->go)
		GOOD(raise(SIGSTOP));
	set_config(&config);
	GOOD(HcclCommInitRootInfoConfig(ranks, &common->root, rank, &config, &r.comm));
	MUST(sums_up(r, r.comm, float(ranks)));
	GOOD(HcclCommDestroy(r.comm));
	return close_rank(r);
}

void each_rank_joins_late(void **)
{
	setenv("HCCL_CONNECT_TIMEOUT", "60", 1);
	for (uint32_t late = 0; late < ranks; late++) {
		int status = 0;

		common->go = late;
		const std::vector<pid_t> pids = start_all(joins_late);
		assert_int_equal(waitpid(pids[late], &status, WUNTRACED), pids[late]);
		assert_true(WIFSTOPPED(status));
		sleep(2);
		for (uint32_t rank = 0; rank < ranks; rank++)
			if (rank != late)
				assert_int_equal(waitpid(pids[rank], &status, WNOHANG), 0);
		kill(pids[late], SIGCONT);
		for (pid_t pid : pids)
			assert_int_equal(status_of(pid), 0);
	}
	unsetenv("HCCL_CONNECT_TIMEOUT");
}

/* ---- rank tables ------------------------------------------------------------------------------------------------ */

/* Of its own for each test program that runs at the same time: the table names the group. */
std::string table_text(const char *version, uint32_t n)
{
	const std::string server = "node_" + std::to_string(getpid());
	std::string list;

	for (uint32_t i = 0; i < n; i++)
		list += std::string(i ? ", " : "") + "{\"device_id\": \"" + std::to_string(i) +
			"\", \"device_ip\": \"192.168.1." + std::to_string(i + 1) + "\", \"super_device_id\": \"" +
			std::to_string(i) + "\", \"rank_id\": \"" + std::to_string(i) + "\"}";
	return std::string("{\"status\": \"completed\", \"version\": \"") + version +
	       "\", \"server_count\": \"1\", \"server_list\": [{\"server_id\": \"" + server + "\", \"device\": [" +
	       list + "]}], \"super_pod_list\": [{\"super_pod_id\": \"0\", \"server_list\": [{\"server_id\": \"" +
	       server + "\"}]}]}";
}

void write_table(const std::string &text)
{
	FILE *f = fopen(common->path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text.data(), 1, text.size(), f), text.size());
	assert_int_equal(fclose(f), 0);
}

/* Twice the same table, then with a name; the ranks come in any order. */
bool by_table(uint32_t rank)
{
	rank_of r{rank};
	HcclCommConfig config;

	MUST(open_rank(r));
	for (int turn = 0; turn < 2; turn++) {
		GOOD(HcclCommInitClusterInfo(common->path, rank, &r.comm));
		MUST(sums_up(r, r.comm, float(ranks)));
		GOOD(HcclCommDestroy(r.comm));
	}
	set_config(&config);
	GOOD(HcclCommInitClusterInfoConfig(common->path, rank, &config, &r.comm));
	MUST(sums_up(r, r.comm, float(ranks)));
	GOOD(HcclCommDestroy(r.comm));
	return close_rank(r);
}

void groups_by_rank_tables(void **)
{
	strcpy(common->path, "/tmp/usdma-hccl-XXXXXX");
	const int fd = mkstemp(common->path);

	assert_true(fd >= 0);
	close(fd);
	for (const char *version : {"1.0", "1.2"}) {
		write_table(table_text(version, ranks));
		run_all(by_table);
	}
}

bool refuses_tables(const std::string &text, HcclResult want, const char *why)
{
	rank_of r;

	write_table(text);
	MUST(HcclCommInitClusterInfo(common->path, 0, &r.comm) == want);
	return says(want, "HcclCommInitClusterInfo", why);
}

bool wrong_tables(rank_of &r)
{
	std::string other = table_text("1.0", 2), two = other, twice = other;

	MUST(open_rank(r));
	other.replace(other.find("\"0\", \"device_ip\""), 3, "\"1\"");
	two.replace(two.find("[{\"server_id\""), 1, "[{\"server_id\": \"node_1\", \"device\": []}, ");
	twice.replace(twice.rfind("\"rank_id\": \"1\""), 14, "\"rank_id\": \"0\"");
	MUST(refuses_tables("junk", HCCL_E_PARA, "JSON"));
	MUST(refuses_tables("[1]", HCCL_E_PARA, "JSON"));
	MUST(refuses_tables("{\"status\": 1}", HCCL_E_PARA, "status"));
	MUST(refuses_tables(table_text("9.9", 2), HCCL_E_NOT_SUPPORT, "version"));
	MUST(refuses_tables(two, HCCL_E_NOT_SUPPORT, "2 servers"));
	MUST(refuses_tables(table_text("1.0", 0), HCCL_E_PARA, "0 devices"));
	MUST(refuses_tables(table_text("1.0", 65), HCCL_E_PARA, "65 devices"));
	MUST(refuses_tables(twice, HCCL_E_PARA, "two ranks 0"));
	MUST(refuses_tables(other, HCCL_E_PARA, "device is 0"));
	MUST(HcclCommInitClusterInfo("/nonexistent", 0, &r.comm) == HCCL_E_PARA);
	MUST(HcclCommInitClusterInfo(nullptr, 0, &r.comm) == HCCL_E_PTR);
	const std::string pipe = std::string(common->path) + "-pipe";
	GOOD(mkfifo(pipe.c_str(), 0600));
	MUST(HcclCommInitClusterInfo(pipe.c_str(), 0, &r.comm) == HCCL_E_PARA);
	GOOD(unlink(pipe.c_str()));
	write_table(table_text("1.0", 2));
	MUST(HcclCommInitClusterInfo(common->path, 2, &r.comm) == HCCL_E_PARA);
	return close_rank(r);
}

void wrong_rank_tables(void **)
{
	assert_int_equal(status_of(start(devices.at(0) + "," + devices.at(1),
					 [] {
						 rank_of r;

						 return wrong_tables(r);
					 })),
			 0);
	unlink(common->path);
}

/* ---- parts, suspension ------------------------------------------------------------------------------------------ */

bool parts(rank_of &r)
{
	uint32_t all[64], wrong[] = {1, 0};
	HcclCommConfig config;
	HcclComm sub = nullptr;
	char name[COMM_NAME_MAX_LENGTH];

	for (uint32_t i = 0; i < ranks; i++)
		all[i] = i;
	HcclCommConfigInit(&config);
	config.hcclBufferSize = 1;
	MUST(HcclCreateSubCommConfig(&r.comm, 2, wrong, 1, 0, &config, &sub) == HCCL_E_PARA);
	MUST(HcclCreateSubCommConfig(&r.comm, ranks, all, 1, ranks, &config, &sub) == HCCL_E_PARA);
	MUST(HcclCreateSubCommConfig(&r.comm, ranks, all, 1, (r.rank + 1) % ranks, &config, &sub) == HCCL_E_PARA);
	/* Two halves of one number, at the same time. */
	const uint32_t half = r.rank / 2 * 2, n = ranks - half < 2 ? 1 : 2;
	GOOD(HcclCreateSubCommConfig(&r.comm, n, all + half, 1, r.rank - half, &config, &sub));
	GOOD(HcclGetCommName(sub, name));
	MUST(!strcmp(name, "the group_sub_1"));
	MUST(sums_up(r, sub, float(n)));
	MUST(sums_up(r, r.comm, float(ranks)));
	GOOD(HcclCommDestroy(sub));
	return true;
}

void parts_of_groups(void **)
{
	in_group(parts);
}

/* An operation that a rank does not take part in: suspended and resumed, the group works again. */
bool recovers(rank_of &r)
{
	floats a(100), b(100);
	HcclCommStatus status;
	aclmdlRI before, after;

	MUST(record_sum(r, b, &before));
	MUST(HcclCommResume(r.comm) == HCCL_E_PARA);
	if (r.rank)
		GOOD(HcclAllReduce(a.at, a.at, 100, f32, sum, r.comm, r.other));
	count_up(&common->joined);
	MUST(eventually([] { return read_word(&common->joined) == ranks; }));
	GOOD(HcclCommSuspend(r.comm));
	GOOD(HcclCommGetStatus("the group", &status));
	MUST(status == HCCL_COMM_STATUS_SUSPENDING);
	MUST(HcclAllReduce(a.at, a.at, 100, f32, sum, r.comm, r.stream) == HCCL_E_SUSPENDING);
	GOOD(HcclCommResume(r.comm));
	GOOD(HcclCommGetStatus("the group", &status));
	MUST(status == HCCL_COMM_STATUS_READY);
	MUST(r.rank == 0 || aclrtSynchronizeStreamWithTimeout(r.other, 60000) == ACL_ERROR_RT_STREAM_ABORT);
	MUST(aclmdlRIExecuteAsync(before, r.stream));
	MUST(b.are(1));
	MUST(record_sum(r, b, &after));
	GOOD(aclmdlRIExecuteAsync(after, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(b.are(float(ranks)));
	GOOD(aclmdlRIDestroy(before));
	GOOD(aclmdlRIDestroy(after));
	MUST(sums_up(r, r.comm, float(ranks)));
	return sums_up(r, r.comm, float(ranks), 100000);
}

void a_group_recovers(void **)
{
	in_group(recovers);
}

/* ---- groups of calls -------------------------------------------------------------------------------------------- */

/* Each rank's part of `at` is its number and one. */
bool has_parts(const floats &at, size_t each)
{
	std::vector<float> v(at.n), want;

	for (size_t i = 0; i < at.n; i++)
		want.push_back(float(i / each + 1));
	return !aclrtMemcpy(v.data(), at.n * 4, at.at, at.n * 4, ACL_MEMCPY_DEVICE_TO_HOST) && v == want;
}

/* The program changes its arrays between the calls and the end. */
bool changes_arrays(rank_of &r)
{
	const size_t each = 10, n = each * ranks;
	const uint32_t next = (r.rank + 1) % ranks, before = (r.rank + ranks - 1) % ranks;
	const float own = float(r.rank + 1);
	floats a(n, own), exchanged(n, 0), gathered(n, 0), summed(each, 0), by_matrix(n, 0), got(each, 0);
	std::vector<uint64_t> counts(ranks, each), offsets, matrix(size_t(ranks) * ranks, each);
	HcclSendRecvItem items[] = {{HCCL_SEND, a.at, each, f32, next}, {HCCL_RECV, got.at, each, f32, before}};

	for (uint32_t i = 0; i < ranks; i++)
		offsets.push_back(i * each);
	GOOD(HcclGroupStart());
	GOOD(HcclAlltoAllV(a.at, counts.data(), offsets.data(), f32, exchanged.at, counts.data(), offsets.data(), f32,
			   r.comm, r.stream));
	GOOD(HcclAllGatherV(a.at, each, gathered.at, counts.data(), offsets.data(), f32, r.comm, r.stream));
	GOOD(HcclReduceScatterV(a.at, counts.data(), offsets.data(), summed.at, each, f32, sum, r.comm, r.stream));
	GOOD(HcclAlltoAllVC(a.at, matrix.data(), f32, by_matrix.at, f32, r.comm, r.stream));
	GOOD(HcclBatchSendRecv(items, 2, r.comm, r.stream));
	for (std::vector<uint64_t> *v : {&counts, &offsets, &matrix})
		v->assign(v->size(), 1000);
	for (HcclSendRecvItem &i : items)
		i = {HcclSendRecvType(7), nullptr, 1000, f32, 100000};
	GOOD(HcclGroupEnd());
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(has_parts(exchanged, each) && has_parts(gathered, each) && has_parts(by_matrix, each));
	return summed.are(float(ranks * (ranks + 1) / 2)) && got.are(float(before + 1));
}

void groups_keep_arrays(void **)
{
	in_group(changes_arrays);
}

/* Two communicators in one stream: all ranks submit in the order of the calls. */
bool shares_stream(rank_of &r)
{
	floats a(100, float(r.rank + 1)), b(100, float(r.rank + 1));
	uint32_t all[64];
	HcclCommConfig config;
	HcclComm other = nullptr;

	for (uint32_t i = 0; i < ranks; i++)
		all[i] = i;
	HcclCommConfigInit(&config);
	config.hcclBufferSize = 1;
	GOOD(HcclCreateSubCommConfig(&r.comm, ranks, all, 1, r.rank, &config, &other));
	for (int turn = 0; turn < 50; turn++) {
		GOOD(HcclGroupStart());
		GOOD(HcclAllReduce(a.at, a.at, 100, f32, HCCL_REDUCE_MAX, r.comm, r.stream));
		GOOD(HcclAllReduce(b.at, b.at, 100, f32, HCCL_REDUCE_MAX, other, r.stream));
		GOOD(HcclGroupEnd());
	}
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(a.are(float(ranks)) && b.are(float(ranks)));
	GOOD(HcclCommDestroy(other));
	return true;
}

void groups_share_a_stream(void **)
{
	in_group(shares_stream);
}

/* ---- in one process ---------------------------------------------------------------------------------------------- */

/* An older version's configuration, at the end of its memory, in a group of calls. */
void short_config(const HcclRootInfo &root)
{
	const size_t page = size_t(sysconf(_SC_PAGESIZE)), size = offsetof(HcclCommConfig, hcclAlgo);
	char *const at = static_cast<char *>(
		mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	HcclCommConfig config;
	HcclComm comm = nullptr;

	assert_int_equal(mprotect(at + page, page, PROT_NONE), 0);
	HcclCommConfigInit(&config);
	memcpy(config.reserved, &size, sizeof(size));
	char *const from = at + page - size;
	memcpy(from, &config, size);
	assert_int_equal(HcclGroupStart(), 0);
	assert_int_equal(HcclCommInitRootInfoConfig(1, &root, 0, reinterpret_cast<HcclCommConfig *>(from), &comm), 0);
	assert_int_equal(HcclGroupEnd(), 0);
	assert_int_equal(HcclCommDestroy(comm), 0);
	munmap(at, 2 * page);
}

/* In this process, which has devices: invalid infos and ranks, and a group that no other rank joins. */
void wrong_groups(void **)
{
	HcclRootInfo root = {}, wrong;
	HcclCommConfig config;
	HcclComm comm;

	setenv("USDMA_DEVICES", all_devices().c_str(), 1);
	assert_int_equal(aclInit(nullptr), 0);
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
	short_config(root);
	assert_int_equal(HcclGetRootInfo(&root), 0);
	assert_int_equal(HcclCommInitRootInfo(1, &root, 0, &comm), 0);                  /* a group of one */
	assert_int_equal(HcclCommInitRootInfo(1, &root, 0, &comm), HCCL_E_TCP_CONNECT); /* used up */
	assert_int_equal(HcclCommDestroy(comm), 0);
	assert_int_equal(HcclCommDestroy(nullptr), HCCL_E_PTR);
}

/* Of 64 root infos that no rank joins the oldest is closed; the newest work. */
void many_root_infos(void **)
{
	HcclRootInfo first, last;
	HcclComm comm;

	assert_int_equal(HcclGetRootInfo(&first), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(HcclGetRootInfo(&last), 0);
	assert_int_equal(HcclCommInitRootInfo(1, &first, 0, &comm), HCCL_E_TCP_CONNECT);
	assert_int_equal(HcclCommInitRootInfo(1, &last, 0, &comm), 0);
	assert_int_equal(HcclCommDestroy(comm), 0);
}

/* The handle of a communicator that was destroyed is that of no other one. */
void a_stale_handle(void **)
{
	HcclComm stale = nullptr, comm;
	HcclRootInfo root;
	uint32_t n;

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

/* One thread calls, another destroys: each call works, or says that there is no such communicator. */
void destroyed_while_it_is_used(void **)
{
	for (int turn = 0; turn < 20; turn++) {
		HcclRootInfo root;
		HcclComm comm = nullptr;
		std::atomic<int> calls{0};
		bool right = true;

		assert_int_equal(HcclGetRootInfo(&root), 0);
		assert_int_equal(HcclCommInitRootInfo(1, &root, 0, &comm), 0);
		std::thread user([&] {
			rank_of r;
			HcclResult ret;
			const bool opened = open_rank(r);

			do {
				ret = HcclBarrier(comm, r.stream);
				calls++;
			} while (!ret);
			right = opened && (ret == HCCL_E_PTR || ret == HCCL_E_UNAVAIL) && close_rank(r);
		});
		until("a call", [&] { return calls > 0; });
		assert_int_equal(HcclCommDestroy(comm), 0);
		user.join();
		assert_true(right);
	}
}

/* In threads without a device. */
struct resuming {
	explicit resuming(const HcclComm (&comms)[2])
	{
		for (int i = 0; i < 2; i++)
			threads[i] = std::thread([this, i, comm = comms[i]] { got[i] = HcclCommResume(comm); });
	}
	void end()
	{
		for (std::thread &t : threads)
			t.join();
	}
	HcclResult got[2] = {HCCL_E_RESERVED, HCCL_E_RESERVED};
	std::thread threads[2];
};

void suspend_both(const HcclComm (&comms)[2])
{
	for (HcclComm c : comms)
		assert_int_equal(HcclCommSuspend(c), 0);
}

/* At once: no rank waits for one that does not come. */
void wrong_devices(void **)
{
	HcclComm comms[2];
	const int32_t wrong[][2] = {{0, 99}, {-1, 0}, {0, 0}};

	for (const auto &devices : wrong)
		assert_int_equal(HcclCommInitAll(2, const_cast<int32_t *>(devices), comms), HCCL_E_PARA);
}

/* After a failure of one rank both meet; communicators may be destroyed while they do. */
void resumed_again(void **)
{
	int32_t two[] = {0, 1};
	HcclComm comms[2];

	if (ranks < 2)
		skip();
	assert_int_equal(HcclCommInitAll(2, two, comms), 0);
	suspend_both(comms);
	setenv("HCCL_CONNECT_TIMEOUT", "1", 1);
	assert_int_equal(HcclCommResume(comms[1]), HCCL_E_TIMEOUT);
	unsetenv("HCCL_CONNECT_TIMEOUT");
	resuming both(comms);
	both.end();
	assert_true(!both.got[0] && !both.got[1]);
	suspend_both(comms);
	setenv("HCCL_CONNECT_TIMEOUT", "1", 1);
	resuming again(comms);
	for (HcclComm c : comms)
		assert_int_equal(HcclCommDestroy(c), 0);
	again.end();
	unsetenv("HCCL_CONNECT_TIMEOUT");
	for (HcclComm c : comms)
		assert_int_equal(HcclCommResume(c), HCCL_E_PTR);
}

/* One thread is all ranks: it makes the group, and calls for each of them, in groups of calls. */
void one_thread_is_all_ranks(void **)
{
	std::vector<rank_of> all(ranks);
	std::vector<std::unique_ptr<floats>> data;
	HcclRootInfo root;
	bool open = true;

	assert_int_equal(HcclGroupEnd(), HCCL_E_NOT_SUPPORT);
	assert_int_equal(HcclGetRootInfo(&root), 0);
	assert_int_equal(HcclGroupStart(), 0);
	for (uint32_t i = 0; i < ranks; i++) {
		all[i] = {i, int32_t(i)};
		assert_true(open_rank(all[i]));
		data.push_back(std::make_unique<floats>(200000, float(i + 1)));
		assert_int_equal(HcclCommInitRootInfo(ranks, &root, i, &all[i].comm), 0);
		assert_null(all[i].comm);
	}
	assert_int_equal(HcclGroupStatusGet(&open), 0);
	assert_true(open);
	assert_int_equal(HcclGroupEnd(), 0);
	assert_int_equal(HcclGroupStatusGet(&open), 0);
	assert_false(open);
	assert_int_equal(HcclGroupStart(), 0);
	for (const rank_of &r : all) {
		assert_int_equal(aclrtSetDevice(r.device), 0);
		for (int turn = 0; turn < 2; turn++) /* more than a stream takes, unless the others run */
			assert_int_equal(HcclAllReduce(data[r.rank]->at, data[r.rank]->at, 200000, f32, HCCL_REDUCE_MAX,
						       r.comm, r.stream),
					 0);
		assert_int_equal(HcclAllReduce(nullptr, data[r.rank]->at, 1, f32, sum, r.comm, r.stream), HCCL_E_PTR);
	}
	assert_int_equal(HcclGroupEnd(), 0);
	assert_int_equal(HcclGroupStart(), 0);
	for (rank_of &r : all) {
		assert_int_equal(aclrtSetDevice(r.device), 0);
		assert_int_equal(aclrtSynchronizeStreamWithTimeout(r.stream, 60000), 0);
		assert_true(data[r.rank]->are(float(ranks)));
		assert_int_equal(HcclCommDestroy(r.comm), 0);
	}
	assert_int_equal(HcclGroupEnd(), 0);
	for (rank_of &r : all) {
		assert_int_equal(HcclCommDestroy(r.comm), HCCL_E_PTR);
		assert_int_equal(aclrtSetDevice(r.device), 0);
		data[r.rank].reset();
		assert_true(close_rank(r));
	}
}

} // namespace

/* USDMA_TEST_LIMITS=1: what waits for time limits, and more of the rest. */
int main()
{
	const CMUnitTest limits[] = {
		cmocka_unit_test(each_rank_is_killed),         cmocka_unit_test(a_rank_is_late),
		cmocka_unit_test(each_rank_is_killed_at_work), cmocka_unit_test(each_rank_is_stopped_at_work),
		cmocka_unit_test(each_rank_joins_late),        cmocka_unit_test(a_rank_does_not_come),
		cmocka_unit_test(a_joining_rank_is_killed)};
	const CMUnitTest tests[] = {
		cmocka_unit_test(refused_calls_leave_the_group), cmocka_unit_test(products_have_rules),
		cmocka_unit_test(buffers_have_the_size), cmocka_unit_test(a_rank_is_killed),
		cmocka_unit_test(a_rank_is_killed_in_a_graph), cmocka_unit_test(a_copy_fails),
		cmocka_unit_test(groups_by_rank_tables), cmocka_unit_test(wrong_rank_tables),
		cmocka_unit_test(parts_of_groups), cmocka_unit_test(a_group_recovers),
		cmocka_unit_test(groups_keep_arrays), cmocka_unit_test(groups_share_a_stream),
		/* From here on this process uses the library, and must not fork. */
		cmocka_unit_test(wrong_groups), cmocka_unit_test(many_root_infos), cmocka_unit_test(a_stale_handle),
		cmocka_unit_test(destroyed_while_it_is_used), cmocka_unit_test(one_thread_is_all_ranks),
		cmocka_unit_test(resumed_again), cmocka_unit_test(wrong_devices)};

	prepare_ranks();
	return getenv("USDMA_TEST_LIMITS") ? cmocka_run_group_tests_name("hccl_groups", limits, nullptr, nullptr) :
					     cmocka_run_group_tests_name("hccl_groups", tests, nullptr, nullptr);
}
