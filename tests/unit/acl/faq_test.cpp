/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mistakes of the runtime's FAQ (hicann/runtime, docs/zh/FAQ), as programs: each fails here as there. A case has
 * the name of its page; docs/ascend.md has the table.
 */
#include "misuse.h"

using namespace usdma::test;

namespace {

/* Runs f in a thread with device 1, and resets it. */
template <class F> void on_device_1(const F &f)
{
	std::thread([&] {
		assert_int_equal(aclrtSetDevice(1), 0);
		f();
		assert_int_equal(aclrtResetDevice(1), 0);
	}).join();
}

char *device_block(size_t size = block)
{
	void *p = nullptr;

	assert_int_equal(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
	return static_cast<char *>(p);
}

} // namespace

static void aclgraph_restrictions(void **)
{
	fixture f;
	aclmdlRI made;

	assert_int_not_equal(aclmdlRICaptureBegin(nullptr, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
	assert_int_equal(aclmdlRICaptureBegin(f.stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
	assert_int_not_equal(aclrtMemcpy(f.dev, 8, f.dev2, 8, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
	assert_int_not_equal(aclrtSynchronizeStream(f.stream), 0);
	if (!aclmdlRICaptureEnd(f.stream, &made))
		assert_int_equal(aclmdlRIDestroy(made), 0);
}

static void aclinit_initialization_failures(void **)
{
	assert_int_equal(aclInit("/nonexistent/acl.json"), 100003);
	assert_int_equal(aclInit(nullptr), 0);
	assert_int_equal(aclInit(nullptr), 100002);
	assert_int_equal(aclFinalize(), 0);
	assert_int_equal(aclFinalize(), 100037);
}

static void aclrtmalloc_allocation_failures(void **)
{
	fixture f;
	size_t left, total;
	void *p;

	assert_int_equal(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total), 0);
	assert_int_equal(aclrtMalloc(&p, total + 1, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
}

static void aclrtmemcpyasync_fail_in_incorrect_stream(void **)
{
	fixture f;

	on_device_1([&] {
		char *p = device_block();

		assert_int_equal(aclrtMemcpyAsync(p, 64, p + 64, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, f.stream), 107003);
		assert_int_equal(aclrtFree(p), 0);
	});
}

static void aclrtsetdevice_call_failure(void **)
{
	assert_int_equal(aclrtSetDevice(-1), 107001);
	assert_int_equal(aclrtSetDevice(99), 107001);
}

static void cross_device_data_interaction_configuration_fail(void **)
{
	fixture f;

	on_device_1([&] {
		char *p = device_block();

		assert_int_equal(aclrtMemcpy(p, 1024, f.dev, 1024, ACL_MEMCPY_DEVICE_TO_DEVICE), 507899);
		/* Cells are looked up by the call, what they name when it runs. */
		const void *cells[] = {p, f.dev}, **at = reinterpret_cast<const void **>(p);
		void **to = reinterpret_cast<void **>(p);
		assert_int_equal(aclrtMemcpy(p, 16, cells, 16, ACL_MEMCPY_HOST_TO_DEVICE), 0);
		const auto copy = [&](const void **from) {
			return aclrtMemcpyAsyncWithOffset(to, 1024, 64, from, 64, 0, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
							  nullptr);
		};
		assert_int_equal(copy(static_cast<const void **>(f.dev)), 507899);
		assert_int_equal(copy(cells), 107000);
		assert_int_equal(copy(at + 1), 0);
		assert_int_equal(aclrtSynchronizeStream(nullptr), 507899);
		assert_int_equal(aclrtSetMemcpyDesc(p, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, f.dev,
						    static_cast<char *>(f.dev) + 64, 64, nullptr),
				 107000);
		assert_int_equal(aclrtFree(p), 0);
	});
}

/* Only what was synchronised has ended. */
static void diff_between_stream_and_event_sync(void **)
{
	fixture f;
	aclrtStream other;
	aclrtStreamStatus status;

	assert_int_equal(aclrtCreateStream(&other), 0);
	assert_int_equal(aclrtValueWait(f.dev, 1, ACL_STREAM_WAIT_VALUE_EQ, other), 0);
	assert_int_equal(aclrtSynchronizeStream(f.stream), 0);
	assert_int_equal(aclrtStreamQuery(other, &status), 0);
	assert_int_equal(status, ACL_STREAM_STATUS_NOT_READY);
	assert_int_equal(aclrtValueWrite(f.dev, 1, 0, f.stream), 0);
	assert_int_equal(aclrtSynchronizeStream(other), 0);
	assert_int_equal(aclrtDestroyStream(other), 0);
}

static void inter_process_ipc_page_table_align_requirements(void **)
{
	fixture f;
	char key[65];

	assert_int_equal(aclrtIpcMemGetExportKey(static_cast<char *>(f.dev) + 1024, 1024, key, 65,
						 ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION),
			 107000);
	/* Its right examples, behind a block of any size. */
	for (size_t size : {size_t(4096), size_t(4097), size_t(65536), size_t(2) << 20})
		for (aclrtMemMallocPolicy policy :
		     {ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_MALLOC_NORMAL_ONLY}) {
			void *before, *p;

			assert_int_equal(aclrtMalloc(&before, 100, ACL_MEM_MALLOC_HUGE_FIRST), 0);
			assert_int_equal(aclrtMalloc(&p, size, policy), 0);
			assert_int_equal(aclrtIpcMemGetExportKey(p, size, key, 65,
								 ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION),
					 0);
			assert_int_equal(aclrtFree(p), 0);
			assert_int_equal(aclrtFree(before), 0);
		}
}

static void multi_devices_stream_tasks_deliver_fail(void **)
{
	fixture f;

	on_device_1([&] {
		aclrtStream s;

		assert_int_equal(aclrtMemsetAsync(f.dev, 8, 0, 8, f.stream), 107003);
		assert_int_equal(aclrtCreateStream(&s), 0);
		assert_int_equal(aclrtRecordEvent(f.event, s), 107000);
		assert_int_equal(aclrtDestroyStream(s), 0);
	});
}

static void understand_default_device_and_default_stream(void **)
{
	aclError got = 0;
	void *p;

	std::thread([&] { got = aclrtMalloc(&p, block, ACL_MEM_MALLOC_HUGE_FIRST); }).join();
	assert_int_equal(got, 107002);
	fixture f;
	aclrtStream deflt;
	assert_int_equal(aclrtMemcpyAsync(f.dev, 8, f.pin, 8, ACL_MEMCPY_HOST_TO_DEVICE, nullptr), 0);
	assert_int_equal(aclrtSynchronizeStream(nullptr), 0);
	assert_int_equal(aclrtCtxGetCurrentDefaultStream(&deflt), 0);
	assert_int_equal(aclrtDestroyStream(deflt), 107000);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(aclgraph_restrictions),
		cmocka_unit_test(aclinit_initialization_failures),
		cmocka_unit_test(aclrtmalloc_allocation_failures),
		cmocka_unit_test(aclrtmemcpyasync_fail_in_incorrect_stream),
		cmocka_unit_test(aclrtsetdevice_call_failure),
		cmocka_unit_test(cross_device_data_interaction_configuration_fail),
		cmocka_unit_test(diff_between_stream_and_event_sync),
		cmocka_unit_test(inter_process_ipc_page_table_align_requirements),
		cmocka_unit_test(multi_devices_stream_tasks_deliver_fail),
		cmocka_unit_test(understand_default_device_and_default_stream),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
