/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of ACL without an effect here: unsupported ones are refused with a reason; the others store values, or
 * report that there are none.
 */
#include "acl/acl_dump.h"
#include "acl/acl_platform.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "aclnn/acl_meta.h"
#include "runtime/rt.h"
#include "lib/acl/soc.h"
#include "misuse.h"

#include <string>
#include <type_traits>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* deprecated calls are tested too */
#pragma GCC diagnostic ignored "-Wpedantic"                /* a ?: b is: b where a gave 0 */

using namespace usdma::test;

/* ---- refused ------------------------------------------------------------------------------------------ */

static unsigned refused_calls;

static int refused_if(bool invalid)
{
	return invalid ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : -1;
}

template <class A> static A argument(void *p)
{
	if constexpr (std::is_pointer_v<A>)
		return reinterpret_cast<A>(p);
	else
		return A();
}

/* The code, of pointers to p and of zeros; 207000 also for an invalid value of another result type. */
template <class R, class... A> static int answer(R (*call)(A...), void *p)
{
	if constexpr (std::is_void_v<R>) {
		call(argument<A>(p)...);
		return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
	} else if constexpr (std::is_same_v<R, aclError>) {
		return call(argument<A>(p)...);
	} else if constexpr (std::is_same_v<R, aclprofSubscribeOpFlag>) {
		return refused_if(call(argument<A>(p)...) == ACL_SUBSCRIBE_NONE);
	} else if constexpr (std::is_enum_v<R>) {
		return refused_if(int(call(argument<A>(p)...)) == -1);
	} else {
		return refused_if(!call(argument<A>(p)...));
	}
}

static void expect_refusal(const char *name, int code, int got)
{
	const char *text = aclGetRecentErrMsg();
	const std::string start = std::string(name) + ": " + std::to_string(code) + ": ";

	if (got != code || !text || strncmp(text, start.c_str(), start.size()) || strlen(text) < start.size() + 10) {
		print_error("%s: %d instead of %d, message: %s\n", name, got, code, text ? text : "nothing");
		assert_true(false);
	}
	refused_calls++;
}

/* The layer below sets it for a wrong argument, too. */
static void expect_last_error(const char *name, int code)
{
	const bool below = !strncmp(name, "rt", 2) && code != ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

	assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), below ? code : 0);
}

