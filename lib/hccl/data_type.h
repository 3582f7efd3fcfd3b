/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of HCCL's data types. */
#pragma once

#include "driver/dma/request.h"

#include <hccl_types.h>

#include <iterator>

namespace hccl {

/* By HcclDataType: those that can be reduced come first. */
inline constexpr usdma::dma::element reducible[] = {
	usdma::dma::element::i8,  usdma::dma::element::i16, usdma::dma::element::i32, usdma::dma::element::f16,
	usdma::dma::element::f32, usdma::dma::element::i64, usdma::dma::element::u64, usdma::dma::element::u8,
	usdma::dma::element::u16, usdma::dma::element::u32, usdma::dma::element::f64, usdma::dma::element::bf16,
};

/* Bytes of an element; 0: no type. */
inline usdma::u64 element_bytes(HcclDataType type)
{
	if (unsigned(type) < std::size(reducible))
		return usdma::dma::element_size(reducible[type]);
	if (type == HCCL_DATA_TYPE_INT128)
		return 16;
	return type >= HCCL_DATA_TYPE_HIF8 && type <= HCCL_DATA_TYPE_FP8E8M0; /* HCCL does not use 13 */
}

/* HCCL_E_NOT_SUPPORT: it cannot be reduced; HCCL_E_PARA: no type. */
inline HcclResult find_element(HcclDataType type, usdma::dma::element *out)
{
	if (unsigned(type) >= std::size(reducible))
		return element_bytes(type) ? HCCL_E_NOT_SUPPORT : HCCL_E_PARA;
	*out = reducible[type];
	return HCCL_SUCCESS;
}

} // namespace hccl
