/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCOMM's endpoints, memory, channels and threads, in the order of calls of HIXL's client and server (cs): endpoint,
 * port, memory, export, import, channels of both, status until they are connected, copies, a fence, a flag.
 */
#include "tests/integration/hccl/one_sided.h"

#include <atomic>

namespace {

constexpr uint32_t notifies = 3;

EndpointDesc endpoint_of(uint32_t side)
{
	EndpointDesc d;

	EndpointDescInit(&d, 1);
	d.protocol = COMM_PROTOCOL_ROCE;
	d.commAddr.type = COMM_ADDR_TYPE_IP_V4;
	d.commAddr.addr.s_addr = htonl(0x0a000000 + side);
	d.loc.locType = side ? ENDPOINT_LOC_TYPE_DEVICE : ENDPOINT_LOC_TYPE_HOST;
	if (side)
		d.loc.device = {0, 0, 0, 0};
	return d;
}

/* How the sides find each other, and how one learns of the other's memory. */
enum modes { by_name = 1, by_role = 2, all_memory = 4, some_memory = 8, by_import = 16, old_version = 32 };

HcommChannelDesc channel_of(const rank_of &r, uint32_t port, int mode)
{
	HcommChannelDesc d;

	HcommChannelDescInit(&d, 1);
	d.remoteEndpoint = endpoint_of(!r.rank);
	d.notifyNum = notifies;
	d.port = uint16_t(port);
	d.exchangeAllMems = mode & all_memory;
	if (mode & (by_role | by_name))
		d.role = r.rank ? HCOMM_SOCKET_ROLE_SERVER : HCOMM_SOCKET_ROLE_CLIENT;
	if (mode & by_name)
		d.channelName = "10.0.0.0_10.0.0.1_1";
	if (mode & old_version) {
		d.header.version = HCOMM_CHANNEL_VERSION_ONE;
		d.header.size = HCOMM_CHANNEL_DESC_ABI_V1_SIZE;
		d.channelName = reinterpret_cast<const char *>(8); /* what follows an old one is not read */
	}
	return d;
}

/* An endpoint with the buffers, and a channel. */
struct peer_of {
	bool open(const rank_of &r, buffers &b, int mode)
	{
		const EndpointDesc is = endpoint_of(r.rank);

		GOOD(HcommEndpointCreate(&is, &endpoint));
		for (int kind = 0; kind < 3; kind++) {
			const CommMem mem = b.mem(kind);
			void *desc;

			GOOD(HcommMemReg(endpoint, "memory", &mem, &memory[kind]));
			both->address[r.rank][kind] = reinterpret_cast<uint64_t>(b.at[kind]);
			GOOD(HcommMemExport(endpoint, memory[kind], &desc, &both->length[r.rank][kind]));
			memcpy(both->desc[r.rank][kind], desc, both->length[r.rank][kind]);
		}
		if (r.rank)
			GOOD(HcommEndpointGetListenPort(endpoint, &both->port));
		MUST(meet(r));
		return !(mode & by_import) || import(r);
	}
	bool import(const rank_of &r)
	{
		for (int kind = 0; kind < 3; kind++)
			for (int twice = 0; twice < 2; twice++) {
				CommMem mem = {};

				GOOD(HcommMemImport(endpoint, both->desc[!r.rank][kind], both->length[!r.rank][kind],
						    &mem));
				MUST(mem.type == buffers::types[kind] && mem.size == buffers::size &&
				     mem.addr == remote(r, kind));
			}
		return true;
	}
	bool connect(const rank_of &r, int mode)
	{
		HcommChannelDesc d = channel_of(r, both->port, mode);
		int32_t status = 1;

		if (mode & some_memory) {
			d.memHandles = memory;
			d.memHandleNum = 3;
		}
		GOOD(HcommChannelCreate(endpoint, COMM_ENGINE_CPU, &d, 1, &channel));
		MUST(HcommWriteNbi(channel, this, this, 1) == HCCL_E_UNAVAIL);
		MUST(eventually([&] { return HcommChannelGetStatus(&channel, 1, &status) || status != 1; }));
		MUST(status == 0);
		return true;
	}
	bool close(const rank_of &r, int mode)
	{
		GOOD(HcommChannelDestroy(&channel, 1));
		MUST(HcommChannelDestroy(&channel, 1) == HCCL_E_NOT_FOUND);
		for (int kind = 0; kind < 3; kind++) {
			if (mode & by_import)
				for (int twice = 0; twice < 2; twice++)
					GOOD(HcommMemUnimport(endpoint, both->desc[!r.rank][kind],
							      both->length[!r.rank][kind]));
			MUST(HcommMemUnimport(endpoint, both->desc[!r.rank][kind], both->length[!r.rank][kind]) ==
			     HCCL_E_NOT_FOUND);
			GOOD(HcommMemUnreg(endpoint, memory[kind]));
			MUST(HcommMemUnreg(endpoint, memory[kind]) == HCCL_E_NOT_FOUND);
		}
		GOOD(HcommEndpointDestroy(endpoint));
		MUST(HcommEndpointDestroy(endpoint) == HCCL_E_NOT_FOUND);
		return true;
	}
	static char *remote(const rank_of &r, int kind)
	{
		return reinterpret_cast<char *>(both->address[!r.rank][kind]);
	}