/* Arguments are checked first. */
static void test_refused(void **)
{
	static char buffer[4096];

	while (aclGetRecentErrMsg())
		;
	aclrtGetLastError(ACL_RT_THREAD_LEVEL);
#define R(name, zeros, code)                                                                                           \
	expect_refusal(#name, zeros, answer(name, nullptr));                                                           \
	expect_last_error(#name, zeros);                                                                               \
	expect_refusal(#name, code, answer(name, buffer));
#include "refused.inc"
#undef R
	assert_true(refused_calls > 400);
	assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
}

/* ---- devices and cores ---------------------------------------------------------------------------------- */

static void test_devices(void **)
{
	static char text[16];
	static int32_t id;
	static uint32_t u, bits[2];
	static size_t n;
	static aclrtMemUceInfo uce;
	static aclrtFloatOverflowMode mode;
	static const aclrtAtomicOperation ops[] = {ACL_RT_ATOMIC_OPERATION_CAS, ACL_RT_ATOMIC_OPERATION_DMA_ADD},
					  wrong[] = {static_cast<aclrtAtomicOperation>(99)};
	static const row rows[] = {
		ROW(100000, aclrtDeviceGetPCIBusId(0, nullptr, 16)),
		ROW(100000, aclrtDeviceGetPCIBusId(0, text, 12)),
		ROW(107001, aclrtDeviceGetPCIBusId(99, text, 16)),
		ROW(207000, aclrtDeviceGetPCIBusId(0, text, 16)),
		ROW(100000, aclrtDeviceGetByPCIBusId(nullptr, &id)),
		ROW(100000, aclrtDeviceGetByPCIBusId("0000:3d:00.0", nullptr)),
		ROW(100000, aclrtDeviceGetByPCIBusId("3d:00.0", &id)),
		ROW(100000, aclrtDeviceGetByPCIBusId("0000:3d:00.0x", &id)),
		ROW(107001, aclrtDeviceGetByPCIBusId("0000:3d:00.0", &id)),
		ROW(100000, aclrtDeviceGetHostAtomicCapabilities(nullptr, ops, 2, 0)),
		ROW(100000, aclrtDeviceGetHostAtomicCapabilities(bits, nullptr, 2, 0)),
		ROW(100000, aclrtDeviceGetHostAtomicCapabilities(bits, ops, 0, 0)),
		ROW(107000, aclrtDeviceGetHostAtomicCapabilities(bits, wrong, 1, 0)),
		ROW(107001, aclrtDeviceGetHostAtomicCapabilities(bits, ops, 2, 99)),
		ROW(0, (bits[1] = 1, aclrtDeviceGetHostAtomicCapabilities(bits, ops, 2, 0)) ?: int(bits[1])),
		ROW(100000, aclrtDeviceGetP2PAtomicCapabilities(nullptr, ops, 2, 0, 1)),
		ROW(107000, aclrtDeviceGetP2PAtomicCapabilities(bits, wrong, 1, 0, 1)),
		ROW(107001, aclrtDeviceGetP2PAtomicCapabilities(bits, ops, 2, 0, 99)),
		ROW(0, (bits[0] = 1, aclrtDeviceGetP2PAtomicCapabilities(bits, ops, 2, 0, 1)) ?: int(bits[0])),
		ROW(100000, aclrtDeviceL2CacheFlush(text)),
		ALONE(107002, aclrtDeviceL2CacheFlush(nullptr)),
		ROW(0, aclrtDeviceL2CacheFlush(nullptr)),
		ROW(100000, aclrtGetMemUceInfo(0, nullptr, 1, &n)),
		ROW(100000, aclrtGetMemUceInfo(0, &uce, 0, &n)),
		ROW(107001, aclrtGetMemUceInfo(99, &uce, 1, &n)),
		ROW(0, (n = 7, aclrtGetMemUceInfo(0, &uce, 1, &n)) ?: int(n)),
		ROW(100000, aclrtCheckArchCompatibility(nullptr, &id)),
		ROW(0, aclrtCheckArchCompatibility(aclrtGetSocName(), &id) ?: id != 1),
		ROW(0, aclrtCheckArchCompatibility("Ascend910B3", &id) ?: id),
		ROW(100000, aclrtGetGroupCount(nullptr)),
		ROW(0, (u = 7, aclrtGetGroupCount(&u)) ?: int(u)),
		ROW(100000, aclrtGetDeviceSatMode(nullptr)),
		ALONE(107002, aclrtGetDeviceSatMode(&mode)),
		ROW(0, aclrtGetDeviceSatMode(&mode) ?: mode != ACL_RT_OVERFLOW_MODE_INFNAN),
		ROW(100000, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF)),
		ALONE(107002, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN)),
		ROW(207000, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION)),
		ROW(0, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN)),
	};

	run_rows(rows);
}

