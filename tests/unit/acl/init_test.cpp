/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aclInit, its file, and ASCEND_RT_VISIBLE_DEVICES.  They are read once per process,
 * so each case runs in its own process.
 */
#include "acl/acl.h"
#include "tests/support/test.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static char folder[] = "/tmp/usdma-acl-init-XXXXXX";

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			const char *text_ = aclGetRecentErrMsg();                                                      \
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, text_ ? text_ : "no message");          \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

/* Runs the case in a child; CHECK exits with status 1. */
template <class F> static void in_child(F what)
{
	int status;
	const pid_t child = fork();

	if (!child) {
		alarm(60);
		what();
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static std::string file(const char *name, const char *content)
{
	const std::string path = std::string(folder) + "/" + name;
	FILE *f = fopen(path.c_str(), "we");

	CHECK(f && fputs(content, f) >= 0 && !fclose(f));
	return path;
}

/* ---- visible devices -------------------------------------------------------------------------------- */

/* The index of the configured device, found by the size of its memory. */
static int configured_index(int32_t id)
{
	size_t left, total;

	CHECK(!aclrtSetDevice(id));
	CHECK(!aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
	CHECK(!aclrtResetDevice(id));
	return total <= 16 << 20 ? 0 : total <= 32 << 20 ? 1 : 2;
}

static void check_visible(const char *list, const std::string &want)
{
	in_child([&] {
		uint32_t n = 0;

		setenv("USDMA_DEVICES", "sim:mem=16M,sim:mem=32M,sim:mem=64M", 1);
		list ? setenv("ASCEND_RT_VISIBLE_DEVICES", list, 1) : unsetenv("ASCEND_RT_VISIBLE_DEVICES");
		CHECK(aclrtGetDeviceCount(&n) == (want.empty() ? 207004 : 0));
		CHECK(n == want.size());
		for (size_t i = 0; i < n; i++)
			CHECK(configured_index(int32_t(i)) == want[i] - '0');
		CHECK(aclrtSetDevice(int32_t(n)) == 107001);
		CHECK(aclrtSetDevice(-1) == 107001);
	});
}

static void test_visible_devices(void **)
{
	static constexpr struct {
		const char *list, *want;
	} rows[] = {
		{nullptr, "012"},
		{"", ""},
		{"0,1,2", "012"},
		{"1,2", "12"},
		{"1", "1"},
		{"01,2", "12"},
		{"0,2,", "02"},
		/* Not in ascending order. */
		{"2,0", ""},
		{"1,1", ""},
		{"0,2,1,9", ""},
		/* Read up to the first invalid device. */
		{"1,9,0", "1"},
		{"3", ""},
		{"4294967296", ""},
		{"99999999999999999999", ""},
		/* Read up to an invalid character. */
		{"1, 2,3", "1"},
		{" 1", ""},
		{"+1", ""},
		{"-1,0", ""},
		{"1,-1", "1"},
		{"0,x", "0"},
		{"0,1junk", "01"},
		{"0;1", "0"},
		{"0,,1", "0"},
		{"x,0", ""},
	};

	for (const auto &r : rows)
		check_visible(r.list, r.want);
}

/* ---- settings that the machine cannot satisfy --------------------------------------------------------- */

/* Without a descriptor for the settings the number of devices is an error, not 0. */
static void test_no_descriptors(void **)
{
	in_child([] {
		const std::string path = file("good", "devices = sim:mem=16M,sim:mem=16M\n");
		rlimit was, none;
		uint32_t n = 0;

		unsetenv("USDMA_DEVICES");
		setenv("USDMA_CONFIG", path.c_str(), 1);
		CHECK(!getrlimit(RLIMIT_NOFILE, &was));
		none = {0, was.rlim_max};
		CHECK(!setrlimit(RLIMIT_NOFILE, &none));
		CHECK(aclrtGetDeviceCount(&n) == 507899 && aclrtSetDevice(0) == 507899);
		CHECK(!setrlimit(RLIMIT_NOFILE, &was));
		CHECK(!aclrtGetDeviceCount(&n) && n == 2 && !aclrtSetDevice(1));
	});
}

static void test_no_such_node(void **)
{
	in_child([] {
		void *p = nullptr;

		setenv("USDMA_DEVICES", "sim:mem=16M", 1);
		setenv("USDMA_NUMA_NODE", "1000", 1);
		CHECK(!aclrtSetDevice(0));
		CHECK(aclrtMallocHost(&p, 4096));
		const char *text = aclGetRecentErrMsg();
		CHECK(text && strstr(text, "USDMA_NUMA_NODE") && strstr(text, "node 1000"));
	});
}

/* An NPU has fewer streams than this library. */
static void test_streams_of_a_profile(void **)
{
	in_child([] {
		uint32_t left = 0;
		aclrtStream s;
		aclError err;
		unsigned made = 0;

		setenv("USDMA_DEVICES", "sim:mem=16M", 1);
		setenv("USDMA_PROFILE", "910C", 1);
		CHECK(!aclrtSetDevice(0));
		CHECK(!aclrtGetStreamAvailableNum(&left) && left > 1900 && left < 1984);
		while (!(err = aclrtCreateStream(&s)))
			made++;
		CHECK(err == 207005 && made == left);
		CHECK(!aclrtGetStreamAvailableNum(&left) && !left);
		CHECK(!aclrtResetDeviceForce(0));
	});
}

/* ---- init and finalize ------------------------------------------------------------------------------ */

static void test_files(void **)
{
	in_child([] {
		CHECK(aclInit((std::string(folder) + "/missing").c_str()) == 100003);
		CHECK(aclGetRecentErrMsg());
		CHECK(aclInit(folder) == 100003);
		for (const char *bad : {"{", "[]", "\"text\"", "{} {}", "{\"a\": }", "\x01\xff"})
			CHECK(aclInit(file("bad", bad).c_str()) == 100006);
		for (const char *bad : {"\"x\"", "\"-1\"", "\"1 2\"", "\"\"", "\"999999999999\"", "{}"})
			CHECK(aclInit(file("bad",
					   (std::string("{\"defaultDevice\": {\"default_device\": ") + bad + "}}")
						   .c_str())
					      .c_str()) == 100000);
		CHECK(aclFinalize() == 100037); /* none of them has initialized */
		CHECK(!aclInit(file("good", "{\"unknown\": [1, 2]}").c_str()));
		CHECK(!aclFinalize());
		CHECK(aclInit(nullptr) == 100000);                               /* differs from the first file */
		CHECK(aclInit(file("bad", "{\"unknown\": ").c_str()) == 100006); /* invalid JSON is reported first */
		CHECK(aclInit((std::string(folder) + "/missing").c_str()) == 100003);
		CHECK(!aclInit(file("copy", "{\"unknown\": [1, 2]}").c_str()));
		CHECK(!aclFinalize());
	});
}

static void test_counts(void **)
{
	in_child([] {
		uint64_t left = 7;

		CHECK(aclFinalize() == 100037);
		/* Errors of this layer do not set the last error, and have a message. */
		CHECK(!aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) && aclGetRecentErrMsg());
		CHECK(aclInit("/no/such/file") == 100003);
		CHECK(!aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) && aclGetRecentErrMsg());
		CHECK(aclFinalizeReference(&left) == 100037 && left == 7);
		for (int round = 0; round < 3; round++) {
			CHECK(aclGetRecentErrMsg());
			CHECK(!aclInit(round % 2 ? "" : nullptr));
			CHECK(aclInit(nullptr) == 100002);
			CHECK(aclInit("/no/such/file") == 100002);
			CHECK(!aclGetRecentErrMsg());
			CHECK(!aclFinalizeReference(&left) && left == 2);
			CHECK(!aclFinalizeReference(nullptr));
			CHECK(!aclFinalizeReference(&left) && left == 0);
			CHECK(aclFinalizeReference(&left) == 100037);
			CHECK(!aclInit(nullptr));
			CHECK(aclInit(nullptr) == 100002);
			CHECK(!aclFinalize()); /* however often it was initialised */
			CHECK(aclFinalize() == 100037);
		}
	});
}

/* ---- settings of the file --------------------------------------------------------------------------- */

static aclError elsewhere(aclError (*call)())
{
	aclError got = -1;

	std::thread([&] { got = call(); }).join();
	return got;
}

static aclError use_memory()
{
	int32_t id = -1;
	void *p;
	const aclError err = aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST);

	if (err)
		return err;
	return aclrtGetDevice(&id) ? -2 : id != 1 ? -3 : aclrtFree(p);
}

