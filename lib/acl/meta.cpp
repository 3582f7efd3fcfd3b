/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions for operators (include/aclnn/acl_meta.h): values that are stored and read again. */
#include "aclnn/acl_meta.h"
#include "lib/acl/state.h"

#include <algorithm>
#include <new>

using namespace usdma;
using namespace usdma::acl;

namespace {

constexpr aclnnStatus is_null = 161001, is_invalid = 161002, no_memory = 561103;
constexpr u64 most_dims = 25;

struct shape {
	u64 n;
	int64_t of[most_dims];
};

} // namespace

struct aclTensor {
	shape view, strides, storage;
	int64_t offset;
	u32 type, format; /* they may be no enumerators */
	void *data;
};

struct aclScalar {
	u32 type;
	char value[16];
};

namespace {

template <class T> struct values {
	u64 size;
	T *of;
};

} // namespace

struct aclIntArray : values<int64_t> {};
struct aclFloatArray : values<float> {};
struct aclBoolArray : values<bool> {};
struct aclTensorList : values<const aclTensor *> {};
struct aclScalarList : values<const aclScalar *> {};

namespace {

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

aclnnStatus read_dims(const char *call, const char *what, const int64_t *from, u64 n, bool positive, shape *out)
{
	if (n && !from)
		return fault(call, is_null, "%s is NULL", what);
	if (n > most_dims)
		return fault(call, is_invalid, "%s: %llu dimensions, at most %llu", what,
			     static_cast<unsigned long long>(n), static_cast<unsigned long long>(most_dims));
	for (u64 i = 0; positive && i < n; i++)
		if (from[i] < 0)
			return fault(call, is_invalid, "%s[%llu] is %lld", what, static_cast<unsigned long long>(i),
				     static_cast<long long>(from[i]));
	out->n = n;
	std::copy_n(from, n, out->of);
	return ACL_SUCCESS;
}

/* Of a tensor without holes. Sizes whose product does not fit are as they come. */
void fill_strides(const shape &view, shape *out)
{
	u64 stride = 1;

	out->n = view.n;
	for (u64 i = view.n; i-- > 0; stride *= u64(view.of[i]))
		out->of[i] = int64_t(stride);
}

aclnnStatus init(const char *call, aclTensor *t, const int64_t *view, u64 n_view, const aclDataType &type,
		 const int64_t *strides, int64_t offset, const aclFormat &format, const int64_t *storage, u64 n_storage,
		 void *data)
{
	aclTensor is = {};

	if (const aclnnStatus err = read_dims(call, "viewDims", view, n_view, true, &is.view))
		return err;
	if (const aclnnStatus err = read_dims(call, "storageDims", storage, n_storage, true, &is.storage))
		return err;
	if (!strides)
		fill_strides(is.view, &is.strides);
	else if (const aclnnStatus err = read_dims(call, "stride", strides, n_view, false, &is.strides))
		return err;
	is.offset = offset;
	is.type = number_in(type);
	is.format = number_in(format);
	is.data = data;
	*t = is;
	return ACL_SUCCESS;
}

aclnnStatus copy_of(const char *call, const shape &from, int64_t **out, uint64_t *n)
{
	auto *const all = new (std::nothrow) int64_t[from.n];

	if (!all)
		return fault(call, no_memory, "no memory for %llu values", static_cast<unsigned long long>(from.n));
	std::copy_n(from.of, from.n, all);
	*out = all;
	*n = from.n;
	return ACL_SUCCESS;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

template <class A, class T> A *make(const char *call, T *from, u64 size)
{
	using item = std::remove_const_t<T>;

	if (size && !from) {
		fault(call, is_null, "value is NULL and size %llu", static_cast<unsigned long long>(size));
		return nullptr;
	}
	auto *const out = new (std::nothrow) A;
	item *const of = out && size <= PTRDIFF_MAX / sizeof(item) ? new (std::nothrow) item[size] : nullptr;
	if (!of) {
		delete out;
		fault(call, no_memory, "no memory for %llu values", static_cast<unsigned long long>(size));
		return nullptr;
	}
	std::copy_n(from, size, of);
	out->size = size;
	out->of = of;
	return out;
}

template <class A> aclnnStatus destroy(const A *array)
{
	if (array)
		delete[] array->of;
	delete array;
	return ACL_SUCCESS;
}

/* A list and what is in it. */
template <class A, class F> aclnnStatus destroy_all(const A *list, F destroy_one)
{
	for (u64 i = 0; list && i < list->size; i++)
		destroy_one(list->of[i]);
	return destroy(list);
}

aclScalar *make_scalar(const char *call, const void *value, const aclDataType &type)
{
	const u32 number = number_in(type);
	const size_t size = number <= ACL_HIFLOAT4_SCALE ? aclDataTypeSize(type) : 0;
	aclScalar s = {number, {}};

	if (!value || !size || size > sizeof(s.value)) {
		fault(call, value ? is_invalid : is_null, value ? "type %u has no size" : "value is NULL, of type %u",
		      number);
		return nullptr;
	}
	memcpy(s.value, value, size);
	return new (std::nothrow) aclScalar(s);
}

} // namespace

extern "C" {

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
			   int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
			   void *tensorData)
{
	aclTensor is;

	if (init(__func__, &is, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
		 tensorData))
		return nullptr;
	return new (std::nothrow) aclTensor(is);
}

} // extern "C"

#include "lib/acl/calls_meta.h"
