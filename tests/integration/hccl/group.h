/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of libhccl's groups for tests: processes with one or more devices of USDMA_DEVICES each, or threads of one
 * process with all of them.
 */
#pragma once

#include <acl/acl.h>
#include <hccl.h>

#include "tests/support/test.h"
#include "tests/support/until.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace usdma::test;

/* cmocka's asserts do not work in the ranks' processes and threads: the first line that fails is printed. */
#define MUST(is)                                                                                                       \
	do {                                                                                                           \
		if (!(is)) {                                                                                           \
			fprintf(stderr, "# rank %u, %s:%d: %s\n", r.rank, __FILE__, __LINE__, #is);                    \
			return false;                                                                                  \
		}                                                                                                      \
	} while (0)
#define GOOD(call) MUST((call) == 0)

inline std::vector<std::string> devices;
inline uint32_t ranks; /* as many as devices: four, or two in the virtual machine */

struct rank_of {
	uint32_t rank = 0;
	int32_t device = 0;
	HcclComm comm = nullptr;
	aclrtStream stream = nullptr, other = nullptr;
};
using work = bool (*)(rank_of &);

/* Shared by the ranks: the root info when it is available, and progress counters. */
struct shared {
	HcclRootInfo root;
	std::uint32_t rooted, joined, go;
	char path[64]; /* of a rank table */
	pid_t child;   /* of the rank that is lost */
};
inline shared *common;

inline std::uint32_t read_word(const std::uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

inline void count_up(std::uint32_t *word)
{
	__atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
}

/* Replaces until(), which uses cmocka's asserts: this is a child. */
inline bool eventually(const std::function<bool()> &done)
{
	for (unsigned step = 0; step < 600000; step++, poll_pause(step))
		if (done())
			return true;
	return false;
}

inline void set_config(HcclCommConfig *config)
{
	HcclCommConfigInit(config);
	config->hcclBufferSize = 1;
	strcpy(config->hcclCommName, "the group");
}

inline bool share_root(const rank_of &r)
{
	if (r.rank == 0) {
		GOOD(HcclGetRootInfo(&common->root));
		__atomic_store_n(&common->rooted, 1, __ATOMIC_RELEASE);
	}
	return eventually([] { return read_word(&common->rooted) != 0; });
}

inline bool join_group(rank_of &r, uint32_t size = ranks)
{
	HcclCommConfig config;

	MUST(share_root(r));
	set_config(&config);
	return HcclCommInitRootInfoConfig(size, &common->root, r.rank, &config, &r.comm) == HCCL_SUCCESS;
}

inline bool open_rank(rank_of &r)
{
	MUST(eventually([&] { return !aclrtSetDevice(r.device); })); /* until the server accepts the next client */
	GOOD(aclrtCreateStream(&r.stream));
	GOOD(aclrtCreateStream(&r.other));
	return true;
}

inline bool close_rank(rank_of &r)
{
	GOOD(aclrtDestroyStreamForce(r.stream));
	GOOD(aclrtDestroyStreamForce(r.other));
	GOOD(aclrtResetDevice(r.device));
	return true;
}

inline bool member(uint32_t rank, work what, int32_t device = 0)
{
	rank_of r{rank, device};

	MUST(open_rank(r));
	MUST(join_group(r));
	MUST(what(r));
	GOOD(HcclCommDestroy(r.comm));
	MUST(HcclCommDestroy(r.comm) == HCCL_E_PTR);
	return close_rank(r);
}

/*
 * USDMA_TEST_HOSTS: "PID:HOST_ID,…", machines of tests/support/hosts.py, by a process in each, among which the ranks
 * are divided in order; this process is moved to the rank's.
 */
inline bool hosts_given()
{
	return getenv("USDMA_TEST_HOSTS");
}

inline bool enter_space(const std::string &pid, const char *kind)
{
	const int fd = open(("/proc/" + pid + "/ns/" + kind).c_str(), O_RDONLY | O_CLOEXEC);
	const bool entered = fd >= 0 && !setns(fd, 0);

	close(fd);
	return entered;
}

inline std::vector<std::string> hosts()
{
	std::string list = hosts_given() ? getenv("USDMA_TEST_HOSTS") : "";
	std::vector<std::string> all;

	for (size_t at; (at = list.find(',')) != list.npos; list.erase(0, at + 1))
		all.push_back(list.substr(0, at));
	if (!list.empty())
		all.push_back(list);
	return all;
}

inline bool enter_host(uint32_t rank)
{
	const std::vector<std::string> all = hosts();

	if (all.empty())
		return true;
	const std::string &host = all.at(rank * all.size() / ranks);
	const std::string pid = host.substr(0, host.find(':'));

	setenv("USDMA_HOST_ID", host.substr(host.find(':') + 1).c_str(), 1);
	return enter_space(pid, "net") && enter_space(pid, "mnt");
}

inline pid_t start(const std::string &with, const std::function<bool()> &run)
{
	setenv("USDMA_DEVICES", with.c_str(), 1);
	const pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(run() ? 0 : 1);
}

inline std::vector<pid_t> start_all(const std::function<bool(uint32_t rank)> &run)
{
	std::vector<pid_t> pids;

	common->rooted = common->joined = 0;
	for (uint32_t rank = 0; rank < ranks; rank++)
		pids.push_back(start(devices.at(rank), [=] { return enter_host(rank) && run(rank); }));
	return pids;
}

inline int status_of(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

inline void run_all(const std::function<bool(uint32_t rank)> &run)
{
	for (pid_t pid : start_all(run))
		assert_int_equal(status_of(pid), 0);
}

/* The ranks are processes, join, work and leave. */
inline void in_group(work what)
{
	run_all([=](uint32_t rank) { return member(rank, what); });
}

inline std::string all_devices()
{
	std::string list;

	for (const std::string &d : devices)
		list += (list.empty() ? "" : ",") + d;
	return list;
}

inline void prepare_ranks()
{
	std::string list = getenv("USDMA_DEVICES");

	seed(); /* before the forks */
	for (size_t at; (at = list.find(',')) != list.npos; list.erase(0, at + 1))
		devices.push_back(list.substr(0, at));
	devices.push_back(list);
	ranks = uint32_t(devices.size());
	common = static_cast<shared *>(
		mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}
