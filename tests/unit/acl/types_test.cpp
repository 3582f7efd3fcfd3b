/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes of types, and half-precision numbers: all of them, and the rounding between any two neighbours. */
#include "acl/acl.h"
#include "tests/support/test.h"

#include <cmath>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

static void test_sizes(void **)
{
	static constexpr struct {
		int type;
		size_t size;
	} rows[] = {
		{-1, 0}, {0, 4},  {1, 2},  {2, 1},  {3, 4},  {4, 1},   {6, 2},  {7, 2},  {8, 4},  {9, 8},
		{10, 8}, {11, 8}, {12, 1}, {13, 0}, {16, 8}, {17, 16}, {27, 2}, {29, 1}, {30, 1}, {33, 4},
		{34, 1}, {35, 1}, {36, 1}, {37, 1}, {38, 8}, {39, 8},  {40, 8}, {41, 8}, {5, 8},  {99, 8},
	};

	for (const auto &r : rows)
		assert_int_equal(aclDataTypeSize(aclDataType(r.type)), r.size);
}

/* The value of a code, by the definition of binary16. */
static double value_of(unsigned code)
{
	const int exponent = int(code >> 10 & 31);
	const double fraction = code & 1023;
	const double v = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);

	return code & 0x8000 ? -v : v;
}

static void test_float16_round_trip(void **)
{
	for (unsigned code = 0; code < 65536; code++) {
		const float f = aclFloat16ToFloat(aclFloat16(code));

		if ((code & 0x7c00) != 0x7c00)
			assert_true(double(f) == value_of(code));
		else if (code & 0x3ff)
			assert_true(std::isnan(f));
		else
			assert_true(std::isinf(f));
		assert_int_equal(std::signbit(f), code >> 15);
		const aclFloat16 back = aclFloatToFloat16(f);
		if (std::isnan(f)) /* a signaling NaN may become quiet */
			assert_true((back & 0x7c00) == 0x7c00 && (back & 0x3ff) && (back & 0x8000) == (code & 0x8000));
		else
			assert_int_equal(back, code);
	}
}

/* The midpoint of two neighbours is rounded to the even one; other values to the nearest one. */
static void test_rounding(void **)
{
	for (unsigned low = 0; low < 0x7c00; low++) {
		const double next = low == 0x7bff ? 65536 : value_of(low + 1); /* infinity follows the largest number */
		const float half = float((value_of(low) + next) / 2);

		assert_true(double(half) * 2 == value_of(low) + next);
		for (unsigned sign : {0u, 0x8000u}) {
			const float s = sign ? -1.0f : 1.0f;

			assert_int_equal(aclFloatToFloat16(s * half), sign | (low + (low & 1)));
			assert_int_equal(aclFloatToFloat16(s * std::nextafterf(half, 0)), sign | low);
			assert_int_equal(aclFloatToFloat16(s * std::nextafterf(half, INFINITY)), sign | (low + 1));
		}
	}
}

static void test_out_of_range_values(void **)
{
	assert_int_equal(aclFloatToFloat16(INFINITY), 0x7c00);
	assert_int_equal(aclFloatToFloat16(-INFINITY), 0xfc00);
	assert_int_equal(aclFloatToFloat16(3e38f), 0x7c00);
	assert_int_equal(aclFloatToFloat16(-65536.0f), 0xfc00);
	assert_int_equal(aclFloatToFloat16(0x1p-149f), 0);
	assert_int_equal(aclFloatToFloat16(-0x1p-149f), 0x8000);
	for (std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu, 0x7f802000u}) {
		float f;

		memcpy(&f, &bits, 4);
		assert_true((aclFloatToFloat16(f) & 0x7fff) > 0x7c00);
	}
}

/* The log on standard error: no lines of lower levels, at most 1023 bytes a line. */
static void test_app_log(void **)
{
	const std::string many(2000, 'x');
	char text[4096] = {};
	const int file = memfd_create("log", MFD_CLOEXEC), old = dup(STDERR_FILENO);

	dup2(file, STDERR_FILENO);
	ACL_APP_LOG(ACL_ERROR, "value %d of %s", 7, "a program");
	ACL_APP_LOG(ACL_DEBUG, "%s", "filtered");
	aclAppLog(static_cast<aclLogLevel>(9), "f", "file", 1, "filtered");
	aclAppLog(ACL_ERROR, nullptr, nullptr, 1, "%s", many.c_str());
	dup2(old, STDERR_FILENO);
	const ssize_t n = pread(file, text, sizeof(text) - 1, 0);
	assert_true(n > 0 && n < 1500);
	assert_non_null(strstr(text, "types_test.cpp"));
	assert_non_null(strstr(text, "test_app_log: value 7 of a program\n"));
	assert_null(strstr(text, "filtered"));
	assert_non_null(strstr(text, "xxxx"));
	close(old);
	close(file);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),    cmocka_unit_test(test_float16_round_trip),
		cmocka_unit_test(test_rounding), cmocka_unit_test(test_out_of_range_values),
		cmocka_unit_test(test_app_log),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
