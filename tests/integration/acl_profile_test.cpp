/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings profile, refuse and pin_limit: ACL calls behave like another product, driver or machine. */
#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_platform.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "runtime/rt.h"
#include "tests/support/test.h"
#include "usdma/usdma.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace usdma::test;

namespace {

constexpr unsigned patience_s = 100;
constexpr size_t size = 64 << 10, mib = 1 << 20;

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			const char *text_ = aclGetRecentErrMsg();                                                      \
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, text_ ? text_ : "");                    \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

/* Returns the text of the last error, and clears it. */
bool reported(const std::string &what)
{
	const char *text = aclGetRecentErrMsg();

	return text && strstr(text, what.c_str());
}

using settings = std::vector<std::pair<const char *, std::string>>;

/* Runs in its own process, because settings are read once. */
template <class F> void with(const settings &all, F run)
{
	int status = -1;
	const pid_t child = fork();

	if (!child) {
		alarm(patience_s);
		for (const auto &[name, value] : all)
			setenv(name, value.c_str(), 1);
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

struct rig {
	aclrtStream stream = nullptr;
	void *dev = nullptr, *host = nullptr, *back = nullptr;

	rig()
	{
		CHECK(!aclrtSetDevice(0) && !aclrtCreateStream(&stream));
		CHECK(!aclrtMalloc(&dev, size, ACL_MEM_MALLOC_HUGE_FIRST));
		CHECK(!aclrtMallocHost(&host, size) && !aclrtMallocHost(&back, size));
		auto gen = rng(1);
		fill_random(host, size, gen);
		fill_random(back, size, gen);
	}
	aclError copy(void *to, void *from, aclrtMemcpyKind kind)
	{
		return aclrtMemcpyAsync(to, size, from, size, kind, stream);
	}
	aclError copy_with_condition()
	{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* it shares its slow path with aclrtMemcpyAsync */
		return aclrtMemcpyAsyncWithCondition(dev, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream);
#pragma GCC diagnostic pop
	}
	aclError batch()
	{
		aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {}};
		size_t len = size, first = 0, fail = 0;

		return aclrtMemcpyBatchAsync(&dev, &len, &host, &len, 1, &attr, &first, 1, &fail, stream);
	}
	void same()
	{
		CHECK(!copy(back, dev, ACL_MEMCPY_DEVICE_TO_HOST) && !aclrtSynchronizeStream(stream));
		CHECK(!memcmp(host, back, size));
	}
};

void nothing_is_refused(void **)
{
	with({}, [] {
		rig r;
		void *dev;

		for (int i = 0; i < 3; i++)
			CHECK(!r.batch() && !r.copy(r.dev, r.host, ACL_MEMCPY_HOST_TO_DEVICE));
		r.same();
		CHECK(!aclrtHostRegister(
			mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), size,
			ACL_HOST_REGISTER_MAPPED, &dev));
		CHECK(!strcmp(aclrtGetSocName(), "Ascend910_9362"));
	});
}

