/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/bridge.h"
#include "lib/core/copy/copy.h"
#include "lib/hccl/data_type.h"
#include "lib/hccl/table.h"

namespace hccl {
namespace {

using usdma::dma::element;
using usdma::dma::reduce_op;

constexpr u64 piece = u64(1) << 31; /* bytes; a multiple of every element size, and below ACL's limit */

HcclResult find_op(HcclReduceOp op, reduce_op *out)
{
	static constexpr reduce_op ops[] = {reduce_op::sum, reduce_op::prod, reduce_op::max, reduce_op::min};

	if (unsigned(op) > unsigned(HCCL_REDUCE_MIN))
		return HCCL_E_PARA;
	*out = ops[unsigned(op)];
	return HCCL_SUCCESS;
}

/* The ACL type of an element; false: aclrtReduceAsync has none. */
bool acl_type(element type, aclDataType *out)
{
	static constexpr aclDataType words[] = {ACL_INT8,    ACL_INT16,  ACL_INT32,  ACL_DT_UNDEFINED,
						ACL_UINT8,   ACL_UINT16, ACL_UINT32, ACL_DT_UNDEFINED,
						ACL_FLOAT16, ACL_BF16,   ACL_FLOAT,  ACL_DT_UNDEFINED};

	*out = words[size_t(type)];
	return *out != ACL_DT_UNDEFINED;
}

/* A reduction that aclrtReduceAsync has not. */
struct core_reduction {
	char *dst;
	const char *src;
	u64 len;
	element type;
	reduce_op op;
};

int run_reduction(const void *args, usdma::core::stream *s)
{
	const auto &r = *static_cast<const core_reduction *>(args);

	return usdma::core::reduce_async(s, r.dst, r.src, r.len, r.type, r.op);
}

/* Now, or in the graph that the stream records. */
HcclResult reduce_by_core(aclrtStream stream, const core_reduction &r)
{
	aclError code = usdma_acl_check_peers("the reduction", r.dst, r.src);

	if (!code)
		code = usdma_acl_submit("the reduction", stream, run_reduction, &r, sizeof(r));
	if (!code)
		return HCCL_SUCCESS;
	return acl_failed("the reduction", code,
			  code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT ? HCCL_E_NOT_SUPPORT : HCCL_E_RUNTIME);
}

/* The engine supports products and 64-bit types, aclrtReduceAsync does not. */
HcclResult reduce_piece(aclrtStream stream, char *dst, const char *src, u64 len, element type, reduce_op op)
{
	aclrtReduceKind kind = aclrtReduceKind(int(ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM) + int(op));
	aclDataType word;

	static_assert(int(reduce_op::max) == 1 && int(reduce_op::min) == 2, "ACL's kinds are in the engine's order");
	if (op == reduce_op::prod || !acl_type(type, &word))
		return reduce_by_core(stream, {dst, src, len, type, op});
	if (aclError code = aclrtReduceAsync(dst, src, len, kind, word, stream, nullptr))
		return acl_failed("aclrtReduceAsync", code);
	return HCCL_SUCCESS;
}

HcclResult reduce_in_pieces(char *dst, const char *src, u64 bytes, element type, reduce_op op, aclrtStream stream)
{
	for (u64 done = 0; done < bytes; done += piece) {
		u64 len = bytes - done < piece ? bytes - done : piece;

		if (HcclResult ret = reduce_piece(stream, dst + done, src + done, len, type, op))
			return ret;
	}
	return HCCL_SUCCESS;
}

} // namespace
} // namespace hccl

HcclResult HcclReduceAsync(HcclDispatcher dispatcherPtr, void *src, uint64_t count, const HcclDataType datatype,
			   const HcclReduceOp reduceOp, hccl::Stream &stream, void *dst, const u32,
			   const hccl::LinkType, const u64)
{
	hccl::dispatcher *d = hccl::find_dispatcher(dispatcherPtr);
	usdma::dma::element type = {};
	usdma::dma::reduce_op op = {};
	u64 bytes;

	if (!d || !dst || !src)
		return HCCL_E_PTR;
	if (d->records_tasks())
		return HCCL_E_NOT_SUPPORT; /* HCCL has no task type for it */
	if (!stream.ptr())
		return HCCL_E_PTR;
	if (HcclResult ret = hccl::find_element(datatype, &type))
		return ret;
	if (HcclResult ret = hccl::find_op(reduceOp, &op))
		return ret;
	const u64 element = usdma::dma::element_size(type);
	if (__builtin_mul_overflow(u64(count), element, &bytes) ||
	    (reinterpret_cast<u64>(src) | reinterpret_cast<u64>(dst)) & (element - 1))
		return HCCL_E_PARA;
	return hccl::reduce_in_pieces(static_cast<char *>(dst), static_cast<char *>(src), bytes, type, op,
				      stream.ptr());
}
