/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of tensors, scalars and arrays: what is stored is read again, and nothing of a wrong argument is. */
#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "tests/support/test.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace usdma::test;

using values = std::vector<int64_t>;

static values read(aclnnStatus (*get)(const aclTensor *, int64_t **, uint64_t *), const aclTensor *t)
{
	int64_t *all = nullptr;
	uint64_t n = 77;

	assert_int_equal(get(t, &all, &n), OK);
	const std::unique_ptr<int64_t[]> owned(all);
	return values(all, all + n);
}

static aclTensor *make(const values &view, const values *strides, const values &storage, void *data = nullptr)
{
	return aclCreateTensor(view.data(), view.size(), ACL_BF16, strides ? strides->data() : nullptr, 3,
			       ACL_FORMAT_ND, storage.data(), storage.size(), data);
}

static void test_tensors(void **)
{
	std::mt19937_64 gen = rng(161);
	aclDataType type;
	aclFormat format;
	int64_t offset;
	void *addr;
	int data;

	for (int round = 0; round < 1000; round++) {
		values view(gen() % 26), strides(view.size()), storage(gen() % 26);

		for (values *v : {&view, &strides, &storage})
			for (int64_t &x : *v)
				x = int64_t(gen() % 100);
		aclTensor *t = make(view, round % 2 ? &strides : nullptr, storage, &data);
		assert_non_null(t);
		assert_true(read(aclGetViewShape, t) == view);
		assert_true(read(aclGetStorageShape, t) == storage);
		if (round % 2)
			assert_true(read(aclGetViewStrides, t) == strides);
		assert_int_equal(aclDestroyTensor(t), OK);
	}
	aclTensor *t = make({2, 3, 4}, nullptr, {24}, &data);
	assert_true((read(aclGetViewStrides, t) == values{12, 4, 1}));
	assert_int_equal(aclGetViewOffset(t, &offset), OK);
	assert_int_equal(offset, 3);
	assert_int_equal(aclGetDataType(t, &type), OK);
	assert_int_equal(type, ACL_BF16);
	assert_int_equal(aclGetFormat(t, &format), OK);
	assert_int_equal(format, ACL_FORMAT_ND);
	assert_int_equal(aclGetRawTensorAddr(t, &addr), OK);
	assert_ptr_equal(addr, &data);
	assert_int_equal(aclSetRawTensorAddr(t, nullptr), OK);
	assert_int_equal(aclGetRawTensorAddr(t, &addr), OK);
	assert_null(addr);
	const int64_t dims[] = {5};
	assert_int_equal(aclInitTensor(t, dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, dims, 1, &data), OK);
	assert_true(read(aclGetViewShape, t) == values{5});
	/* A scalar tensor has no dimensions. */
	assert_int_equal(aclInitTensor(t, nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, nullptr, 0, &data), OK);
	assert_true(read(aclGetViewShape, t).empty());
	assert_int_equal(aclDestroyTensor(t), OK);
}

/* Each refusal has a text that names the call. */
static void expect(const char *call, bool good)
{
	const char *text = aclGetRecentErrMsg();

	if (!good || !text || strncmp(text, call, strlen(call)) != 0)
		print_error("%s: %s\n", call, text ? text : "no text");
	assert_true(good && text && !strncmp(text, call, strlen(call)));
}

static void test_wrong_arguments(void **)
{
	const int64_t dims[] = {5, -1}, many[26] = {};
	aclTensor *t = make({2}, nullptr, {2});
	int64_t *out = nullptr;
	uint64_t n = 7;
	float f = 1;

	aclGetRecentErrMsg();
	expect("aclCreateTensor", !aclCreateTensor(nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr));
	expect("aclCreateTensor", !aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr));
	expect("aclCreateTensor", !aclCreateTensor(many, 26, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr));
	expect("aclCreateTensor", !aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr));
	expect("aclInitTensor", aclInitTensor(t, dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, &f) == 161002);
	assert_true(read(aclGetViewShape, t) == values{2});
	expect("aclInitTensor",
	       aclInitTensor(nullptr, dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, &f) == 161001);
	expect("aclGetViewShape", aclGetViewShape(nullptr, &out, &n) == 161001);
	expect("aclGetViewShape", aclGetViewShape(t, nullptr, &n) == 161001);
	expect("aclGetDataType", aclGetDataType(t, nullptr) == 161001);
	expect("aclGetRawTensorAddr", aclGetRawTensorAddr(t, nullptr) == 161001);
	expect("aclSetRawTensorAddr", aclSetRawTensorAddr(nullptr, &f) == 161001);
	expect("aclCreateScalar", !aclCreateScalar(nullptr, ACL_FLOAT));
	expect("aclCreateScalar", !aclCreateScalar(&f, ACL_STRING));
	expect("aclCreateIntArray", !aclCreateIntArray(nullptr, 1));
	expect("aclCreateIntArray", !aclCreateIntArray(dims, UINT64_MAX / 2));
	expect("aclGetTensorListSize", aclGetTensorListSize(nullptr, &n) == 161001);
	expect("aclDestroyAclOpExecutor", aclDestroyAclOpExecutor(nullptr) == 161001);
	assert_true(!out && n == 7);
	assert_int_equal(aclDestroyTensor(nullptr), OK);
	assert_int_equal(aclDestroyTensorList(nullptr), OK);
	assert_int_equal(aclDestroyBoolArray(nullptr), OK);
	assert_int_equal(aclDestroyTensor(t), OK);
	assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
}

static void test_arrays(void **)
{
	const int64_t ints[] = {1, -2, 3};
	const float floats[] = {1, 2};
	const bool bools[] = {true};
	float f = 2.5f;
	uint64_t n = 0;

	aclIntArray *a = aclCreateIntArray(ints, 3);
	assert_int_equal(aclGetIntArraySize(a, &n), OK);
	assert_int_equal(n, 3);
	aclFloatArray *b = aclCreateFloatArray(floats, 2);
	assert_int_equal(aclGetFloatArraySize(b, &n), OK);
	assert_int_equal(n, 2);
	aclBoolArray *c = aclCreateBoolArray(bools, 1);
	assert_int_equal(aclGetBoolArraySize(c, &n), OK);
	assert_int_equal(n, 1);
	aclIntArray *empty = aclCreateIntArray(nullptr, 0);
	assert_int_equal(aclGetIntArraySize(empty, &n), OK);
	assert_int_equal(n, 0);
	const aclTensor *tensors[] = {make({1}, nullptr, {1}), make({2}, nullptr, {2})};
	aclTensorList *list = aclCreateTensorList(tensors, 2);
	assert_int_equal(aclGetTensorListSize(list, &n), OK);
	assert_int_equal(n, 2);
	const aclScalar *scalars[] = {aclCreateScalar(&f, ACL_FLOAT)};
	aclScalarList *some = aclCreateScalarList(scalars, 1);
	assert_int_equal(aclGetScalarListSize(some, &n), OK);
	assert_int_equal(n, 1);
	assert_int_equal(aclDestroyIntArray(a), OK);
	assert_int_equal(aclDestroyFloatArray(b), OK);
	assert_int_equal(aclDestroyBoolArray(c), OK);
	assert_int_equal(aclDestroyIntArray(empty), OK);
	assert_int_equal(aclDestroyTensorList(list), OK); /* and its tensors: LeakSanitizer */
	assert_int_equal(aclDestroyScalarList(some), OK);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_tensors),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_wrong_arguments),
	};

	return cmocka_run_group_tests_name("descriptions for operators", tests, nullptr, nullptr);
}
