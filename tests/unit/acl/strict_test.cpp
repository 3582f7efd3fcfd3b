/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * USDMA_CHECK=strict: uses that ACL's documents forbid and its runtime accepts are reported, and work as without it.
 * Each case runs in a child, as settings are read once.
 */
#include "acl/acl.h"
#include "tests/support/test.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr size_t block = 4096;
constexpr int status_found = 66;

struct memory {
	char *dev = nullptr, *pin = nullptr;
	aclrtStream s = nullptr;

	memory()
	{
		if (aclrtSetDevice(0) || aclrtCreateStream(&s) ||
		    aclrtMalloc(reinterpret_cast<void **>(&dev), block, ACL_MEM_MALLOC_HUGE_FIRST) ||
		    aclrtMallocHost(reinterpret_cast<void **>(&pin), block))
			_exit(2);
	}
	aclError copy(size_t to, size_t from, aclrtMemcpyKind kind) const
	{
		return aclrtMemcpyAsync(dev + to, 128, pin + from, 128, kind, s);
	}
	/* The second item is in the other direction if both. */
	aclError batch(bool both) const
	{
		aclrtMemcpyBatchAttr attr[2] = {
			{{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {}},
			{{0, ACL_MEM_LOCATION_TYPE_HOST}, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {}}};
		void *dst[2] = {dev, both ? pin + 64 : dev + 64}, *src[2] = {pin, both ? dev + 64 : pin + 64};
		size_t sizes[2] = {64, 64}, index[2] = {0, 1}, bad;

		return aclrtMemcpyBatchAsync(dst, sizes, src, sizes, 2, attr, index, both ? 2 : 1, &bad, s);
	}
};

/* The lines of reports, not the summary, that a child of these settings leaves. */
template <class F> std::string reports(const char *check, int want_status, const F &f)
{
	char path[] = "/tmp/usdma-acl-strict-XXXXXX";
	const int fd = mkstemp(path);
	std::string all, line;
	int status = -1;

	assert_true(fd >= 0);
	close(fd);
	const pid_t child = fork();
	if (!child) {
		setenv("USDMA_CHECK", ((*check ? std::string(check) + "," : "") + "report=" + path).c_str(), 1);
		const memory m;
		exit(f(m) || aclrtSynchronizeStream(m.s) ? 3 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), want_status);
	for (std::ifstream in(path); std::getline(in, line);)
		all += line.find("\"report\"") == line.npos ? "" : line + "\n";
	unlink(path);
	return all;
}

bool one_line_with(const std::string &text, const char *what)
{
	return text.find(what) != text.npos && text.find('\n') == text.size() - 1;
}

} // namespace

static void test_alignment(void **)
{
	const auto odd = [](const memory &m) {
		aclError err = ACL_SUCCESS;

		for (int i = 0; i < 3 && !err; i++)
			err = m.copy(1, 3, ACL_MEMCPY_HOST_TO_DEVICE);
		return err;
	};

	assert_string_equal(reports("", 0, odd).c_str(), "");
	for (const char *check : {"strict", "race,strict", "early,strict"})
		assert_true(one_line_with(reports(check, status_found, odd), "aligned to 64 bytes"));
	assert_string_equal(
		reports("strict", 0, [](const memory &m) { return m.copy(64, 128, ACL_MEMCPY_HOST_TO_DEVICE); })
			.c_str(),
		"");
}

static void test_kind(void **)
{
	const std::string got = reports("strict", status_found,
					[](const memory &m) { return m.copy(0, 0, ACL_MEMCPY_HOST_TO_HOST); });

	assert_true(one_line_with(got, "ACL_MEMCPY_HOST_TO_HOST"));
	assert_true(got.find("\"call\": \"aclrtMemcpyAsync\"") != got.npos);
	assert_string_equal(
		reports("strict", 0, [](const memory &m) { return m.copy(0, 0, ACL_MEMCPY_DEFAULT); }).c_str(), "");
}

static void test_directions(void **)
{
	const auto both = [](const memory &m) { return m.batch(true); };

	assert_string_equal(reports("", 0, both).c_str(), "");
	assert_true(one_line_with(reports("strict", status_found, both), "both directions"));
	assert_string_equal(reports("strict", 0, [](const memory &m) { return m.batch(false); }).c_str(), "");
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_alignment),
		cmocka_unit_test(test_kind),
		cmocka_unit_test(test_directions),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
