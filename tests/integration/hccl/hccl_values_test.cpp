/* SPDX-License-Identifier: BSD-3-Clause */
/* Each type, operator, rank and number of a collective at its limits, in a group of one (tests/support/sweep.h). */
#include "tests/support/sweep.h"

#include <acl/acl.h>
#include <hccl.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* a ?: b is: b where a gave 0 */

using namespace usdma::test;

namespace {

constexpr size_t bytes = 4096;

struct group {
	HcclComm comm = nullptr;
	aclrtStream stream = nullptr;
	void *a = nullptr, *b = nullptr;
	HcclRootInfo root = {};

	group()
	{
		assert_int_equal(aclInit(nullptr), 0);
		assert_int_equal(aclrtSetDevice(0), 0);
		assert_int_equal(aclrtCreateStream(&stream), 0);
		assert_int_equal(aclrtMalloc(&a, bytes, ACL_MEM_MALLOC_NORMAL_ONLY), 0);
		assert_int_equal(aclrtMalloc(&b, bytes, ACL_MEM_MALLOC_NORMAL_ONLY), 0);
		assert_int_equal(aclrtMemset(a, bytes, 0, bytes), 0);
		assert_int_equal(aclrtMemset(b, bytes, 0, bytes), 0);
		assert_int_equal(HcclGetRootInfo(&root), 0);
		assert_int_equal(HcclCommInitRootInfo(1, &root, 0, &comm), 0);
	}
	~group()
	{
		HcclCommDestroy(comm);
		aclrtSynchronizeStream(stream);
		aclrtDestroyStream(stream);
		aclrtFree(a);
		aclrtFree(b);
		aclrtResetDevice(0);
		aclFinalize();
	}
};

int with_config(void (*change)(HcclCommConfig *, long), long v)
{
	HcclCommConfig config;
	HcclRootInfo root;
	HcclComm made = nullptr;

	HcclCommConfigInit(&config);
	config.hcclBufferSize = 1;
	change(&config, v);
	const int err = HcclGetRootInfo(&root) ?: HcclCommInitRootInfoConfig(1, &root, 0, &config, &made);
	return err ?: HcclCommDestroy(made);
}

#define SWEEP(first, last, want, ...) SWEEP_OF(group, first, last, want, __VA_ARGS__)
#define F32 HCCL_DATA_TYPE_FP32

const sweep<group> all[] = {
	SWEEP(-1, 20, "5 0*12 5*9", HcclAllReduce(f.a, f.b, 8, e, HCCL_REDUCE_SUM, f.comm, f.stream)),
	SWEEP(-1, 20, "5 0*12 5*9", HcclAllReduce(f.a, f.b, 8, e, HCCL_REDUCE_PROD, f.comm, f.stream)),
	SWEEP(-1, 5, "5 0*4 5*2", HcclAllReduce(f.a, f.b, 8, F32, e, f.comm, f.stream)),
	SWEEP(-1, 20, "5 0*13 5 0*4 5*3", HcclBroadcast(f.a, 8, e, 0, f.comm, f.stream)),
	SWEEP(-1, 2, "1 0 1*2", HcclBroadcast(f.a, 8, F32, e, f.comm, f.stream)),
	SWEEP(-1, 2, "1 0 1*2", HcclReduce(f.a, f.b, 8, F32, HCCL_REDUCE_SUM, e, f.comm, f.stream)),
	SWEEP(-1, 2, "1 0 1*2", HcclScatter(f.a, f.b, 8, F32, e, f.comm, f.stream)),
	SWEEP(-1, 2, "1*4", HcclSend(f.a, 8, F32, e, f.comm, f.stream)),
	SWEEP(-1, 2, "1*4", HcclRecv(f.a, 8, F32, e, f.comm, f.stream)),
	SWEEP(-1, 20, "5 0*13 5 0*4 5*3", HcclAllGather(f.a, f.b, 8, e, f.comm, f.stream)),
	SWEEP(-1, 20, "5 0*12 5*9", HcclReduceScatter(f.a, f.b, 8, e, HCCL_REDUCE_MAX, f.comm, f.stream)),
	SWEEP(0, 1, "0*2", HcclAllReduce(f.a, f.b, e, F32, HCCL_REDUCE_SUM, f.comm, f.stream)),
	SWEEP(1023, 1025, "0*3", HcclAllReduce(f.a, f.b, e, F32, HCCL_REDUCE_SUM, f.comm, f.stream)),
	SWEEP(1023, 1025, "0*3", HcclAllGather(f.a, f.b, e, F32, f.comm, f.stream)),
	SWEEP(1023, 1025, "0*3", HcclBroadcast(f.a, e, F32, 0, f.comm, f.stream)),
	SWEEP(0, 2, "1 0*2", with_config([](HcclCommConfig *c, long v) { c->hcclBufferSize = uint32_t(v); }, e.v)),
	SWEEP(0, 4, "0*5", with_config([](HcclCommConfig *c, long v) { c->hcclDeterministic = uint32_t(v); }, e.v)),
	SWEEP(0, 8, "0*9", with_config([](HcclCommConfig *c, long v) { c->hcclOpExpansionMode = uint32_t(v); }, e.v)),
	SWEEP(-1, 2, "0*4", with_config([](HcclCommConfig *c, long v) { c->hcclExecTimeOut = int32_t(v); }, e.v)),
};

void collectives_at_their_limits(void **)
{
	group g;

	run_sweeps(g, all);
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(collectives_at_their_limits)};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
