/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sides of one-sided operations: processes of tests, each with a device. */
#pragma once

#include <hccl_mem.h>
#include <hccl_net_dev.h>
#include <hccl_one_sided_services.h>
#include <hcomm_primitives.h>
#include <hcomm_res.h>

#include "tests/integration/hccl/group.h"

#include <algorithm>
#include <string>

/* Shared by both: the step of each, and what passes between them by other means than the library's. */
struct shared_page {
	uint32_t at[2];
	uint64_t address[2][3];
	unsigned char desc[2][4][512];
	uint32_t length[2][4], port, pid[2];
};
inline shared_page *both;

/* Both have come to here. */
inline bool meet(const rank_of &r)
{
	count_up(&both->at[r.rank]);
	return eventually([&] { return read_word(&both->at[!r.rank]) >= both->at[r.rank]; });
}

using side_work = bool (*)(rank_of &);

/* The sides are processes with a device each, or with the same one. */
inline std::vector<pid_t> start_sides(side_work what)
{
	std::vector<pid_t> pids;

	*both = {};
	for (uint32_t side = 0; side < 2; side++)
		pids.push_back(start(devices.at(side % devices.size()), [=] {
			rank_of r{side};
			MUST(open_rank(r));
			return what(r) && close_rank(r);
		}));
	return pids;
}

inline void two_sides(side_work what)
{
	for (pid_t pid : start_sides(what))
		assert_int_equal(status_of(pid), 0);
}

/* The second is killed once both have met `meetings` times. */
inline void kill_second(side_work what, uint32_t meetings)
{
	const std::vector<pid_t> pids = start_sides(what);

	until("both have met",
	      [=] { return read_word(&both->at[0]) >= meetings && read_word(&both->at[1]) >= meetings; });
	kill(pids[1], SIGKILL);
	assert_true(WIFSIGNALED(status_of(pids[1])));
	assert_int_equal(status_of(pids[0]), 0);
}

inline void prepare_sides()
{
	prepare_ranks();
	both = static_cast<shared_page *>(
		mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

inline std::string table_of_two()
{
	std::string list;

	for (const char *i : {"0", "1"})
		list += std::string(list.empty() ? "" : ",") + R"({"device_id":")" + i + R"(","rank_id":")" + i +
			R"("})";
	return R"({"status":"completed","version":"1.0","server_count":"1","server_list":[{"server_id":"node_)" +
	       std::to_string(getppid()) + R"(","device":[)" + list + "]}]}";
}

inline bool join_two(rank_of &r, const char *name = "two sides")
{
	HcclCommConfig config;

	HcclCommConfigInit(&config);
	config.hcclBufferSize = 1;
	strcpy(config.hcclCommName, name);
	GOOD(HcclCommInitClusterInfoMemConfig(table_of_two().c_str(), r.rank, &config, &r.comm));
	return true;
}

/* A device's memory, pinned memory of the host, and malloc's. */
struct buffers {
	static constexpr size_t size = 256 << 10;
	static constexpr CommMemType types[] = {COMM_MEM_TYPE_DEVICE, COMM_MEM_TYPE_HOST, COMM_MEM_TYPE_HOST};

	buffers()
	{
		if (aclrtMalloc(&at[0], size, ACL_MEM_MALLOC_NORMAL_ONLY) || aclrtMallocHost(&at[1], size))
			abort();
		at[2] = malloc(size);
	}
	~buffers()
	{
		aclrtFree(at[0]);
		aclrtFreeHost(at[1]);
		free(at[2]);
	}
	buffers(const buffers &) = delete;
	buffers &operator=(const buffers &) = delete;
	bool set(int kind, const std::vector<unsigned char> &v)
	{
		return !aclrtMemcpy(at[kind], size, v.data(), size, ACL_MEMCPY_DEFAULT);
	}
	std::vector<unsigned char> get(int kind) const
	{
		std::vector<unsigned char> v(size);

		return aclrtMemcpy(v.data(), size, at[kind], size, ACL_MEMCPY_DEFAULT) ? std::vector<unsigned char>() :
											 v;
	}
	char *bytes(int kind) const { return static_cast<char *>(at[kind]); }
	CommMem mem(int kind) const { return {types[kind], at[kind], size}; }
	void *at[3] = {};
};

/* What is in the buffers of both sides; both know it, as they know the operations. */
struct model {
	model()
	{
		for (auto &of : of_side)
			for (auto &v : of) {
				v.resize(buffers::size);
				fill_random(v.data(), v.size(), gen);
			}
	}
	bool fill(const rank_of &r, buffers &b) const
	{
		for (int kind = 0; kind < 3; kind++)
			MUST(b.set(kind, of_side[r.rank][kind]));
		return true;
	}
	bool matches(const rank_of &r, const buffers &b) const
	{
		for (int kind = 0; kind < 3; kind++)
			MUST(b.get(kind) == of_side[r.rank][kind]);
		return true;
	}
	uint64_t below(uint64_t n) { return gen() % n; }
	std::mt19937_64 gen = rng(1);
	std::vector<unsigned char> of_side[2][3];
};

/* A random copy between a buffer of the first side and one of the second. */
struct random_copy {
	explicit random_copy(model &m)
		: own(int(m.below(3))), other(int(m.below(3))), put(m.below(2)),
		  bytes(m.below(4) ? 1 + m.below(6000) : 8 * m.below(9)), from_own(m.below(buffers::size - bytes)),
		  from_other(m.below(buffers::size - bytes))
	{
		auto &a = m.of_side[0][own], &b = m.of_side[1][other];
		const auto at = a.begin() + ptrdiff_t(from_own), there = b.begin() + ptrdiff_t(from_other);

		put ? std::copy_n(at, bytes, there) : std::copy_n(there, bytes, at);
	}
	int own, other;
	bool put;
	size_t bytes, from_own, from_other;
};

/* The texts of the thread's last failed call. */
inline bool says(int code, const char *call, const char *why)
{
	const std::string text = HcclGetErrorString(HcclResult(code));
	const char *recent = aclGetRecentErrMsg();
	const bool found = text.find(call) != text.npos && text.find(why) != text.npos && recent &&
			   std::string(recent).find(why) != std::string::npos;

	if (!found)
		fprintf(stderr, "# %d: \"%s\", \"%s\": no %s, %s\n", code, text.c_str(), recent ? recent : "", call,
			why);
	return found;
}
