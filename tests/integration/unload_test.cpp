/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that loads the ACL library by dlopen, as transfer libraries do, and
 * unloads it while the library's threads still run.
 */
#include "tests/support/test.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <thread>

template <class F> static F *find(void *lib, const char *name)
{
	void *at = dlsym(lib, name);

	assert_non_null(at);
	return reinterpret_cast<F *>(at);
}

static std::atomic<int> called;

static void count_call(void *)
{
	called++;
}

static void use(void *lib)
{
	void *s;
	const int before = called;

	assert_int_equal(find<int(int)>(lib, "aclrtSetDevice")(0), 0);
	assert_int_equal(find<int(void **)>(lib, "aclrtCreateStream")(&s), 0);
	assert_int_equal(
		find<int(void *, void (*)(void *), void *)>(lib, "aclrtLaunchHostFunc")(s, count_call, nullptr), 0);
	assert_int_equal(find<int(void *)>(lib, "aclrtSynchronizeStream")(s), 0);
	assert_int_equal(called, before + 1);
	assert_int_equal(find<int(void *)>(lib, "aclrtDestroyStream")(s), 0);
	assert_int_equal(find<int(int)>(lib, "aclrtResetDevice")(0), 0);
}

static void unload(void **)
{
	for (int round = 0; round < 3; round++) {
		void *lib = dlopen(getenv("USDMA_TEST_ACL"), RTLD_NOW | RTLD_LOCAL);

		if (!lib)
			print_error("%s\n", dlerror());
		assert_non_null(lib);
		use(lib);
		if (round == 1)
			std::thread([lib] { use(lib); }).join();
		assert_int_equal(dlclose(lib), 0);
		/* The library's threads still run: their code must stay mapped. */
		for (int i = 0; i < 1000; i++)
			std::this_thread::yield();
	}
	/* Callback threads exit when they have been idle for a second. */
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
	while (usdma::test::threads_named("usdma-calls") && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	assert_int_equal(usdma::test::threads_named("usdma-calls"), 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(unload),
	};

	return cmocka_run_group_tests_name("unload", tests, nullptr, nullptr);
}