static void test_stream_limits(void **)
{
	static uint32_t u;
	static const auto cube = ACL_RT_DEV_RES_CUBE_CORE, vector = ACL_RT_DEV_RES_VECTOR_CORE,
			  none = static_cast<aclrtDevResLimitType>(2);
	static const row rows[] = {
		ROW(100000, aclrtGetStreamResLimit(nullptr, cube, &u)),
		ROW(100000, aclrtGetStreamResLimit(f.stream, cube, nullptr)),
		ROW(107000, aclrtGetStreamResLimit(f.stream, none, &u)),
		ROW(107017, aclrtGetStreamResLimit(f.dead_stream, cube, &u)),
		ROW(100000, aclrtSetStreamResLimit(nullptr, cube, 1)),
		ROW(107000, aclrtSetStreamResLimit(f.stream, none, 1)),
		ROW(107000, aclrtSetStreamResLimit(f.stream, cube, 0)),
		ROW(107000, aclrtSetStreamResLimit(f.stream, cube, 21)),
		ROW(107017, aclrtSetStreamResLimit(f.dead_stream, cube, 1)),
		ROW(100000, aclrtResetStreamResLimit(nullptr)),
		ROW(107017, aclrtResetStreamResLimit(f.dead_stream)),
		ROW(100000, aclrtUseStreamResInCurrentThread(nullptr)),
		ROW(107017, aclrtUseStreamResInCurrentThread(f.dead_stream)),
		ROW(100000, aclrtUnuseStreamResInCurrentThread(nullptr)),
		ROW(107017, aclrtUnuseStreamResInCurrentThread(f.dead_stream)),
	};
	const auto limit_here = [&] { return aclrtGetResInCurrentThread(vector, &u) ? ~0u : u; };

	run_rows(rows);
	fixture f;
	assert_int_equal(aclrtSetStreamResLimit(f.stream, cube, 3), 0);
	assert_int_equal(aclrtSetStreamResLimit(f.stream, vector, 5), 0);
	assert_int_equal(aclrtGetStreamResLimit(f.stream, cube, &u), 0);
	assert_int_equal(u, 3);
	assert_int_equal(limit_here(), 40);
	assert_int_equal(aclrtUseStreamResInCurrentThread(f.stream), 0);
	assert_int_equal(limit_here(), 5);
	std::thread([&] {
		assert_int_equal(aclrtSetCurrentContext(f.context), 0);
		assert_int_equal(limit_here(), 40);
	}).join();
	assert_int_equal(aclrtResetStreamResLimit(f.stream), 0);
	assert_int_equal(aclrtSetDeviceResLimit(0, vector, 11), 0);
	assert_int_equal(limit_here(), 11);
	assert_int_equal(aclrtResetDeviceResLimit(0), 0);
	assert_int_equal(aclrtSetStreamResLimit(f.stream, vector, 5), 0);
	assert_int_equal(aclrtUnuseStreamResInCurrentThread(f.stream), 0);
	assert_int_equal(limit_here(), 40);
	/* The limits of a destroyed stream do not apply. */
	assert_int_equal(aclrtUseStreamResInCurrentThread(f.stream), 0);
	assert_int_equal(aclrtDestroyStream(f.stream), 0);
	assert_int_equal(limit_here(), 40);
	assert_int_equal(aclrtCreateStream(&f.stream), 0);
	assert_int_equal(aclrtGetStreamResLimit(f.stream, vector, &u), 0);
	assert_int_equal(u, 40);
}

/* ---- stored values ----------------------------------------------------------------------------------------- */

static void test_timeouts(void **)
{
	uint64_t us, interval;
	uint32_t ms = 7;

	assert_int_equal(aclrtGetOpExecuteTimeout(nullptr), 100000);
	assert_int_equal(aclrtGetOpTimeOutInterval(nullptr), 100000);
	assert_int_equal(aclrtSetOpExecuteTimeOutV2(1, nullptr), 100000);
	assert_int_equal(aclrtGetOpExecuteTimeout(&ms), 0);
	assert_int_equal(ms, 0);
	assert_int_equal(aclrtGetOpTimeOutInterval(&interval), 0);
	assert_int_equal(interval, 1000);
	assert_int_equal(aclrtSetOpExecuteTimeOut(3), 0);
	assert_int_equal(aclrtGetOpExecuteTimeout(&ms), 0);
	assert_int_equal(ms, 3000);
	assert_int_equal(aclrtSetOpExecuteTimeOutWithMs(17), 0);
	assert_int_equal(aclrtGetOpExecuteTimeout(&ms), 0);
	assert_int_equal(ms, 17);
	assert_int_equal(aclrtSetOpExecuteTimeOutV2(2001, &us), 0);
	assert_int_equal(us, 3000);
	assert_int_equal(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &us), 0);
	assert_int_equal(us, UINT32_MAX * 1000ull);
	assert_int_equal(aclrtGetOpExecuteTimeout(&ms), 0);
	assert_int_equal(ms, UINT32_MAX);
	assert_int_equal(aclrtSetOpExecuteTimeOut(0), 0);
}