	EndpointHandle endpoint = nullptr;
	HcommMemHandle memory[3] = {};
	ChannelHandle channel = 0;
};

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* By any of the forms, on the channel or on one of two threads. */
bool run_copy(const rank_of &r, const peer_of &p, model &m, const buffers &b, const ThreadHandle (&threads)[2])
{
	const random_copy c(m);
	const auto form = m.below(4);
	const ThreadHandle thread = form < 2 ? threads[form] : 0;
	char *const own = b.bytes(c.own) + c.from_own, *const other = p.remote(r, c.other) + c.from_other;
	HcommBatchTransferDesc d = {};

	if (m.below(8) == 0) {
		d.transType = c.put ? HCOMM_TRANSFER_TYPE_WRITE : HCOMM_TRANSFER_TYPE_READ;
		d.transferInfo.write = {c.bytes, c.put ? other : own, c.put ? own : other};
		GOOD(HcommBatchTransferOnThread(thread, p.channel, &d, 1));
		return true;
	}
	if (c.put)
		GOOD((form & 1 ? HcommWriteOnThread : HcommWriteNbiOnThread)(thread, p.channel, other, own, c.bytes));
	else
		GOOD((form & 1 ? HcommReadOnThread : HcommReadNbiOnThread)(thread, p.channel, own, other, c.bytes));
	return true;
}

bool copies_at_random(rank_of &r, int mode)
{
	const uint32_t counts[2] = {1, 0};
	ThreadHandle threads[2];
	buffers b;
	peer_of p;
	model m;

	GOOD(HcommThreadAlloc(COMM_ENGINE_CPU_TS, 2, counts, threads));
	MUST(m.fill(r, b) && p.open(r, b, mode) && p.connect(r, mode));
	for (unsigned i = 0; i < 300 * scale(); i++)
		if (r.rank == 0) {
			MUST(run_copy(r, p, m, b, threads));
		} else {
			(void)random_copy(m);
			(void)m.below(4);
			(void)m.below(8);
		}
	GOOD(HcommChannelDrainOnThread(m.below(2) ? threads[0] : 0, p.channel));
	MUST(meet(r) && m.matches(r, b));
	GOOD(HcommThreadFree(threads, 2));
	MUST(HcommThreadFree(threads, 1) == HCCL_E_NOT_FOUND);
	GOOD(HcommChannelFence(p.channel));
	return meet(r) && p.close(r, mode);
}

void random_copies(void **)
{
	two_sides([](rank_of &r) { return copies_at_random(r, by_name | by_import); });
	two_sides([](rank_of &r) { return copies_at_random(r, by_role | all_memory); });
	two_sides([](rank_of &r) { return copies_at_random(r, some_memory | old_version); });
}

/* As HIXL sees that a transfer is done: a read of a flag behind it sets a word of this process. */
bool reads_a_flag(rank_of &r)
{
	const uint32_t one[] = {1, 1};
	const uint64_t rounds = 300 * scale();
	constexpr size_t bytes = 64 << 10;
	ThreadHandle threads[2];
	buffers b;
	peer_of p;

	if (r.rank) {
		memset(b.at[1], 0xff, buffers::size);
		GOOD(aclrtMemcpy(b.at[0], buffers::size, b.at[1], buffers::size, ACL_MEMCPY_HOST_TO_DEVICE));
	}
	GOOD(HcommThreadAlloc(COMM_ENGINE_AICPU_TS, 2, one, threads));
	MUST(p.open(r, b, 0) && p.connect(r, by_name | all_memory));
	for (uint64_t i = 0; r.rank == 0 && i < rounds; i++) {
		auto *const flag = reinterpret_cast<uint64_t *>(b.bytes(1) + bytes);
		const ThreadHandle on = i & 1 ? threads[0] : 0;

		memset(b.at[1], 0, bytes);
		__atomic_store_n(flag, 0, __ATOMIC_RELEASE);
		/* The data waits in one stream, and the flag is read in another one. */
		if (i % 6 == 0)
			GOOD(HcommThreadNotifyWaitOnThread(threads[0], 0, 60));
		for (size_t at = 0; at < bytes; at += bytes / 8)
			GOOD(HcommReadNbiOnThread(i % 6 ? on : threads[0], p.channel, b.bytes(1) + at,
						  p.remote(r, 0) + at, bytes / 8));
		GOOD(HcommReadNbiOnThread(on, p.channel, flag, p.remote(r, 0) + bytes, 8));
		if (i % 6 == 0) {
			usleep(1000);
			GOOD(HcommThreadNotifyRecordOnThread(threads[1], threads[0], 0));
		}
		MUST(eventually([=] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0; }));
		MUST(std::all_of(b.bytes(1), b.bytes(1) + bytes, [](char c) { return c == '\xff'; }));
	}
	GOOD(HcommThreadFree(threads, 2));
	return meet(r) && p.close(r, 0);
}