static void test_default_device(void **)
{
	in_child([] {
		setenv("USDMA_DEVICES", "sim:mem=16M,sim:mem=16M", 1);
		CHECK(elsewhere(use_memory) == 107002);
		CHECK(!aclInit(file("c", "{\"defaultDevice\": {\"default_device\": \"1\"}}").c_str()));
		CHECK(!elsewhere(use_memory));
		CHECK(!use_memory());
		CHECK(!aclFinalize());
		CHECK(elsewhere(use_memory) == 107002);
	});
	in_child([] { /* a device that does not exist */
		      setenv("USDMA_DEVICES", "sim:mem=16M", 1);
		      CHECK(!aclInit(file("c", "{\"defaultDevice\": {\"default_device\": \"5\"}}").c_str()));
		      CHECK(elsewhere(use_memory) == 107002);
	});
}

static void test_cannot_be_opened(void **)
{
	in_child([] {
		aclrtContext c;

		setenv("USDMA_DEVICES", "vfio-user:/nonexistent/socket", 1);
		CHECK(aclrtSetDevice(0) == 507033);
		CHECK(strstr(aclGetRecentErrMsg(), "/nonexistent/socket"));
		CHECK(aclrtCreateContext(&c, 0) == 507033);
		CHECK(elsewhere(use_memory) == 107002);
	});
}