/* Each function returns the versions of lib/acl/soc.h. */
static void test_versions(void **)
{
	char runtime[] = "runtime", driver[] = "driver", text[ACL_PKG_VERSION_MAX_SIZE];
	aclCANNPackageVersion v;
	int32_t n;

	assert_int_equal(aclsysGetCANNVersion(ACL_PKG_NAME_RUNTIME, nullptr), 100000);
	assert_int_equal(aclsysGetCANNVersion(ACL_PKG_NAME_OPP, &v), 100003);
	assert_int_equal(aclsysGetCANNVersion(static_cast<aclCANNPackageName>(8), &v), 100000);
	assert_int_equal(aclsysGetCANNVersion(ACL_PKG_NAME_RUNTIME, &v), 0);
	assert_int_equal(aclsysGetVersionStr(runtime, text), 0);
	assert_string_equal(text, usdma::acl::runtime_version.text);
	assert_string_equal(v.version, text);
	assert_string_equal(v.majorVersion, "9");
	assert_string_equal(v.minorVersion, "1");
	assert_string_equal(v.releaseVersion, "0");
	assert_string_equal(v.patchVersion, "");
	assert_int_equal(aclsysGetVersionNum(runtime, &n), 0);
	assert_int_equal(n, 90100000);
	assert_int_equal(aclsysGetVersionStr(driver, text), 0);
	assert_string_equal(text, usdma::acl::driver_version.text);
	assert_int_equal(aclsysGetVersionNum(driver, &n), 0);
	assert_int_equal(n, 250200000);
	assert_int_equal(aclsysGetCANNVersion(ACL_PKG_NAME_DRIVER, &v), 0);
	assert_string_equal(v.version, text);
	for (const auto &p : {usdma::acl::runtime_version, usdma::acl::driver_version})
		assert_string_equal(p.text, (std::to_string(p.major) + "." + std::to_string(p.minor) + "." +
					     std::to_string(p.patch))
						    .c_str());
	assert_string_equal(aclrtGetSocName(), usdma::acl::soc_910c.name);
}

/* ---- objects ---------------------------------------------------------------------------------------------- */

static void *allocate(aclrtAllocator, size_t)
{
	return nullptr;
}

static void release(aclrtAllocator, aclrtAllocatorBlock) {}

static void *advised(aclrtAllocator, size_t, aclrtAllocatorAddr)
{
	return nullptr;
}

static void *address(aclrtAllocatorBlock of)
{
	return of;
}

static void test_allocators(void **)
{
	fixture f;
	int object, garbage;
	aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc(), got = nullptr;
	aclrtAllocator its;
	aclrtAllocatorAllocFunc alloc;
	aclrtAllocatorFreeFunc freed;
	aclrtAllocatorAllocAdviseFunc advise;
	aclrtAllocatorGetAddrFromBlockFunc where;
	const auto read = [&](aclrtStream s) {
		return aclrtAllocatorGetByStream(s, &got, &its, &alloc, &freed, &advise, &where);
	};

	assert_non_null(desc);
	assert_int_equal(aclrtAllocatorDestroyDesc(nullptr), 100000);
	assert_int_equal(aclrtAllocatorDestroyDesc(&garbage), 107017);
	assert_int_equal(aclrtAllocatorSetObjToDesc(nullptr, &object), 100000);
	assert_int_equal(aclrtAllocatorSetObjToDesc(&garbage, &object), 107017);
	assert_int_equal(aclrtAllocatorSetAllocFuncToDesc(desc, nullptr), 100000);
	assert_int_equal(aclrtAllocatorSetAllocFuncToDesc(&garbage, allocate), 107017);
	assert_int_equal(aclrtAllocatorSetFreeFuncToDesc(desc, nullptr), 100000);
	assert_int_equal(aclrtAllocatorSetFreeFuncToDesc(&garbage, release), 107017);
	assert_int_equal(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, nullptr), 100000);
	assert_int_equal(aclrtAllocatorSetAllocAdviseFuncToDesc(&garbage, advised), 107017);
	assert_int_equal(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, nullptr), 100000);
	assert_int_equal(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(&garbage, address), 107017);
	assert_int_equal(aclrtAllocatorRegister(f.stream, nullptr), 100000);
	assert_int_equal(aclrtAllocatorRegister(f.stream, desc), 100000); /* without functions */
	assert_int_equal(aclrtAllocatorSetObjToDesc(desc, &object), 0);
	assert_int_equal(aclrtAllocatorSetAllocFuncToDesc(desc, allocate), 0);
	assert_int_equal(aclrtAllocatorSetFreeFuncToDesc(desc, release), 0);
	assert_int_equal(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, advised), 0);
	assert_int_equal(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address), 0);
	assert_int_equal(aclrtAllocatorRegister(nullptr, desc), 100000);
	assert_int_equal(aclrtAllocatorRegister(f.dead_stream, desc), 107017);
	assert_int_equal(aclrtAllocatorRegister(f.stream, &garbage), 107017);
	assert_int_equal(aclrtAllocatorGetByStream(f.stream, nullptr, &its, &alloc, &freed, &advise, &where), 100000);
	assert_int_equal(aclrtAllocatorGetByStream(f.dead_stream, &got, &its, &alloc, &freed, &advise, &where), 107017);
	assert_int_equal(read(f.stream), 100000); /* nothing is registered */
	assert_int_equal(aclrtAllocatorRegister(f.stream, desc), 0);
	assert_int_equal(aclrtAllocatorDestroyDesc(desc), 0);
	assert_int_equal(aclrtAllocatorDestroyDesc(desc), 107017);
	assert_int_equal(read(f.stream), 0);
	assert_ptr_equal(got, desc);
	assert_ptr_equal(its, &object);
	assert_true(alloc == allocate && freed == release && advise == advised && where == address);
	assert_int_equal(aclrtAllocatorUnregister(nullptr), 100000);
	assert_int_equal(aclrtAllocatorUnregister(f.dead_stream), 107017);
	assert_int_equal(aclrtAllocatorUnregister(f.stream), 0);
	assert_int_equal(aclrtAllocatorUnregister(f.stream), 0);
	assert_int_equal(read(f.stream), 100000);
}