void the_flag_is_behind_the_data(void **)
{
	two_sides(reads_a_flag);
}

/* ---- notifies, reductions --------------------------------------------------------------------------------------- */

bool plays_ping_pong(rank_of &r)
{
	const uint32_t one = 1;
	const unsigned rounds = 200 * scale();
	ThreadHandle thread;
	buffers b;
	peer_of p;
	auto *const word = static_cast<uint64_t *>(b.at[1]);

	GOOD(HcommThreadAlloc(COMM_ENGINE_CPU_TS, 1, &one, &thread));
	MUST(p.open(r, b, 0) && p.connect(r, by_role | all_memory));
	for (uint64_t i = 1; i <= rounds; i++) {
		const uint32_t index = uint32_t(i % notifies);
		const ThreadHandle on = i & 1 ? thread : 0;

		for (bool mine : {r.rank == 0, r.rank == 1})
			if (mine) {
				*word = i;
				GOOD((i & 2 ? HcommWriteWithNotifyOnThread : HcommWriteWithNotifyNbiOnThread)(
					on, p.channel, p.remote(r, 0), word, 8, index));
				GOOD(HcommChannelDrainOnThread(on, p.channel));
			} else {
				GOOD(HcommChannelNotifyWaitOnThread(on, p.channel, index, 60));
				GOOD(HcommLocalCopyOnThread(thread, word + 1, b.at[0], 8));
				GOOD(HcommChannelDrainOnThread(thread, p.channel));
				MUST(word[1] == i);
			}
	}
	/* One that is not recorded stops the wait. */
	MUST(HcommChannelNotifyWait(p.channel, 0, 1) == HCCL_E_TIMEOUT &&
	     says(HCCL_E_TIMEOUT, "HcommChannelNotifyWait", "in time"));
	GOOD(HcommThreadNotifyRecordOnThread(thread, thread, 0));
	GOOD(HcommThreadNotifyWaitOnThread(thread, 0, 60));
	GOOD(HcommFenceOnThread(thread));
	GOOD(HcommThreadFree(&thread, 1));
	return meet(r) && p.close(r, 0);
}

void notifies_are_recorded(void **)
{
	two_sides(plays_ping_pong);
}