void named_calls(void **)
{
	with({{"USDMA_REFUSE", "aclrtMemcpyBatchAsync, aclrtHostRegister"}}, [] {
		rig r;
		void *dev;

		for (int i = 0; i < 3; i++) {
			CHECK(r.batch() == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
			CHECK(reported("aclrtMemcpyBatchAsync: 207000: refused"));
			CHECK(!r.copy(r.dev, r.host, ACL_MEMCPY_HOST_TO_DEVICE));
		}
		r.same();
		CHECK(aclrtHostRegister(r.host, size, ACL_HOST_REGISTER_MAPPED, &dev) ==
		      ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
		CHECK(reported("aclrtHostRegister: 207000: refused"));
	});
}

/* A refused call of the fast path is refused each time, and other calls work. */
void hot_calls(void **)
{
	with({{"USDMA_REFUSE", "aclrtMemcpyAsync"}}, [] {
		rig r;

		for (int i = 0; i < 3; i++) {
			CHECK(!r.batch() && !r.copy_with_condition());
			CHECK(r.copy(r.dev, r.host, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
		}
		CHECK(!aclrtSynchronizeStream(r.stream));
		CHECK(!aclrtMemcpy(r.back, size, r.dev, size, ACL_MEMCPY_DEVICE_TO_HOST));
		CHECK(!memcmp(r.host, r.back, size));
	});
}

/* With memory that the thread has copied by the native API before, so that its translation is cached. */
void hot_calls_after_native_copies(void **)
{
	with({{"USDMA_REFUSE", "aclrtMemcpyAsync"}}, [] {
		usdma_device *d;
		usdma_stream *s;
		void *dev, *host;
		aclrtStream stream;

		CHECK(!usdma_open_index(0, &d) && !usdma_stream_create(d, nullptr, &s));
		CHECK(!usdma_device_alloc(d, size, &dev) && !usdma_host_alloc(d, size, &host));
		CHECK(!aclrtSetDevice(0) && !aclrtCreateStream(&stream));
		for (int i = 0; i < 3; i++) {
			CHECK(!usdma_copy(s, dev, host, size) && !usdma_stream_sync(s, 60000));
			CHECK(aclrtMemcpyAsync(dev, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream) ==
			      ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
		}
	});
}

/* Before a device is set: the first call of the process, and calls after aclInit. */
void calls_without_device(void **)
{
	for (const bool init : {false, true})
		with({{"USDMA_REFUSE", "aclrtGetDeviceCount,aclrtMemcpyAsync"}}, [=] {
			uint32_t count;
			int host[2];

			CHECK(!init || !aclInit(nullptr));
			CHECK(aclrtMemcpyAsync(host, 4, host + 1, 4, ACL_MEMCPY_HOST_TO_HOST, nullptr) ==
			      ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
			CHECK(aclrtGetDeviceCount(&count) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
			CHECK(reported("aclrtGetDeviceCount: 207000: refused"));
		});
}

/* With null pointers and zeros, of their types: some ABIs pass a structure by its address. */
template <class... A> aclError call_with_nothing(aclError (*call)(A...))
{
	return call(A{}...);
}

/* The wrapper refuses before it reads an argument. */
void every_call(void **)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	static constexpr struct {
		const char *name;
		aclError (*call)();
	} wrapped[] = {
#define N(name) {#name, [] { return call_with_nothing(name); }},
#include "wrapped_list.inc"
#undef N
	};
#pragma GCC diagnostic pop
	std::string list;

	for (const auto &w : wrapped)
		list += std::string(list.empty() ? "" : ",") + w.name;
	assert_true(std::size(wrapped) > 200);
	with({{"USDMA_REFUSE", list}}, [] {
		for (const auto &[name, call] : wrapped) {
			const bool refuses = call() == ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

			if (!refuses)
				fprintf(stderr, "%s is not refused\n", name);
			CHECK(refuses);
			CHECK(reported(std::string(name) + ": 207000: refused"));
		}
	});
}

struct product {
	const char *name, *soc;
	bool no_link, no_retain;
};

void products(void **)
{
	static constexpr product all[] = {{"910B", "Ascend910B3", true, false},
					  {"910C", "Ascend910_9362", false, false},
					  {"910B-25.5", "Ascend910B3", true, true},
					  {"910C-25.5", "Ascend910_9362", false, true}};

	for (const product &p : all)
		with({{"USDMA_PROFILE", p.name}}, [&] {
			rig r;
			aclrtDrvMemHandle handle;
			aclrtCntNotify count;
			int32_t can = 7;

			CHECK(!strcmp(aclrtGetSocName(), p.soc));
			CHECK(!aclrtCheckArchCompatibility(p.soc, &can) && can == 1);
			CHECK(!aclrtCheckArchCompatibility("Ascend310P3", &can) && !can);
			CHECK(aclrtCntNotifyCreate(&count, 0) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
			CHECK((aclrtIpcMemSetAttr("key", ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, 0) ==
			       ACL_ERROR_RT_FEATURE_NOT_SUPPORT) == p.no_link);
			CHECK((aclrtMemRetainAllocationHandle(r.dev, &handle) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT) ==
			      p.no_retain);
			CHECK(!r.batch());
			r.same();
		});
}

void wrong_settings(void **)
{
	with({{"USDMA_REFUSE", "aclrtNonsense,aclrtMemcpyBatch,aclrtStreamQuery"}}, [] {
		CHECK(aclrtSetDevice(0));
		CHECK(reported("refuse (USDMA_REFUSE) names aclrtNonsense, aclrtStreamQuery:"));
	});
	for (const auto &[name, value] : settings{{"USDMA_PROFILE", "910A"}, {"USDMA_PIN_LIMIT", "much"}})
		with({{name, value}}, [setting = name] {
			CHECK(aclrtSetDevice(0));
			CHECK(reported(setting));
		});
}

void pin_limit(void **)
{
	with({{"USDMA_PIN_LIMIT", "1M"}}, [] {
		void *p, *more, *dev;
		void *const own = mmap(nullptr, 16 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(!aclrtSetDevice(0));
		CHECK(aclrtMallocHost(&p, mib + 1) == ACL_ERROR_RT_MEMORY_ALLOCATION);
		for (int i = 0; i < 3; i++) {
			CHECK(!aclrtMallocHost(&p, mib));
			CHECK(aclrtMallocHost(&more, 64) == ACL_ERROR_RT_MEMORY_ALLOCATION);
			CHECK(reported("USDMA_PIN_LIMIT"));
			CHECK(aclrtHostRegister(own, 4096, ACL_HOST_REGISTER_MAPPED, &dev) ==
			      ACL_ERROR_RT_MEMORY_ALLOCATION);
			CHECK(usdma_host_register(own, 4096, 0) == -ENOMEM);
			CHECK(usdma_host_alloc(nullptr, 64, &more) == -ENOMEM);
			/* Memory that is already pinned does not count. */
			CHECK(!aclrtHostRegister(p, mib, ACL_HOST_REGISTER_MAPPED, &dev) && !aclrtHostUnregister(p));
			CHECK(!aclrtFreeHost(p));
			CHECK(!aclrtHostRegister(own, mib, ACL_HOST_REGISTER_MAPPED, &dev));
			CHECK(aclrtMallocHost(&more, 64) == ACL_ERROR_RT_MEMORY_ALLOCATION);
			CHECK(!aclrtHostUnregister(own));
		}
		/* The library's staging buffers do not count. */
		const size_t above = sized(16 * mib, mib + mib / 4);

		CHECK(!aclrtMalloc(&dev, above, ACL_MEM_MALLOC_HUGE_FIRST));
		CHECK(!aclrtMemcpy(dev, above, own, above, ACL_MEMCPY_HOST_TO_DEVICE));
		CHECK(!aclrtMallocHost(&p, mib));
	});
}

void a_failed_registration_does_not_count(void **)
{
	if (!populate_is_checked())
		skip();
	with({{"USDMA_PIN_LIMIT", "1M"}}, [] {
		void *p;

		CHECK(!aclrtSetDevice(0));
		for (int i = 0; i < 3; i++)
			CHECK(usdma_host_register(reinterpret_cast<void *>(4096), 4096, 0) == -EFAULT);
		CHECK(!aclrtMallocHost(&p, mib));
	});
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_refused),
		cmocka_unit_test(named_calls),
		cmocka_unit_test(hot_calls),
		cmocka_unit_test(hot_calls_after_native_copies),
		cmocka_unit_test(calls_without_device),
		cmocka_unit_test(every_call),
		cmocka_unit_test(products),
		cmocka_unit_test(wrong_settings),
		cmocka_unit_test(pin_limit),
		cmocka_unit_test(a_failed_registration_does_not_count),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