static void test_instances(void **)
{
	fixture f;
	aclmdlRI one, two;
	uint32_t a, b;
	char name[8] = "x";
	const std::string longest(127, 'n');

	for (aclmdlRI *m : {&one, &two}) {
		assert_int_equal(aclmdlRICaptureBegin(f.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
		assert_int_equal(aclmdlRICaptureEnd(f.stream, m), 0);
	}
	assert_int_equal(aclmdlRIGetName(one, 8, name), 0);
	assert_string_equal(name, "");
	assert_int_equal(aclmdlRISetName(one, nullptr), 100000);
	assert_int_equal(aclmdlRISetName(one, (longest + "n").c_str()), 107000);
	assert_int_equal(aclmdlRISetName(f.dead_stream, "decode"), 107017);
	assert_int_equal(aclmdlRISetName(one, longest.c_str()), 0);
	assert_int_equal(aclmdlRIGetName(one, 8, name), 107000);
	assert_int_equal(aclmdlRISetName(one, "decode!"), 0);
	assert_int_equal(aclmdlRIGetName(one, 0, name), 100000);
	assert_int_equal(aclmdlRIGetName(f.dead_stream, 8, name), 107017);
	assert_int_equal(aclmdlRIGetName(one, 7, name), 107000);
	assert_int_equal(aclmdlRIGetName(one, 8, name), 0);
	assert_string_equal(name, "decode!");
	assert_int_equal(aclmdlRIGetId(one, nullptr), 100000);
	assert_int_equal(aclmdlRIGetId(f.dead_stream, &a), 107017);
	assert_int_equal(aclmdlRIGetId(one, &a), 0);
	assert_int_equal(aclmdlRIGetId(two, &b), 0);
	assert_int_not_equal(a, b);
	assert_int_equal(aclmdlRIDestroy(one), 0);
	assert_int_equal(aclmdlRIDestroy(two), 0);
}

static void test_notify_of_servers(void **)
{
	fixture f;
	char key[65];
	int32_t pids[] = {getpid(), 1};
	aclrtServerPid servers[] = {{0, pids, 1}, {7, pids + 1, 1}}, none = {0, pids, 0};

	assert_int_equal(aclrtNotifySetImportPidInterServer(nullptr, servers, 2), 100000);
	assert_int_equal(aclrtNotifySetImportPidInterServer(f.notify, nullptr, 2), 100000);
	assert_int_equal(aclrtNotifySetImportPidInterServer(f.notify, servers, 0), 107000);
	assert_int_equal(aclrtNotifySetImportPidInterServer(f.dead_notify, servers, 2), 107017);
	assert_int_equal(aclrtNotifySetImportPidInterServer(f.notify, servers, 2), 107000); /* it has no key */
	assert_int_equal(aclrtNotifyGetExportKey(f.notify, key, sizeof(key), 0), 0);
	assert_int_equal(aclrtNotifySetImportPidInterServer(f.notify, &none, 1), 107000);
	assert_int_equal(aclrtNotifySetImportPidInterServer(f.notify, servers, 2), 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),       cmocka_unit_test(test_devices),
		cmocka_unit_test(test_stream_limits), cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_versions),      cmocka_unit_test(test_allocators),
		cmocka_unit_test(test_instances),     cmocka_unit_test(test_notify_of_servers),
	};

	setenv("USDMA_DEVICES", "sim:mem=64M,sim:mem=64M", 1);
	unsetenv("ASCEND_RT_VISIBLE_DEVICES");
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