bool reduces(rank_of &r)
{
	constexpr size_t n = 1000;
	std::vector<float> got(n);
	const uint32_t none = 0;
	ThreadHandle thread;
	buffers b;
	peer_of p;

	GOOD(HcommThreadAlloc(COMM_ENGINE_CPU_TS, 1, &none, &thread));
	std::fill_n(static_cast<float *>(b.at[1]), n, float(r.rank + 1));
	GOOD(aclrtMemcpy(b.at[0], n * 4, b.at[1], n * 4, ACL_MEMCPY_HOST_TO_DEVICE));
	MUST(p.open(r, b, 0) && p.connect(r, by_role | all_memory));
	if (r.rank == 0) {
		HcommBatchTransferDesc d[2] = {};

		GOOD(HcommWriteReduceOnThread(0, p.channel, p.remote(r, 0), b.at[0], n, HCOMM_DATA_TYPE_FP32,
					      HCOMM_REDUCE_SUM)); /* 3 */
		GOOD(HcommReadReduceOnThread(thread, p.channel, b.at[0], p.remote(r, 0), n, HCOMM_DATA_TYPE_FP32,
					     HCOMM_REDUCE_PROD));
		GOOD(HcommLocalReduceOnThread(thread, b.at[0], b.at[0], n, HCOMM_DATA_TYPE_FP32,
					      HCOMM_REDUCE_SUM)); /* 6 */
		MUST(HcommWriteReduceOnThread(0, p.channel, p.remote(r, 1), b.at[0], n, HCOMM_DATA_TYPE_FP32,
					      HCOMM_REDUCE_SUM) == HCCL_E_NOT_SUPPORT);
		MUST(HcommWriteReduceOnThread(0, p.channel, p.remote(r, 0), b.at[0], n, HCOMM_DATA_TYPE_RESERVED,
					      HCOMM_REDUCE_SUM) == HCCL_E_PARA);
		MUST(HcommWriteReduceOnThread(0, p.channel, p.remote(r, 0), b.at[0], n, HCOMM_DATA_TYPE_FP32,
					      HCOMM_REDUCE_RESERVED));
		d[0].transType = HCOMM_TRANSFER_TYPE_WRITE_REDUCE_WITH_NOTIFY;
		d[0].transferInfo.writeReduceWithNotify = {
			n, p.remote(r, 0), b.at[0], HCOMM_REDUCE_MAX, HCOMM_DATA_TYPE_FP32, 1};
		d[1].transType = HCOMM_TRANSFER_TYPE_NOTIFY_RECORD;
		d[1].transferInfo.notifyRecord.notifyIdx = 2;
		GOOD(HcommBatchModeStart("reductions"));
		GOOD(HcommBatchTransferOnThread(thread, p.channel, d, 2));
		GOOD(HcommBatchModeEnd("reductions"));
		GOOD(HcommChannelDrainOnThread(thread, p.channel));
	} else {
		GOOD(HcommChannelNotifyWaitOnThreadWithDefaultTimeout(0, p.channel, 2));
		GOOD(HcommChannelNotifyWait(p.channel, 1, 60));
	}
	GOOD(aclrtMemcpy(got.data(), n * 4, b.at[0], n * 4, ACL_MEMCPY_DEVICE_TO_HOST));
	MUST(got == std::vector<float>(n, 6));
	GOOD(HcommThreadFree(&thread, 1));
	return meet(r) && p.close(r, 0);
}

