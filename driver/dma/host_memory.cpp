/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/engines/edu/areas.h"

#include <algorithm>

namespace usdma::edu {

using dma::fault_reason;

fault_reason area_list::translate(u64 addr, u64 len, u32 right, piece *out) const
{
	const bool source = right == vfio::dma_read;
	auto it = areas_.upper_bound(addr);

	if (it == areas_.begin())
		return source ? fault_reason::src_unmapped : fault_reason::dst_unmapped;
	const vfio::dma_area &a = (--it)->second;
	const u64 offset = addr - a.iova;
	if (offset >= a.size)
		return source ? fault_reason::src_unmapped : fault_reason::dst_unmapped;
	if ((a.prot & right) != right)
		return source ? fault_reason::src_denied : fault_reason::dst_denied;
	*out = {static_cast<u8 *>(a.vaddr) + offset, std::min(len, a.size - offset)};
	return fault_reason::none;
}

fault_reason area_list::check(u64 addr, u64 len, u32 right, u64 *at) const
{
	piece p;

	*at = addr;
	if (len > ~u64(0) - addr)
		return right == vfio::dma_read ? fault_reason::src_unmapped : fault_reason::dst_unmapped;
	for (; len; *at += p.len, len -= p.len)
		if (const fault_reason why = translate(*at, len, right, &p); why != fault_reason::none)
			return why;
	return fault_reason::none;
}

} // namespace usdma::edu
