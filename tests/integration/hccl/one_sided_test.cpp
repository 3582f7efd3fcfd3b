/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations of HCCL, in the order of calls of HIXL's transfers (adxl: register, join by a table, bind,
 * prepare, put and get), and what they refuse.
 */
#include "tests/integration/hccl/one_sided.h"

#include <dlfcn.h>

namespace {

constexpr auto u8_type = HCCL_DATA_TYPE_UINT8;
constexpr HcclPrepareConfig mesh = {HCCL_TOPO_FULLMESH, 0, 0, 0};

struct bound {
	bool all(const rank_of &r, const buffers &b)
	{
		for (int kind = 0; kind < 3; kind++) {
			const CommMem mem = b.mem(kind);

			GOOD(HcclRegisterGlobalMem(&mem, &handles[kind]));
			GOOD(HcclCommBindMem(r.comm, handles[kind]));
			both->address[r.rank][kind] = reinterpret_cast<uint64_t>(b.at[kind]);
		}
		return true;
	}
	bool none(const rank_of &r)
	{
		for (void *handle : handles) {
			MUST(HcclDeregisterGlobalMem(handle) == HCCL_E_PARA);
			MUST(says(HCCL_E_PARA, "HcclDeregisterGlobalMem", "bound"));
			GOOD(HcclCommUnbindMem(r.comm, handle));
			GOOD(HcclDeregisterGlobalMem(handle));
		}
		return true;
	}
	void *handles[3];
};

void *remote(int kind, size_t offset = 0)
{
	return reinterpret_cast<char *>(both->address[1][kind]) + offset;
}

/* Up to 256 copies of one direction. */
bool run_batch(rank_of &r, model &m, const buffers &b)
{
	std::vector<HcclOneSideOpDesc> puts, gets;

	for (uint64_t n = 1 + m.below(m.below(4) ? 16 : 256); n; n--) {
		const random_copy c(m);
		auto &list = c.put ? puts : gets, &other = c.put ? gets : puts;

		if (!other.empty() || list.size() == 256) {
			GOOD((c.put ? HcclBatchGet : HcclBatchPut)(r.comm, 1, other.data(), uint32_t(other.size()),
								   r.stream));
			other.clear();
		}
		list.push_back({b.bytes(c.own) + c.from_own, remote(c.other, c.from_other), c.bytes, u8_type});
	}
	MUST(puts.empty() || !HcclBatchPut(r.comm, 1, puts.data(), uint32_t(puts.size()), r.stream));
	MUST(gets.empty() || !HcclBatchGet(r.comm, 1, gets.data(), uint32_t(gets.size()), r.stream));
	return true;
}

/* The first side copies to and from the second, which does nothing. */
bool copies_at_random(rank_of &r)
{
	buffers b;
	bound mine;
	model m;
	const unsigned rounds = 20 * scale();

	MUST(join_two(r));
	MUST(mine.all(r, b) && m.fill(r, b));
	GOOD(HcclCommPrepare(r.comm, &mesh, 0));
	GOOD(HcclCommPrepare(r.comm, &mesh, 1));
	MUST(meet(r));
	for (unsigned i = 0; i < rounds; i++) {
		const bool first = r.rank == 0;

		if (first)
			MUST(run_batch(r, m, b));
		else
			for (uint64_t n = 1 + m.below(m.below(4) ? 16 : 256); n; n--)
				(void)random_copy(m);
	}
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(meet(r));
	MUST(m.matches(r, b));
	MUST(HcclCommDestroy(r.comm) == HCCL_E_PARA);
	MUST(says(HCCL_E_PARA, "HcclCommDestroy", "HcclCommUnbindMem"));
	MUST(mine.none(r));
	GOOD(HcclCommDestroy(r.comm));
	return true;
}

void random_copies(void **)
{
	two_sides(copies_at_random);
}

/* Data and a flag behind it, again and again: a reader of the flag sees the data. */
bool puts_a_flag(rank_of &r)
{
	buffers b;
	bound mine;
	const uint64_t rounds = 200 * scale();
	std::vector<uint64_t> data(1024);
	uint64_t flag = 0;

	MUST(join_two(r));
	GOOD(aclrtMemset(b.at[0], buffers::size, 0, buffers::size));
	MUST(mine.all(r, b));
	GOOD(HcclCommPrepare(r.comm, &mesh, 0));
	for (uint64_t i = 1; r.rank == 0 && i <= rounds; i++) {
		HcclOneSideOpDesc d[] = {{b.at[1], remote(0, 4096), data.size(), HCCL_DATA_TYPE_UINT64},
					 {b.bytes(1) + 65536, remote(0), 1, HCCL_DATA_TYPE_UINT64}};

		std::fill_n(static_cast<uint64_t *>(b.at[1]), data.size(), i);
		*static_cast<uint64_t *>(d[1].localAddr) = i;
		GOOD(HcclBatchPut(r.comm, 1, d, 2, r.stream));
		GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	}
	while (r.rank == 1 && flag < rounds) {
		GOOD(aclrtMemcpy(&flag, 8, b.at[0], 8, ACL_MEMCPY_DEVICE_TO_HOST));
		GOOD(aclrtMemcpy(data.data(), 8192, b.bytes(0) + 4096, 8192, ACL_MEMCPY_DEVICE_TO_HOST));
		MUST(*std::min_element(data.begin(), data.end()) >= flag);
	}
	MUST(meet(r) && mine.none(r));
	GOOD(HcclCommDestroy(r.comm));
	return true;
}

void the_flag_is_behind_the_data(void **)
{
	two_sides(puts_a_flag);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

bool carries_descriptors(rank_of &r)
{
	HcclMemDesc out[3] = {}, in[3] = {};
	HcclMemDescs local = {out, r.rank ? 2u : 3u}, remote_list = {in, 3}, none = {nullptr, 0};
	std::mt19937_64 gen = rng(3);
	uint32_t count = 99;

	MUST(join_two(r));
	for (HcclMemDesc &d : out) {
		fill_random(d.desc, sizeof(d.desc), gen);
		snprintf(d.desc, sizeof(d.desc), "{\"rank\": %u, \"mems\": [\"any text\"]}", r.rank);
	}
	GOOD(HcclExchangeMemDesc(r.comm, r.rank, &local, 0, &remote_list, &count));
	MUST(count == 99);
	MUST(HcclExchangeMemDesc(r.comm, !r.rank, &local, -2, &remote_list, &count) == HCCL_E_PARA);
	MUST(HcclExchangeMemDesc(r.comm, 2, &local, 0, &remote_list, &count) == HCCL_E_PARA);
	MUST(HcclExchangeMemDesc(r.comm, !r.rank, nullptr, 0, &remote_list, &count) == HCCL_E_PTR);
	for (int turn = 0; turn < 3; turn++) {
		GOOD(HcclExchangeMemDesc(r.comm, !r.rank, &local, turn - 1, &remote_list, &count));
		MUST(count == (r.rank ? 3u : 2u));
		for (uint32_t i = 0; i < count; i++) {
			snprintf(out[i].desc, sizeof(out[i].desc), "{\"rank\": %u, \"mems\": [\"any text\"]}", !r.rank);
			MUST(!memcmp(in[i].desc, out[i].desc, sizeof(in[i].desc)));
			snprintf(out[i].desc, sizeof(out[i].desc), "{\"rank\": %u, \"mems\": [\"any text\"]}", r.rank);
		}
	}
	remote_list.arrayLength = r.rank ? 3 : 1;
	MUST(HcclExchangeMemDesc(r.comm, !r.rank, &local, 0, &remote_list, &count) ==
	     (r.rank ? HCCL_SUCCESS : HCCL_E_PARA));
	GOOD(HcclExchangeMemDesc(r.comm, !r.rank, &none, 0, r.rank ? &none : &remote_list, &count));
	MUST(count == 0);
	if (r.rank) { /* the other does not call it; after that it does */
		MUST(HcclExchangeMemDesc(r.comm, 0, &local, 1, &remote_list, &count) == HCCL_E_TIMEOUT);
		MUST(says(HCCL_E_TIMEOUT, "HcclExchangeMemDesc", "in time"));
	}
	MUST(meet(r));
	remote_list.arrayLength = 3;
	if (r.rank == 0) /* its end of the old connection is closed */
		MUST(HcclExchangeMemDesc(r.comm, 1, &local, 60, &remote_list, &count) == HCCL_E_REMOTE);
	MUST(meet(r));
	GOOD(HcclExchangeMemDesc(r.comm, !r.rank, &local, 60, &remote_list, &count));
	MUST(count == (r.rank ? 3u : 2u));
	GOOD(HcclCommDestroy(r.comm));
	return true;
}

void descriptors_are_carried(void **)
{
	two_sides(carries_descriptors);
}

/* Each side enables one buffer after the other, by its descriptor. */
bool enables_memory(rank_of &r)
{
	buffers b;
	model m;
	HcclMemDesc out[3], in[3];
	HcclMemDescs local = {out, 3}, others = {in, 3};
	HcclOneSideOpDesc d = {b.at[1], nullptr, buffers::size, u8_type};
	uint32_t count = 0;

	MUST(join_two(r) && m.fill(r, b));
	for (int kind = 0; kind < 3; kind++)
		GOOD(HcclRegisterMem(r.comm, !r.rank, buffers::types[kind], b.at[kind], buffers::size, &out[kind]));
	d.remoteAddr = &d;
	MUST(HcclBatchGet(r.comm, !r.rank, &d, 1, r.stream) == HCCL_E_INTERNAL);
	MUST(says(HCCL_E_INTERNAL, "HcclBatchGet", "HcclCommPrepare"));
	GOOD(HcclExchangeMemDesc(r.comm, !r.rank, &local, 0, &others, &count));
	for (HcclMemDesc &desc : in) {
		const auto kind = &desc - in;
		CommMem mem = {};

		MUST(HcclDisableMemAccess(r.comm, &desc) == HCCL_E_NOT_FOUND);
		GOOD(HcclEnableMemAccess(r.comm, &desc, &mem));
		MUST(mem.type == buffers::types[kind] && mem.size == buffers::size);
		d.remoteAddr = mem.addr;
		GOOD(HcclBatchGet(r.comm, !r.rank, &d, 1, r.stream));
		GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
		MUST(kind == 1 || b.get(1) == m.of_side[!r.rank][kind]);
		GOOD(HcclDisableMemAccess(r.comm, &desc));
		MUST(HcclBatchGet(r.comm, !r.rank, &d, 1, r.stream) == HCCL_E_PARA);
	}
	MUST(meet(r));
	for (HcclMemDesc &desc : out) {
		GOOD(HcclDeregisterMem(r.comm, &desc));
		MUST(HcclDeregisterMem(r.comm, &desc) == HCCL_E_NOT_FOUND);
	}
	GOOD(HcclCommDestroy(r.comm));
	return true;
}

void memory_is_enabled(void **)
{
	two_sides(enables_memory);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

bool refuses_memory(rank_of &r, const buffers &b)
{
	void *handle = nullptr, *again = nullptr;
	CommMem mem = b.mem(0);

	MUST(HcclRegisterGlobalMem(nullptr, &handle) == HCCL_E_PTR);
	MUST(HcclRegisterGlobalMem(&mem, nullptr) == HCCL_E_PTR);
	GOOD(HcclRegisterGlobalMem(&mem, &handle));
	GOOD(HcclRegisterGlobalMem(&mem, &again));
	MUST(again == handle);
	for (const CommMem &bad :
	     {CommMem{COMM_MEM_TYPE_DEVICE, b.bytes(0) + 100, 100}, CommMem{COMM_MEM_TYPE_DEVICE, b.at[0], 0},
	      CommMem{COMM_MEM_TYPE_DEVICE, b.at[0], ~0ull}, CommMem{COMM_MEM_TYPE_CCU, b.at[0], 10},
	      CommMem{COMM_MEM_TYPE_INVALID, b.at[0], 10}, CommMem{COMM_MEM_TYPE_DEVICE, b.at[2], 10},
	      CommMem{COMM_MEM_TYPE_HOST, b.at[2], ~0ull - 10}})
		MUST(HcclRegisterGlobalMem(&bad, &again) == HCCL_E_PARA &&
		     says(HCCL_E_PARA, "HcclRegisterGlobalMem", " "));
	for (void *none : {static_cast<void *>(nullptr), static_cast<void *>(&r), b.at[0]}) {
		MUST(HcclDeregisterGlobalMem(none) == HCCL_E_PARA);
		MUST(HcclCommBindMem(r.comm, none) == HCCL_E_PARA && HcclCommUnbindMem(r.comm, none) == HCCL_E_PARA);
	}
	MUST(HcclCommBindMem(nullptr, handle) == HCCL_E_PTR && HcclCommBindMem(&r, handle) == HCCL_E_PTR);
	MUST(HcclCommUnbindMem(r.comm, handle) == HCCL_E_PARA);
	GOOD(HcclCommBindMem(r.comm, handle));
	MUST(HcclCommBindMem(r.comm, handle) == HCCL_E_PARA && says(HCCL_E_PARA, "HcclCommBindMem", "bound"));
	HcclComm comm = r.comm;
	GOOD(HcclRemapRegistedMemory(&comm, &mem, 1, 1));
	mem.addr = b.at[1];
	MUST(HcclRemapRegistedMemory(&comm, &mem, 1, 1) == HCCL_E_PARA);
	MUST(HcclRemapRegistedMemory(&comm, &mem, 0, 1) == HCCL_E_PARA &&
	     HcclRemapRegistedMemory(&comm, nullptr, 1, 1) == HCCL_E_PTR);
	return true;
}

bool refuses_copies(rank_of &r, const buffers &b)
{
	HcclOneSideOpDesc good = {b.at[1], remote(0), 8, u8_type};
	const uint32_t other = !r.rank;
	struct {
		HcclOneSideOpDesc d;
		int want;
	} wrong[] = {{{nullptr, remote(0), 8, u8_type}, HCCL_E_PTR},
		     {{b.at[1], nullptr, 8, u8_type}, HCCL_E_PTR},
		     {{b.at[1], remote(0), 8, HCCL_DATA_TYPE_RESERVED}, HCCL_E_NOT_SUPPORT},
		     {{b.at[1], remote(0), buffers::size + 1, u8_type}, HCCL_E_PARA},
		     {{b.at[1], remote(0), ~0ull, HCCL_DATA_TYPE_FP64}, HCCL_E_PARA},
		     {{b.at[1], remote(0, buffers::size), 1, u8_type}, HCCL_E_PARA},
		     {{b.at[1], &good, 8, u8_type}, HCCL_E_PARA}};

	good.remoteAddr = reinterpret_cast<void *>(both->address[other][0]);
	MUST(HcclBatchPut(nullptr, other, &good, 1, r.stream) == HCCL_E_PTR &&
	     HcclBatchPut(&r, other, &good, 1, r.stream) == HCCL_E_PTR);
	MUST(HcclBatchPut(r.comm, other, nullptr, 1, r.stream) == HCCL_E_PTR &&
	     HcclBatchPut(r.comm, other, &good, 1, nullptr) == HCCL_E_PTR);
	GOOD(HcclBatchPut(r.comm, other, &good, 0, r.stream));
	MUST(HcclBatchPut(r.comm, r.rank, &good, 1, r.stream) == HCCL_E_PARA &&
	     says(HCCL_E_PARA, "HcclBatchPut", "this rank"));
	MUST(HcclBatchGet(r.comm, 2, &good, 1, r.stream) == HCCL_E_PARA);
	const std::vector<HcclOneSideOpDesc> many(257, good);
	MUST(HcclBatchGet(r.comm, other, const_cast<HcclOneSideOpDesc *>(many.data()), 257, r.stream) == HCCL_E_PARA);
	GOOD(HcclBatchGet(r.comm, other, const_cast<HcclOneSideOpDesc *>(many.data()), 256, r.stream));
	for (auto &w : wrong) {
		if (w.d.remoteAddr == remote(0) || w.d.remoteAddr == remote(0, buffers::size))
			w.d.remoteAddr = reinterpret_cast<char *>(both->address[other][0]) +
					 (w.d.remoteAddr == remote(0) ? 0 : buffers::size);
		HcclOneSideOpDesc two[] = {good, w.d};
		MUST(HcclBatchPut(r.comm, other, two, 2, r.stream) == w.want && says(w.want, "HcclBatchPut", " "));
	}
	MUST(HcclBatchPut(r.comm, other, &good, 1, &r) == HCCL_E_RUNTIME &&
	     says(HCCL_E_RUNTIME, "HcclBatchPut", "returned 1070"));
	return true;
}

bool refuses(rank_of &r)
{
	HcclPrepareConfig other = {HCCL_TOPO_NUM, 0, 0, 0};
	HcclCommConfig config;
	buffers b;
	HcclComm comm;

	HcclCommConfigInit(&config);
	MUST(HcclCommInitClusterInfoMemConfig(table_of_two().c_str(), r.rank, &config, &comm) == HCCL_E_PARA);
	MUST(says(HCCL_E_PARA, "HcclCommInitClusterInfoMemConfig", "hcclCommName"));
	MUST(HcclCommInitClusterInfoMemConfig(nullptr, r.rank, &config, &comm) == HCCL_E_PTR);
	strcpy(config.hcclCommName, "x");
	MUST(HcclCommInitClusterInfoMemConfig("{}", r.rank, &config, &comm) == HCCL_E_PARA);
	MUST(join_two(r));
	strcpy(config.hcclCommName, "two sides");
	MUST(HcclCommInitClusterInfoMemConfig(table_of_two().c_str(), r.rank, &config, &comm) == HCCL_E_PARA);
	MUST(HcclCommPrepare(nullptr, &mesh, 0) == HCCL_E_PTR && HcclCommPrepare(r.comm, nullptr, 0) == HCCL_E_PTR);
	MUST(HcclCommPrepare(r.comm, &mesh, -2) == HCCL_E_PARA && HcclCommPrepare(r.comm, &other, 0) == HCCL_E_PARA);
	MUST(refuses_memory(r, b));
	both->address[r.rank][0] = reinterpret_cast<uint64_t>(b.at[0]);
	GOOD(HcclCommPrepare(r.comm, &mesh, -1));
	MUST(refuses_copies(r, b));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	return meet(r);
}

void wrong_arguments(void **)
{
	two_sides(refuses);
}

/* ---- the other side is lost ------------------------------------------------------------------------------------- */

bool loses_the_other(rank_of &r)
{
	buffers b;
	bound mine;
	HcclOneSideOpDesc d[] = {{b.at[1], nullptr, buffers::size, u8_type},
				 {b.at[1], nullptr, buffers::size, u8_type}};
	HcclMemDescs none = {nullptr, 0};
	uint32_t count;

	MUST(join_two(r) && mine.all(r, b));
	GOOD(HcclCommPrepare(r.comm, &mesh, 0));
	d[0].remoteAddr = remote(0);
	d[1].remoteAddr = remote(2);
	MUST(meet(r));
	if (r.rank)
		pause();
	HcclResult ret = HCCL_SUCCESS;
	while (!ret)
		ret = HcclBatchPut(r.comm, 1, d, 2, r.stream);
	MUST(ret == HCCL_E_REMOTE && says(ret, "HcclBatchPut", " "));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	MUST(HcclBatchGet(r.comm, 1, d, 1, r.stream) == HCCL_E_REMOTE && says(HCCL_E_REMOTE, "HcclBatchGet", "lost"));
	MUST(HcclExchangeMemDesc(r.comm, 1, &none, 0, &none, &count) == HCCL_E_REMOTE);
	MUST(mine.none(r));
	GOOD(HcclCommDestroy(r.comm));
	return true;
}

void the_other_is_killed(void **)
{
	kill_second(loses_the_other, 1);
}

/* It never prepares: the wait stops at its limit, or when the communicator is destroyed. */
bool waits_in_vain(rank_of &r)
{
	MUST(join_two(r) && meet(r));
	if (r.rank == 0) {
		HcclResult got = HCCL_SUCCESS;

		MUST(HcclCommPrepare(r.comm, &mesh, 1) == HCCL_E_TIMEOUT &&
		     says(HCCL_E_TIMEOUT, "HcclCommPrepare", "in time"));
		std::thread waits([&] { got = HcclCommPrepare(r.comm, &mesh, -1); });
		GOOD(HcclCommDestroy(r.comm));
		waits.join();
		MUST(got == HCCL_E_UNAVAIL || got == HCCL_E_PTR);
		return meet(r);
	}
	MUST(meet(r));
	GOOD(HcclCommDestroy(r.comm));
	return true;
}

void the_other_does_not_prepare(void **)
{
	two_sides(waits_in_vain);
}

/* A freed block of registered memory is not given to others while the other side has it. */
bool frees_bound_memory(rank_of &r)
{
	buffers b;
	void *handle, *block, *next[8] = {};
	const CommMem host = b.mem(1);

	MUST(join_two(r));
	GOOD(aclrtMalloc(&block, buffers::size, ACL_MEM_MALLOC_NORMAL_ONLY));
	const CommMem mem = {COMM_MEM_TYPE_DEVICE, block, buffers::size};
	GOOD(HcclRegisterGlobalMem(r.rank ? &mem : &host, &handle));
	GOOD(HcclCommBindMem(r.comm, handle));
	both->address[r.rank][0] = reinterpret_cast<uint64_t>(block);
	GOOD(HcclCommPrepare(r.comm, &mesh, 0));
	MUST(meet(r));
	GOOD(aclrtFree(block));
	for (void *&n : next) {
		GOOD(aclrtMalloc(&n, buffers::size, ACL_MEM_MALLOC_NORMAL_ONLY));
		GOOD(aclrtMemset(n, buffers::size, 7, buffers::size));
	}
	MUST(meet(r));
	HcclOneSideOpDesc d = {b.at[1], reinterpret_cast<void *>(both->address[1][0]), buffers::size, u8_type};
	memset(b.at[1], 1, buffers::size);
	if (r.rank == 0) {
		GOOD(HcclBatchPut(r.comm, 1, &d, 1, r.stream));
		GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	}
	MUST(meet(r));
	for (void *n : next) {
		GOOD(aclrtMemcpy(b.at[2], buffers::size, n, buffers::size, ACL_MEMCPY_DEVICE_TO_HOST));
		MUST(std::all_of(b.bytes(2), b.bytes(2) + buffers::size, [](char c) { return c == 7; }));
		GOOD(aclrtFree(n));
	}
	GOOD(HcclCommUnbindMem(r.comm, handle));
	GOOD(HcclDeregisterGlobalMem(handle));
	GOOD(HcclCommDestroy(r.comm));
	return true;
}

void bound_memory_is_freed(void **)
{
	two_sides(frees_bound_memory);
}

/* ---- memory by itself ------------------------------------------------------------------------------------------- */

HcclNetDevInfos some_device()
{
	HcclNetDevInfos info;

	info.netdevDeployment = HCCL_NETDEV_DEPLOYMENT_DEVICE;
	info.devicePhyId = 0;
	info.addr.protoType = HCCL_PROTO_TYPE_BUS;
	info.addr.type = HCCL_ADDR_TYPE_IP_V4;
	info.addr.addr.s_addr = htonl(INADDR_LOOPBACK);
	return info;
}

bool shares_buffers(rank_of &r)
{
	const HcclNetDevInfos info = some_device();
	HcclNetDev dev = nullptr;
	HcclAddress address;
	buffers b;
	model m;
	HcclBuf buf = {}, other = {};
	char *desc = nullptr;
	uint64_t len = 0;

	MUST(m.fill(r, b));
	MUST(HcclNetDevOpen(nullptr, &dev) == HCCL_E_PTR && HcclNetDevOpen(&info, nullptr) == HCCL_E_PTR);
	GOOD(HcclNetDevOpen(&info, &dev));
	GOOD(HcclNetDevGetAddr(dev, &address));
	MUST(address.addr.s_addr == htonl(INADDR_LOOPBACK) && HcclNetDevGetAddr(&r, &address) == HCCL_E_PARA);
	MUST(HcclNetDevGetBusAddr({}, &address) == HCCL_E_NOT_SUPPORT);
	const HcclMem mem = {HCCL_MEM_TYPE_DEVICE, b.bytes(0) + 512, 1000},
		      part = {HCCL_MEM_TYPE_DEVICE, b.bytes(0) + 600, 100};
	GOOD(HcclMemReg(dev, &mem, &buf));
	MUST(HcclMemReg(dev, &mem, &other) == HCCL_E_AGAIN && other.handle == buf.handle);
	MUST(HcclMemReg(dev, &part, &other) == HCCL_E_INTERNAL && HcclMemReg(&r, &mem, &other) == HCCL_E_PARA);
	GOOD(HcclMemExport(&buf, &desc, &len));
	memcpy(both->desc[r.rank][0], desc, len);
	both->length[r.rank][0] = uint32_t(len);
	both->pid[r.rank] = uint32_t(getpid());
	MUST(meet(r));
	const char *theirs = reinterpret_cast<const char *>(both->desc[!r.rank][0]);
	const HcclMemGrantInfo grant = {0xffffffff, int32_t(both->pid[!r.rank])};
	MUST(HcclMemImport(theirs, uint32_t(len), true, &other, dev) == HCCL_E_RUNTIME &&
	     says(HCCL_E_RUNTIME, "HcclMemImport", "2070"));
	MUST(meet(r));
	GOOD(HcclMemGrant(&buf, &grant));
	MUST(meet(r));
	GOOD(HcclMemImport(theirs, uint32_t(len), true, &other, dev));
	std::vector<unsigned char> got(1000);
	GOOD(aclrtMemcpy(got.data(), 1000, other.addr, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
	MUST(std::equal(got.begin(), got.end(), m.of_side[!r.rank][0].begin() + 512));
	MUST(HcclMemImport(theirs, uint32_t(len) - 1, true, &other, dev) == HCCL_E_PARA);
	MUST(HcclMemImport(b.bytes(1), uint32_t(len), true, &other, dev) == HCCL_E_PARA);
	MUST(meet(r));
	GOOD(HcclMemClose(&other));
	MUST(HcclMemClose(&other) == HCCL_E_PARA);
	GOOD(HcclMemRemap(dev, &mem, 1));
	MUST(HcclMemDereg(&buf) == HCCL_E_AGAIN);
	GOOD(HcclMemDereg(&buf));
	MUST(HcclMemDereg(&buf) == HCCL_E_PARA && HcclMemRemap(dev, &mem, 1) == HCCL_E_PARA);
	GOOD(HcclNetDevClose(dev));
	MUST(HcclNetDevClose(dev) == HCCL_E_PARA);
	return true;
}

void buffers_are_shared(void **)
{
	two_sides(shares_buffers);
}

/* As HIXL finds them. */
void names_are_in_libhcomm(void **)
{
	void *const library = dlopen("libhcomm.so", RTLD_NOW | RTLD_GLOBAL);

	assert_non_null(library);
	for (const char *name : {"HcclExchangeMemDesc", "HcclCommInitClusterInfoMemConfig", "HcclCommDestroy",
				 "HcclBatchPut", "HcclBatchGet", "HcclRemapRegistedMemory", "HcclRegisterGlobalMem",
				 "HcclDeregisterGlobalMem", "HcclCommBindMem", "HcclCommUnbindMem", "HcclCommPrepare"})
		assert_non_null(dlsym(library, name));
	assert_ptr_equal(dlsym(library, "HcclBatchPut"), reinterpret_cast<void *>(HcclBatchPut));
	dlclose(library);
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(random_copies),
				    cmocka_unit_test(the_flag_is_behind_the_data),
				    cmocka_unit_test(descriptors_are_carried),
				    cmocka_unit_test(memory_is_enabled),
				    cmocka_unit_test(wrong_arguments),
				    cmocka_unit_test(the_other_is_killed),
				    cmocka_unit_test(the_other_does_not_prepare),
				    cmocka_unit_test(bound_memory_is_freed),
				    cmocka_unit_test(buffers_are_shared),
				    cmocka_unit_test(names_are_in_libhcomm)};

	prepare_sides();
	return cmocka_run_group_tests_name("hccl_one_sided", tests, nullptr, nullptr);
}