void reductions(void **)
{
	two_sides(reduces);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

/* A call that must fail: its code and a part of its text. */
#define REFUSED(name, want, why, ...)                                                                                  \
	do {                                                                                                           \
		const int got = name(__VA_ARGS__);                                                                     \
		if (got != (want))                                                                                     \
			fprintf(stderr, "# %s: %d\n", #name, got);                                                     \
		MUST(got == (want) && says(got, #name, why));                                                          \
	} while (0)

bool refuses_resources(rank_of &r, const buffers &b)
{
	EndpointDesc is = endpoint_of(0), bad = is;
	EndpointHandle e = nullptr;
	HcommMemHandle handle = nullptr;
	CommMem mem = b.mem(0);
	uint32_t n = 1, len = 0;
	ThreadHandle t = 0;
	void *at = nullptr;
	bool value = true;

	REFUSED(HcommEndpointCreate, HCCL_E_PTR, "NULL", nullptr, &e);
	REFUSED(HcommEndpointCreate, HCCL_E_PTR, "NULL", &is, nullptr);
	bad.loc.locType = ENDPOINT_LOC_TYPE_RESERVED;
	REFUSED(HcommEndpointCreate, HCCL_E_PARA, "locType", &bad, &e);
	bad = is;
	bad.protocol = COMM_PROTOCOL_RESERVED;
	REFUSED(HcommEndpointCreate, HCCL_E_PARA, "protocol", &bad, &e);
	GOOD(HcommEndpointCreate(&is, &e));
	REFUSED(HcommEndpointGetListenPort, HCCL_E_PTR, "NULL", e, nullptr);
	REFUSED(HcommEndpointGetListenPort, HCCL_E_NOT_FOUND, "no endpoint", &r, &n);
	GOOD(HcommEndpointCheckFeature(HCOMM_ENDPOINT_FEATURE_NDA, &is, &value));
	MUST(!value);
	REFUSED(HcommEndpointCheckFeature, HCCL_E_PARA, "feature", HCOMM_ENDPOINT_FEATURE_INVALID, &is, &value);
	REFUSED(HcommMemReg, HCCL_E_NOT_FOUND, "no endpoint", &r, nullptr, &mem, &handle);
	REFUSED(HcommMemReg, HCCL_E_PTR, "NULL", e, nullptr, nullptr, &handle);
	REFUSED(HcommMemReg, HCCL_E_PTR, "NULL", e, nullptr, &mem, nullptr);
	REFUSED(HcommMemReg, HCCL_E_PARA, "255", e, std::string(256, 'x').c_str(), &mem, &handle);
	GOOD(HcommMemReg(e, std::string(255, 'x').c_str(), &mem, &handle));
	MUST(HcommMemReg(e, nullptr, &mem, &at) == HCCL_E_AGAIN && at == handle);
	REFUSED(HcommMemUnreg, HCCL_E_AGAIN, "more", e, handle);
	mem.size = 0;
	REFUSED(HcommMemReg, HCCL_E_PARA, "size is 0", e, nullptr, &mem, &at);
	REFUSED(HcommMemExport, HCCL_E_NOT_FOUND, "memHandle", e, &r, &at, &len);
	REFUSED(HcommMemExport, HCCL_E_PTR, "NULL", e, handle, nullptr, &len);
	REFUSED(HcommMemImport, HCCL_E_PTR, "NULL", e, nullptr, 8, &mem);
	REFUSED(HcommMemImport, HCCL_E_PARA, "descLen", e, &r, 8, &mem);
	GOOD(HcommMemExport(e, handle, &at, &len));
	std::string desc(static_cast<char *>(at), len);
	desc[0] ^= 1;
	REFUSED(HcommMemImport, HCCL_E_PARA, "no description", e, desc.data(), len, &mem);
	REFUSED(HcommMemUnimport, HCCL_E_NOT_FOUND, "not imported", e, at, len);
	GOOD(HcommMemUnreg(e, handle));
	GOOD(HcommEndpointDestroy(e));
	REFUSED(HcommMemUnreg, HCCL_E_NOT_FOUND, "no endpoint", e, handle);
	REFUSED(HcommThreadAlloc, HCCL_E_PTR, "NULL", COMM_ENGINE_CPU, 1, nullptr, &t);
	REFUSED(HcommThreadAlloc, HCCL_E_PARA, "threadNum", COMM_ENGINE_CPU, 0, &n, &t);
	REFUSED(HcommThreadAlloc, HCCL_E_PARA, "threadNum", COMM_ENGINE_CPU, 201, &n, &t);
	REFUSED(HcommThreadAlloc, HCCL_E_NOT_SUPPORT, "kernels", COMM_ENGINE_AIV, 1, &n, &t);
	REFUSED(HcommThreadAlloc, HCCL_E_PARA, "engine", COMM_ENGINE_RESERVED, 1, &n, &t);
	n = 65;
	REFUSED(HcommThreadAlloc, HCCL_E_PARA, "at most 64", COMM_ENGINE_CPU, 1, &n, &t);
	GOOD(HcommThreadAllocWithStream(COMM_ENGINE_CPU, r.stream, 1, &t));
	GOOD(HcommThreadResGetInfo(t, THREAD_RES_TYPE_STREAM, sizeof(at), &at));
	MUST(at == r.stream);
	REFUSED(HcommThreadResGetInfo, HCCL_E_PARA, "infoLen", t, THREAD_RES_TYPE_STREAM, 4, &at);
	REFUSED(HcommThreadNotifyWaitOnThread, HCCL_E_PARA, "notify 1", t, 1, 1);
	REFUSED(HcommThreadNotifyRecordOnThread, HCCL_E_NOT_FOUND, "no thread", t, 77, 0);
	REFUSED(HcommLocalCopyOnThread, HCCL_E_NOT_FOUND, "no thread", 77, b.at[0], b.at[1], 1);
	REFUSED(HcommLocalCopyOnThread, HCCL_E_PTR, "NULL", t, nullptr, b.at[1], 1);
	GOOD(HcommThreadFree(&t, 1));
	GOOD(aclrtSynchronizeStream(r.stream));
	REFUSED(HcommBatchModeEnd, HCCL_E_PARA, "not begun", "tag");
	REFUSED(HcommBatchModeStart, HCCL_E_PTR, "NULL", nullptr);
	GOOD(HcommBatchModeStart("tag"));
	REFUSED(HcommBatchModeStart, HCCL_E_PARA, "begun", "tag");
	REFUSED(HcommBatchModeEnd, HCCL_E_PARA, "not begun", "other");
	GOOD(HcommBatchModeEnd("tag"));
	REFUSED(HcommAcquireComm, HCCL_E_NOT_SUPPORT, "device", "x");
	REFUSED(HcommReleaseComm, HCCL_E_NOT_SUPPORT, "device", "x");
	REFUSED(HcommAclrtNotifyRecordOnThread, HCCL_E_NOT_SUPPORT, "device", 0, 0);
	REFUSED(HcommAclrtNotifyWaitOnThread, HCCL_E_NOT_SUPPORT, "device", 0, 0, 0);
	REFUSED(HcommSetNotifyWaitTimeOut, HCCL_E_NOT_SUPPORT, "device", 1);
	REFUSED(HcommThreadResAcquireTimeOut, HCCL_E_NOT_SUPPORT, "device", 1);
	REFUSED(HcommMemAlloc, HCCL_E_PARA, "size", &at, 0);
	GOOD(HcommMemAlloc(&at, 100));
	GOOD(HcommMemFree(at));
	REFUSED(HcommMemFree, HCCL_E_PTR, "NULL", nullptr);
	return true;
}

bool refuses_channels(rank_of &r, peer_of &p)
{
	HcommChannelDesc good = channel_of(r, 1, by_role), d = good;
	HcommMemHandle handles[] = {&r};
	ChannelHandle c = 0;
	int32_t status;
	const auto create = [&](int want, const char *why) {
		const int got = HcommChannelCreate(p.endpoint, COMM_ENGINE_CPU, &d, 1, &c);
		d = good;
		return got == want && says(got, "HcommChannelCreate", why);
	};

	REFUSED(HcommChannelCreate, HCCL_E_PTR, "NULL", p.endpoint, COMM_ENGINE_CPU, nullptr, 1, &c);
	REFUSED(HcommChannelCreate, HCCL_E_PARA, "0 channels", p.endpoint, COMM_ENGINE_CPU, &d, 0, &c);
	REFUSED(HcommChannelCreate, HCCL_E_NOT_FOUND, "no endpoint", &r, COMM_ENGINE_CPU, &d, 1, &c);
	REFUSED(HcommChannelCreate, HCCL_E_NOT_SUPPORT, "kernels", p.endpoint, COMM_ENGINE_CCU, &d, 1, &c);
	d.header.magicWord = 0;
	MUST(create(HCCL_E_PARA, "HcommChannelDescInit"));
	d.header.size = 8;
	MUST(create(HCCL_E_PARA, "HcommChannelDescInit"));
	d.notifyNum = 65;
	MUST(create(HCCL_E_PARA, "at most 64"));
	const std::string name(192, 'x');
	d.channelName = name.c_str();
	MUST(create(HCCL_E_PARA, "191"));
	d.role = HcommSocketRole(2);
	MUST(create(HCCL_E_PARA, "role"));
	d.role = HCOMM_SOCKET_ROLE_RESERVED;
	d.remoteEndpoint = endpoint_of(r.rank);
	MUST(create(HCCL_E_PARA, "the same"));
	d.socket = &r;
	MUST(create(HCCL_E_NOT_SUPPORT, "socket"));
	d.memHandleNum = 1;
	MUST(create(HCCL_E_PTR, "memHandles"));
	d.memHandles = handles;
	d.memHandleNum = 1;
	MUST(create(HCCL_E_NOT_FOUND, "memHandles"));
	REFUSED(HcommChannelGetStatus, HCCL_E_PTR, "NULL", &p.channel, 1, nullptr);
	REFUSED(HcommChannelGetStatus, HCCL_E_PARA, "0 channels", &p.channel, 0, &status);
	c = 77;
	REFUSED(HcommChannelGetStatus, HCCL_E_NOT_FOUND, "no channel", &c, 1, &status);
	REFUSED(HcommChannelDestroy, HCCL_E_PTR, "NULL", nullptr, 1);
	/* No other side comes. */
	GOOD(HcommChannelCreate(p.endpoint, COMM_ENGINE_CPU, &good, 1, &c));
	MUST(eventually([&] { return HcommChannelGetStatus(&c, 1, &status) || status != 1; }));
	MUST(status == 3);
	REFUSED(HcommWriteOnThread, HCCL_E_TIMEOUT, "HCCL_CONNECT_TIMEOUT", 0, c, &r, &r, 1);
	GOOD(HcommChannelDestroy(&c, 1));
	return true;
}

bool refuses(rank_of &r)
{
	buffers b;
	peer_of p;

	setenv("HCCL_CONNECT_TIMEOUT", r.rank ? "100" : "1", 1);
	MUST(refuses_resources(r, b));
	MUST(p.open(r, b, 0));
	MUST(r.rank || refuses_channels(r, p));
	setenv("HCCL_CONNECT_TIMEOUT", "100", 1);
	MUST(meet(r) && p.connect(r, by_name | all_memory));
	char *const there = p.remote(r, 0);
	REFUSED(HcommWriteOnThread, HCCL_E_NOT_FOUND, "no channel", 0, 77, there, b.at[0], 1);
	REFUSED(HcommWriteOnThread, HCCL_E_NOT_FOUND, "no thread", 77, p.channel, there, b.at[0], 1);
	REFUSED(HcommWriteOnThread, HCCL_E_PTR, "NULL", 0, p.channel, nullptr, b.at[0], 1);
	REFUSED(HcommReadOnThread, HCCL_E_PTR, "NULL", 0, p.channel, nullptr, there, 1);
	REFUSED(HcommWriteOnThread, HCCL_E_PARA, "not in memory", 0, p.channel, there + buffers::size, b.at[0], 1);
	REFUSED(HcommReadOnThread, HCCL_E_PARA, "not in memory", 0, p.channel, b.at[0], there + 1, buffers::size);
	REFUSED(HcommReadOnThread, HCCL_E_PARA, "not in memory", 0, p.channel, b.at[0], there, ~0ull);
	GOOD(HcommReadOnThread(0, p.channel, b.at[0], there, 0));
	REFUSED(HcommChannelNotifyRecordOnThread, HCCL_E_PARA, "notify 3", 0, p.channel, notifies);
	REFUSED(HcommChannelNotifyWaitOnThread, HCCL_E_PARA, "notify 3", 0, p.channel, notifies, 1);
	REFUSED(HcommWriteWithNotifyOnThread, HCCL_E_PARA, "notify 3", 0, p.channel, there, b.at[0], 1, notifies);
	REFUSED(HcommBatchTransferOnThread, HCCL_E_PTR, "NULL", 0, p.channel, nullptr, 1);
	const HcommBatchTransferDesc unknown = {HcommTransferType(7), {}, {}};
	REFUSED(HcommBatchTransferOnThread, HCCL_E_PARA, "transType", 0, p.channel, &unknown, 1);
	return meet(r) && p.close(r, 0);
}

void wrong_arguments(void **)
{
	two_sides(refuses);
}

/* ---- the other side is lost ------------------------------------------------------------------------------------- */

bool loses_the_other(rank_of &r)
{
	buffers b;
	peer_of p;
	int32_t status = 0;

	MUST(p.open(r, b, by_import) && p.connect(r, by_name) && meet(r));
	if (r.rank)
		pause();
	MUST(HcommChannelNotifyWait(p.channel, 0, 0) == HCCL_E_REMOTE &&
	     says(HCCL_E_REMOTE, "HcommChannelNotifyWait", "lost"));
	REFUSED(HcommWriteOnThread, HCCL_E_REMOTE, "lost", 0, p.channel, p.remote(r, 0), b.at[1], 8);
	REFUSED(HcommReadOnThread, HCCL_E_REMOTE, "lost", 0, p.channel, b.at[1], p.remote(r, 2), 8);
	REFUSED(HcommChannelNotifyRecord, HCCL_E_REMOTE, "lost", p.channel, 0);
	GOOD(HcommChannelGetStatus(&p.channel, 1, &status));
	MUST(status == 2);
	return p.close(r, by_import);
}

void the_other_is_killed(void **)
{
	kill_second(loses_the_other, 2);
}

/* ---- in one process --------------------------------------------------------------------------------------------- */

/* Two endpoints of one process, and a channel between them. */
struct pair_here {
	void connect(const buffers &b, const char *name)
	{
		int32_t status[2] = {1, 1};

		for (uint32_t side = 0; side < 2; side++) {
			const EndpointDesc is = endpoint_of(side);
			HcommChannelDesc d = channel_of({side}, 7, by_role | all_memory);
			const CommMem mem = b.mem(0), host = b.mem(2);

			d.channelName = name;
			assert_int_equal(HcommEndpointCreate(&is, &endpoints[side]), 0);
			assert_int_equal(HcommMemReg(endpoints[side], "a", &mem, &memory), 0);
			assert_int_equal(HcommMemReg(endpoints[side], "b", &host, &memory), 0);
			assert_int_equal(HcommChannelCreate(endpoints[side], COMM_ENGINE_CPU, &d, 1, &channels[side]),
					 0);
		}
		while (status[0] || status[1])
			assert_int_equal(HcommChannelGetStatus(channels, 2, status), 0);
	}
	void close()
	{
		assert_int_equal(HcommChannelDestroy(channels, 2), 0);
		for (EndpointHandle e : endpoints)
			assert_int_equal(HcommEndpointDestroy(e), 0);
	}
	EndpointHandle endpoints[2];
	HcommMemHandle memory;
	ChannelHandle channels[2];
};

long resident_kib()
{
	FILE *const f = fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* Everything is made, used and ended again and again. */
void nothing_grows(void **)
{
	const unsigned rounds = 200 * scale();
	const std::string name = "round " + std::to_string(getpid());
	const uint32_t one = 1;
	buffers b;
	long kib = 0;
	unsigned fds = 0;

	for (unsigned i = 0; i < rounds; i++) {
		ThreadHandle thread;
		pair_here p;

		p.connect(b, name.c_str());
		assert_int_equal(HcommThreadAlloc(COMM_ENGINE_CPU, 1, &one, &thread), 0);
		assert_int_equal(HcommWriteOnThread(thread, p.channels[0], b.bytes(2) + 8, b.at[0], 64), 0);
		assert_int_equal(HcommWriteWithNotifyNbi(p.channels[1], b.at[0], b.at[2], 64, 0), 0);
		assert_int_equal(HcommChannelNotifyWait(p.channels[0], 0, 60), 0);
		assert_int_equal(HcommThreadFree(&thread, 1), 0);
		p.close();
		if (i == rounds / 2) {
			kib = resident_kib();
			fds = fds_without_rings();
		}
	}
	assert_int_equal(fds_without_rings(), fds);
	if (scale() > 10)
		assert_true(resident_kib() < kib + 2000);
}

/* Threads use a pair of channels while others destroy what it consists of. */
void used_while_destroyed(void **)
{
	for (unsigned turn = 0; turn < 20 * scale(); turn++) {
		std::atomic<bool> stop = false;
		std::vector<std::thread> users;
		const std::string name = "endpoints " + std::to_string(getpid());
		const uint32_t one = 1;
		ThreadHandle thread;
		buffers b;
		pair_here p;

		p.connect(b, name.c_str());
		assert_int_equal(HcommThreadAlloc(COMM_ENGINE_CPU, 1, &one, &thread), 0);
		for (unsigned i = 0; i < 3; i++)
			users.emplace_back([&, i] {
				std::vector<char> own(4096);
				int32_t status;

				for (unsigned n = i; !stop; n++) {
					const ThreadHandle on = n % 3 ? thread : 0;
					(void)HcommWriteNbiOnThread(on, p.channels[n & 1], b.bytes(0) + 64 * i,
								    own.data(), 64);
					(void)HcommReadOnThread(on, p.channels[n & 1], own.data(), b.at[2], 64);
					(void)HcommChannelGetStatus(&p.channels[n & 1], 1, &status);
					(void)HcommChannelNotifyRecord(p.channels[n & 1], 0);
				}
			});
		std::this_thread::yield();
		if (turn & 1)
			assert_int_equal(HcommThreadFree(&thread, 1), 0);
		p.close();
		if (!(turn & 1))
			assert_int_equal(HcommThreadFree(&thread, 1), 0);
		stop = true;
		for (std::thread &t : users)
			t.join();
	}
}

int open_device(void **)
{
	setenv("USDMA_DEVICES", devices[0].c_str(), 1);
	return aclrtSetDevice(0);
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(random_copies), cmocka_unit_test(the_flag_is_behind_the_data),
				    cmocka_unit_test(notifies_are_recorded), cmocka_unit_test(reductions),
				    cmocka_unit_test(wrong_arguments), cmocka_unit_test(the_other_is_killed),
				    /* From here on this process uses the library, and must not fork. */
				    cmocka_unit_test_setup(nothing_grows, open_device),
				    cmocka_unit_test_setup(used_while_destroyed, open_device)};

	prepare_sides();
	return cmocka_run_group_tests_name("hcomm", tests, nullptr, nullptr);
}
