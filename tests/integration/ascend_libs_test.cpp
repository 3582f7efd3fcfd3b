/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libraries below ACL, as programs use them: registered host memory, and memory of one process that another maps.
 * The other process is this program with a share handle as argument.
 */
#include <runtime/rt.h>
#include <driver/ascend_hal.h>
#include <driver/dcmi_interface_api.h>
#include <driver/dsmi_common_interface.h>

#include "tests/support/test.h"
#include "tests/support/until.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t size = 2 << 20;

static void test_host_memory(void **)
{
	auto *mem = static_cast<unsigned char *>(aligned_alloc(4096, size));
	void *dev, *to;
	uint32_t can = 7;
	std::mt19937_64 gen = rng(31);

	fill_random(mem, size, gen);
	assert_int_equal(halHostRegister(mem, size, HOST_MEM_MAP_DEV_PCIE_TH, 0, &to), DRV_ERROR_UNINIT);
	GOOD(halDeviceOpen(0, nullptr, nullptr));
	assert_int_equal(halHostRegister(nullptr, size, HOST_MEM_MAP_DEV, 0, &to), DRV_ERROR_INVALID_VALUE);
	assert_int_equal(halHostRegister(mem, size, 9, 0, &to), DRV_ERROR_INVALID_VALUE);
	assert_int_equal(halHostRegister(mem, size, DEV_SVM_MAP_HOST, 0, &to), DRV_ERROR_NOT_SUPPORT);
	assert_int_equal(halHostRegister(mem, size, HOST_MEM_MAP_DEV, 99, &to), DRV_ERROR_INVALID_DEVICE);
	GOOD(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
	GOOD(halHostRegister(mem, size, HOST_MEM_MAP_DEV_PCIE_TH, 0, &to));
	assert_int_equal(halHostRegister(mem, size, HOST_MEM_MAP_DEV, 0, &to), DRV_ERROR_INVALID_VALUE);
	/* From another thread, which has no context. */
	std::thread([&] { GOOD(halHostUnregisterEx(mem, 0, HOST_MEM_MAP_DEV_PCIE_TH)); }).join();
	std::thread([&] {
		int32_t set;

		GOOD(halHostRegister(mem, size, HOST_SVM_MAP_DEV, 0, &to));
		/* The call does not set a context of the thread. */
		GOOD(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
		assert_int_equal(aclrtGetDevice(&set), 107002);
	}).join();
	GOOD(aclrtMalloc(&dev, size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMemcpyAsync(dev, size, mem, size, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
	GOOD(aclrtSynchronizeStream(nullptr));
	const std::string before(reinterpret_cast<char *>(mem), size);
	memset(mem, 0, size);
	GOOD(aclrtMemcpy(mem, size, dev, size, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_memory_equal(mem, before.data(), size);
	GOOD(aclrtFree(dev));
	GOOD(halHostUnregister(mem, 0));
	assert_int_equal(halHostUnregister(mem, 0), DRV_ERROR_NOT_EXIST);
	GOOD(halHostRegisterCapabilities(0, ACL_RT_HAC_TYPE_SDMA, &can));
	assert_int_equal(can, 1);
	assert_int_equal(halHostRegisterCapabilities(0, 99, &can), DRV_ERROR_INVALID_VALUE);
	GOOD(halDeviceClose(0, nullptr));
	free(mem);
}

/* Maps memory at a reserved address. */
static unsigned char *mapped(drv_mem_handle_t *handle)
{
	void *va = nullptr;

	GOOD(halMemAddressReserve(&va, size, 0, nullptr, 1));
	GOOD(halMemMap(va, size, 0, handle, 0));
	return static_cast<unsigned char *>(va);
}

static void unmapped(void *va, drv_mem_handle_t *handle)
{
	GOOD(halMemUnmap(va));
	GOOD(halMemAddressFree(va));
	GOOD(halMemRelease(handle));
}

/* The other process: returns 0, the driver's code, or a number for wrong data. usdma-sim serves one at a time. */
static int import(const char *share_handle)
{
	drv_mem_handle_t *handle;
	void *back;
	uint32_t host;
	int wrong = 0;

	until("the server takes the next client", [] { return !halDeviceOpen(0, nullptr, nullptr); });
	GOOD(halGetHostID(&host));
	if (const drvError_t err = halMemImportFromShareableHandle(strtoull(share_handle, nullptr, 10), host, &handle))
		return err;
	unsigned char *va = mapped(handle);
	GOOD(aclrtMallocHost(&back, size));
	GOOD(aclrtMemcpy(back, size, va, size, ACL_MEMCPY_DEFAULT));
	for (size_t i = 0; i < size; i++)
		wrong |= static_cast<unsigned char *>(back)[i] != (i * 7 & 0xff);
	GOOD(aclrtFreeHost(back));
	unmapped(va, handle);
	return wrong ? 101 : halDeviceClose(0, nullptr);
}

static int run_importer(uint64_t share_handle)
{
	const std::string text = std::to_string(share_handle), all = getenv("USDMA_DEVICES");
	int status;
	const pid_t pid = fork();

	if (!pid) {
		setenv("USDMA_DEVICES", all.substr(all.find(',') + 1).c_str(), 1); /* device 0 is this process's */
		execl("/proc/self/exe", "importer", text.c_str(), nullptr);
		_exit(102);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_shared_memory(void **)
{
	drv_mem_prop prop = {MEM_HOST_SIDE, 0, 0, MEM_HUGE_PAGE_TYPE, MEM_DDR_TYPE, 0}, wrong = prop;
	ShareHandleAttr attr = {SHR_HANDLE_NO_WLIST_ENABLE, {}};
	drv_mem_location cpu = {0, MEM_HOST_SIDE};
	drv_mem_access_desc access[2] = {{MEM_ACCESS_TYPE_READWRITE, {0, MEM_DEV_SIDE}, {}}, {}};
	drv_mem_handle_t *handle;
	uint64_t number, flags = 0;
	size_t granule;

	GOOD(halDeviceOpen(0, nullptr, nullptr));
	GOOD(halMemGetAllocationGranularity(&prop, MEM_ALLOC_GRANULARITY_RECOMMENDED, &granule));
	assert_int_equal(granule, size);
	wrong.side = MEM_MAX_SIDE;
	assert_int_equal(halMemCreate(&handle, size, &wrong, 0), DRV_ERROR_INVALID_VALUE);
	assert_int_equal(halMemCreate(&handle, size, nullptr, 0), DRV_ERROR_INVALID_VALUE);
	prop.mem_type = 77; /* all types of host memory are the same */
	GOOD(halMemCreate(&handle, size, &prop, 0));
	unsigned char *va = mapped(handle);
	GOOD(halMemSetAccess(va, size, access, 1));
	access[1].type = MEM_ACCESS_TYPE_READ;
	assert_int_equal(halMemSetAccess(va, size, access, 2), DRV_ERROR_INVALID_VALUE);
	GOOD(halMemGetAccess(va, &cpu, &flags));
	assert_int_equal(flags, MEM_ACCESS_TYPE_READWRITE);
	for (size_t i = 0; i < size; i++)
		va[i] = (unsigned char)(i * 7);
	GOOD(halMemExportToShareableHandle(handle, MEM_HANDLE_TYPE_NONE, 0, &number));
	assert_int_equal(run_importer(number), DRV_ERROR_OPER_NOT_PERMITTED);
	assert_int_equal(halMemShareHandleSetAttribute(number + 1, SHR_HANDLE_ATTR_NO_WLIST_IN_SERVER, attr),
			 DRV_ERROR_NOT_EXIST);
	GOOD(halMemShareHandleSetAttribute(number, SHR_HANDLE_ATTR_NO_WLIST_IN_SERVER, attr));
	assert_int_equal(run_importer(number), 0);
	unmapped(va, handle);
	assert_int_equal(halMemRelease(handle), DRV_ERROR_INVALID_HANDLE);
	GOOD(halDeviceClose(0, nullptr));
}

/* By a FABRIC handle: the exporter allows every process, as memory pools do. */
static void test_shareable_handles(void **)
{
	drv_mem_prop prop = {MEM_DEV_SIDE, 0, 0, MEM_HUGE_PAGE_TYPE, MEM_HBM_TYPE, 0};
	ShareHandleAttr attr = {SHR_HANDLE_NO_WLIST_ENABLE, {}};
	drv_mem_handle_t *handle, *same, *imported;
	MemShareHandle share = {}, none = {};
	uint64_t number = 0;
	uint32_t server = 7, host;
	int pid = getpid();

	GOOD(halDeviceOpen(0, nullptr, nullptr));
	GOOD(halMemCreate(&handle, size, &prop, 0));
	unsigned char *va = mapped(handle);
	GOOD(halMemRetainAllocationHandle(&same, va));
	GOOD(halMemRelease(same));
	assert_int_equal(halMemExportToShareableHandleV2(handle, MEM_HANDLE_TYPE_MAX, 0, &share),
			 DRV_ERROR_INVALID_VALUE);
	assert_int_equal(halMemTransShareableHandle(MEM_HANDLE_TYPE_FABRIC, &none, &server, &number),
			 DRV_ERROR_INVALID_VALUE);
	assert_int_equal(halMemTransShareableHandle(MEM_HANDLE_TYPE_FABRIC, nullptr, &server, &number),
			 DRV_ERROR_INVALID_VALUE);
	const drvError_t exported = halMemExportToShareableHandleV2(handle, MEM_HANDLE_TYPE_FABRIC, 0, &share);
	if (exported == DRV_ERROR_NOT_SUPPORT) /* the kernel's device has no memory that another could map */
		print_message("not on this device\n");
	else {
		GOOD(exported);
		GOOD(halMemTransShareableHandle(MEM_HANDLE_TYPE_FABRIC, &share, &server, &number));
		assert_int_equal(server, 0);
		assert_int_equal(number >> 32, getpid());
		GOOD(halMemShareHandleSetAttribute(number, SHR_HANDLE_ATTR_NO_WLIST_IN_SERVER, attr));
		/* There is no list of processes any more. */
		assert_int_equal(aclrtMemSetPidToShareableHandleV2(&share, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &pid, 1),
				 ACL_ERROR_RT_NO_PERMISSION);
		GOOD(halGetHostID(&host));
		GOOD(halMemImportFromShareableHandleV2(MEM_HANDLE_TYPE_FABRIC, &share, host, &imported));
		unsigned char *there = mapped(imported);
		GOOD(aclrtMemset(va, size, 0x3c, size));
		GOOD(aclrtMemcpy(there, 64, va + 64, 64, ACL_MEMCPY_DEVICE_TO_DEVICE));
		unmapped(there, imported);
		assert_int_equal(halMemImportFromShareableHandleV2(MEM_HANDLE_TYPE_FABRIC, &none, 0, &imported),
				 DRV_ERROR_INVALID_VALUE);
		assert_int_equal(halMemImportFromShareableHandleV2(MEM_HANDLE_TYPE_FABRIC, &share, 99, &imported),
				 DRV_ERROR_INVALID_DEVICE);
	}
	unmapped(va, handle);
	GOOD(halDeviceClose(0, nullptr));
}

static void test_management(void **)
{
	dsmi_spod_info pod = {};
	dsmi_board_info_stru info;
	dcmi_pcie_info_all pcie;
	unsigned bytes = sizeof(pod), number = 7, few = 4;
	int count = 0, cards[4], card = 7, device = 7;
	char cpus[TOPO_INFO_MAX_LENTH];

	GOOD(dsmi_get_device_info(1, DSMI_MAIN_CMD_CHIP_INF, DSMI_CHIP_INF_SUB_CMD_SPOD_INFO, &pod, &bytes));
	assert_true(pod.sdid == 1 && bytes == sizeof(pod));
	assert_int_equal(dsmi_get_device_info(1, DSMI_MAIN_CMD_CHIP_INF, DSMI_CHIP_INF_SUB_CMD_SPOD_INFO, &pod, &few),
			 8);
	assert_int_equal(dsmi_get_device_info(1, 62, 3, &pod, &bytes), 0xfffe);
	assert_int_equal(dsmi_get_device_info(9, 12, 1, &pod, &bytes), 2);
	assert_int_equal(dsmi_get_device_info(1, 12, 1, nullptr, &bytes), 8);
	assert_int_equal(dsmi_set_device_info(1, 13, 0, &pod, bytes), 0xfffe);
	assert_int_equal(dsmi_get_board_info(0, &info), 0xfffe);

	GOOD(dcmi_init());
	GOOD(dcmiv2_init());
	GOOD(dcmi_get_card_list(&count, cards, 4));
	assert_true(count == 2 && cards[1] == 1);
	GOOD(dcmi_get_card_list(&count, cards, 1));
	assert_int_equal(count, 1);
	assert_int_equal(dcmi_get_card_list(&count, nullptr, 1), DCMI_ERR_CODE_INVALID_PARAMETER);
	GOOD(dcmi_get_card_num_list(&count, cards, 4));
	assert_int_equal(count, 2);
	GOOD(dcmiv2_get_device_list(cards, &count, 1));
	assert_int_equal(count, 1);
	GOOD(dcmi_get_device_id_in_card(1, &count, &card, &device));
	assert_true(count == 1 && card == -1 && device == -1);
	assert_int_equal(dcmi_get_device_id_in_card(2, &count, &card, &device), DCMI_ERR_CODE_INVALID_DEVICE_ID);
	assert_int_equal(dcmi_get_affinity_cpu_info_by_device_id(0, 0, nullptr, &count),
			 DCMI_ERR_CODE_INVALID_PARAMETER);
	assert_int_equal(dcmi_get_affinity_cpu_info_by_device_id(0, 1, cpus, &count), DCMI_ERR_CODE_INVALID_DEVICE_ID);
	if (!strncmp(getenv("USDMA_DEVICES"), "sim", 3))
		assert_int_equal(dcmiv2_get_affinity_cpu_info_by_dev_id(0, cpus, &count), DCMI_ERR_CODE_NOT_SUPPORT);
	GOOD(dcmi_get_device_num_in_card(1, &count));
	assert_int_equal(count, 1);
	GOOD(dcmi_get_card_id_device_id_from_logicid(&card, &device, 1));
	assert_true(card == 1 && device == 0);
	GOOD(dcmi_get_device_logic_id(&card, 1, 0));
	assert_int_equal(card, 1);
	assert_int_equal(dcmi_get_device_logic_id(&card, 1, 1), DCMI_ERR_CODE_INVALID_DEVICE_ID);
	GOOD(dcmiv2_get_dev_id_from_chip_phyid(1, &number));
	assert_int_equal(number, 1);
	assert_int_equal(dcmi_get_device_pcie_info_v2(9, 0, &pcie), DCMI_ERR_CODE_INVALID_DEVICE_ID);
	assert_int_equal(dcmi_get_device_pcie_info_v2(0, 0, nullptr), DCMI_ERR_CODE_INVALID_PARAMETER);
	if (!strncmp(getenv("USDMA_DEVICES"), "sim", 3))
		assert_int_equal(dcmiv2_get_device_pcie_info(0, &pcie), DCMI_ERR_CODE_NOT_SUPPORT);
	assert_int_equal(dcmiv2_get_urma_device_cnt(0, &number), DCMI_ERR_CODE_NOT_SUPPORT);
	assert_int_equal(halGetAPIVersion(&count), DRV_ERROR_NOT_SUPPORT);
	assert_int_equal(halSqCqQuery(0, nullptr), DRV_ERROR_NOT_SUPPORT);
}

static void test_numbers(void **)
{
	uint32_t n, ids[2], one = 7, two = 7;
	int64_t chip;
	int count, list[2];
	char version[16], same[ACL_PKG_VERSION_MAX_SIZE], driver[] = "driver";
	unsigned len = 0, number;

	GOOD(drvGetDevNum(&n));
	assert_int_equal(n, 2);
	GOOD(drvGetDevIDs(ids, 2));
	assert_int_equal(ids[1], 1);
	GOOD(drvDeviceGetPhyIdByIndex(1, &one));
	assert_int_equal(one, 1);
	assert_int_equal(drvDeviceGetPhyIdByIndex(2, &one), DRV_ERROR_INVALID_DEVICE);
	GOOD(drvDeviceGetIndexByPhyId(1, &one));
	GOOD(halGetDeviceInfo(1, 0, 18, &chip));
	assert_int_equal(chip, 1);
	GOOD(drvGetPlatformInfo(&one));
	assert_int_equal(one, 1);
	assert_int_equal(drvDeviceGetBareTgid(), getpid());
	GOOD(dsmi_get_version(0, version, sizeof(version), &len));
	GOOD(aclsysGetVersionStr(driver, same));
	assert_string_equal(version, same);
	assert_int_equal(len, strlen(same));
	assert_int_equal(dsmi_get_version(0, version, len, &len), 8);
	assert_int_equal(dsmi_get_version(9, version, sizeof(version), &len), 2);
	GOOD(dsmi_get_device_count(&count));
	assert_int_equal(count, 2);
	GOOD(dsmi_list_device(list, 2));
	assert_int_equal(list[1], 1);
	assert_int_equal(dsmi_list_device(list, 3), 8);
	GOOD(dsmi_get_phyid_from_logicid(1, &number));
	GOOD(dsmi_get_logicid_from_phyid(number, &number));
	assert_int_equal(number, 1);
	GOOD(rtGetDevicePhyIdByIndex(1, &two));
	assert_int_equal(two, 1);
	assert_int_equal(rtGetDevicePhyIdByIndex(2, &two), 107001);
	assert_int_equal(rtGetDevicePhyIdByIndex(0, nullptr), 107000);
	GOOD(rtGetDeviceIndexByPhyId(1, &two));
}

static void test_runtime(void **)
{
	aclrtStream s;
	uint32_t sq = 7, cq = 8, logic = 9;
	rtPointerAttributes_t a;
	void *dev;
	int here;

	until("the server takes the next client", [] { return !aclrtSetDevice(1); });
	GOOD(aclrtCreateStream(&s));
	GOOD(rtStreamGetSqid(s, &sq));
	GOOD(rtStreamGetCqid(s, &cq, &logic));
	assert_true(sq == cq && cq == logic);
	assert_int_equal(rtStreamGetCqid(s, &cq, nullptr), 107000);
	GOOD(aclrtMalloc(&dev, size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(rtPointerGetAttributes(&a, dev));
	assert_true(a.memoryType == RT_MEMORY_TYPE_DEVICE && a.locationType == RT_MEMORY_LOC_DEVICE && a.deviceID == 1);
	GOOD(rtPointerGetAttributes(&a, &here));
	assert_true(a.memoryType == RT_MEMORY_TYPE_HOST && a.locationType == RT_MEMORY_LOC_UNREGISTERED);
	assert_int_equal(rtPointerGetAttributes(nullptr, dev), 107000);
	GOOD(aclrtFree(dev));
	GOOD(aclrtDestroyStream(s));
	assert_int_equal(rtStreamGetSqid(s, &sq), 107017);
	GOOD(aclrtResetDevice(1));
}

int main(int argc, char **argv)
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_host_memory),       cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_shareable_handles), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_management),        cmocka_unit_test(test_runtime),
	};

	if (argc > 1)
		return import(argv[1]);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
