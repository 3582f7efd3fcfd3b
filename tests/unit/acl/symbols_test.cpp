/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libascendcl.so exports exactly the functions that the headers declare, and a few for libraries of the same build;
 * libacl_rt.so is the same library.
 */
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
static const char *const dlsym_names[] = {
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

static void test_all_declared_are_exported(void **)
{
	void *lib = open_library(library());

	for (const char *name : declared) {
		const void *symbol = dlsym(lib, name);

		if (!symbol)
			print_error("%s is declared and not exported\n", name ? name : "(null)");
		assert_non_null(symbol);
	}
	assert_true(sizeof(declared) / sizeof(declared[0]) > 230);
}

static void test_dlsym_names(void **)
{
	void *lib = open_library(library());

	for (const char *name : dlsym_names)
		assert_non_null(dlsym(lib, name));
}

static void test_no_other_exports(void **)
{
	const std::set<std::string> declared_names(std::begin(declared), std::end(declared));
	const std::string command = std::string("nm -D --defined-only ") + library();
	FILE *f = popen(command.c_str(), "r");
	char line[512], name[400], type;
	size_t seen = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %c %399s", &type, name) != 2)
			continue;
		/* lib/acl/bridge.h, and of lib/share what the libraries beside this one use */
		if (!strncmp(name, "usdma_acl_", 10) || strstr(name, "physical_allow_allEm") ||
		    strstr(name, "fabric_boot_idEPh") || strstr(name, "helper_") || strstr(name, "net_is_onEv") ||
		    strstr(name, "fabric_numberEP"))
			continue;
		seen++;
		if (!declared_names.count(name))
			print_error("%s is exported and not declared\n", name);
		assert_true(declared_names.count(name));
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(seen, declared_names.size());
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
		cmocka_unit_test(test_all_declared_are_exported),
		cmocka_unit_test(test_dlsym_names),
		cmocka_unit_test(test_no_other_exports),
		cmocka_unit_test(test_second_name),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