static aclError make_message()
{
	return aclrtGetRunMode(nullptr);
}

static void test_message_mode(void **)
{
	for (const char *mode : {"", "{\"err_msg_mode\": \"0\"}", "{\"err_msg_mode\": \"1\"}"})
		in_child([mode] {
			const bool shared = strchr(mode, '1');

			CHECK(!aclInit(*mode ? file("c", mode).c_str() : nullptr));
			CHECK(elsewhere(make_message) == 100000);
			const char *text = aclGetRecentErrMsg();
			CHECK(!text == !shared);
			CHECK(!text || strstr(text, "aclrtGetRunMode"));
			CHECK(!aclGetRecentErrMsg());
			CHECK(make_message() == 100000);
			CHECK(aclGetRecentErrMsg() && !aclGetRecentErrMsg());
			CHECK(make_message() == 100000 && aclrtGetDeviceCount(nullptr) == 100000);
			text = aclGetRecentErrMsg();
			CHECK(strstr(text, "aclrtGetDeviceCount") == text && strstr(text, "\naclrtGetRunMode"));
			CHECK(!aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
			/* The text is this thread's: another one's calls leave it. */
			const std::string before = text;
			CHECK(elsewhere([] {
				      const aclError err = aclrtResetDevice(99);
				      CHECK(aclGetRecentErrMsg());
				      return err;
			      }) == 107001);
			CHECK(before == text);
		});
}

/* ---- callbacks -------------------------------------------------------------------------------------- */

struct callback_log {
	std::string text;
	int inits = 0, finalizes = 0;
	aclError result = 0;
};

static aclError on_init(const char *text, size_t len, void *user)
{
	auto *h = static_cast<callback_log *>(user);

	h->text.assign(text, len);
	h->inits++;
	return h->result;
}

static aclError on_finalize(void *user)
{
	auto *h = static_cast<callback_log *>(user);

	h->finalizes++;
	return h->result;
}

static void test_callbacks(void **)
{
	in_child([] {
		const std::string path = file("c", "{\"a\": 1}");
		callback_log h;

		CHECK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, nullptr, &h) == 100000);
		CHECK(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init) == 100000);
		CHECK(!aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, &h));
		CHECK(!aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize, &h));
		CHECK(!h.inits);
		CHECK(!aclInit(path.c_str()));
		CHECK(h.inits == 1 && h.text == "{\"a\": 1}");
		CHECK(aclInit(path.c_str()) == 100002 && h.inits == 1);
		h.result = 42;
		CHECK(aclFinalize() == 42 && h.finalizes == 1);
		CHECK(aclInit(path.c_str()) == 42 && h.inits == 2);
		CHECK(!aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init));
		CHECK(!aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize));
		aclFinalize();
		CHECK(!aclInit(path.c_str()) && h.inits == 2);
		CHECK(!aclFinalize() && h.finalizes == 1);
	});
}

static int make_folder(void **)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **)
{
	for (const char *name : {"bad", "good", "copy", "c"})
		unlink((std::string(folder) + "/" + name).c_str());
	return rmdir(folder);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_visible_devices), cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_files),           cmocka_unit_test(test_counts),
		cmocka_unit_test(test_default_device),  cmocka_unit_test(test_message_mode),
		cmocka_unit_test(test_callbacks),       cmocka_unit_test(test_cannot_be_opened),
		cmocka_unit_test(test_no_such_node),    cmocka_unit_test(test_streams_of_a_profile),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
