/* SPDX-License-Identifier: BSD-3-Clause */
/* What the headers declare is what libascendcl.so exports, no more and no less; its second name is the same library. */
#include "tests/support/test.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <set>
#include <string>

static const char *const declared[] = {
#define N(name) #name,
#include "declared.inc"
#undef N
};

/* Names that programs look up in the library by dlsym. */
static const char *const looked_up[] = {
	"aclrtGetDevice",
	"aclrtSetDevice",
	"aclrtDeviceEnablePeerAccess",
	"aclrtCreateStream",
	"aclrtCreateStreamWithConfig",
	"aclrtDestroyStream",
	"aclrtSynchronizeStream",
	"aclrtMalloc",
	"aclrtFree",
	"aclrtMallocHost",
	"aclrtFreeHost",
	"aclrtMemcpy",
	"aclrtMemcpyAsync",
	"aclrtMemcpy2d",
	"aclrtMemcpy2dAsync",
	"aclrtMemset",
	"aclrtGetSocName",
	"rtDeviceGetBareTgid",
	"rtGetDeviceInfo",
	"rtSetIpcMemorySuperPodPid",
	"rtIpcSetMemoryName",
	"rtIpcDestroyMemoryName",
	"rtIpcOpenMemory",
	"rtIpcCloseMemory",
	"rtEnableP2P",
	"rtDisableP2P",
	"rtGetLogicDevIdByUserDevId",
	"rtMemcpyAsyncWithoutCheckKind",
	"aclrtMemcpyBatch",
};

static const char *library()
{
	const char *path = getenv("ACL_LIBRARY");

	assert_non_null(path);
	return path;
}

static void *open_library(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		print_error("%s\n", dlerror());
	assert_non_null(lib);
	return lib;
}

static void test_all_declared_are_there(void **)
{
	void *lib = open_library(library());

	for (const char *name : declared) {
		const void *there = dlsym(lib, name);

		if (!there)
			print_error("%s is declared and not exported\n", name ? name : "(null)");
		assert_non_null(there);
	}
	assert_true(sizeof(declared) / sizeof(declared[0]) > 230);
}

static void test_looked_up(void **)
{
	void *lib = open_library(library());

	for (const char *name : looked_up)
		assert_non_null(dlsym(lib, name));
}

static void test_nothing_else(void **)
{
	const std::set<std::string> known(std::begin(declared), std::end(declared));
	const std::string command = std::string("nm -D --defined-only ") + library();
	FILE *f = popen(command.c_str(), "r");
	char line[512], name[400], type;
	size_t seen = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %c %399s", &type, name) != 2)
			continue;
		seen++;
		if (!known.count(name))
			print_error("%s is exported and not declared\n", name);
		assert_true(known.count(name));
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(seen, known.size());
}

static void test_second_name(void **)
{
	std::string alias = library();

	alias.replace(alias.rfind("libascendcl.so"), strlen("libascendcl.so"), "libacl_rt.so");
	assert_ptr_equal(dlsym(open_library(alias.c_str()), "aclrtMemcpyAsync"),
			 dlsym(open_library(library()), "aclrtMemcpyAsync"));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_all_declared_are_there),
		cmocka_unit_test(test_looked_up),
		cmocka_unit_test(test_nothing_else),
		cmocka_unit_test(test_second_name),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
