/* SPDX-License-Identifier: BSD-3-Clause */
/* What this library does not do. */
#include "lib/hccl_comm/cause.h"

#include <hccl.h>

[[gnu::cold]] static HcclResult refuse(const char *call)
{
	using namespace usdma::hccl_comm;

	return called(call, [] {
		return because(HCCL_E_NOT_SUPPORT, "not supported: there are no network cards, and "
						   "no communication memory of the caller");
	});
}

HcclResult HcclCommSetMemoryRange(HcclComm, void *, size_t, size_t, uint64_t)
{
	return refuse(__func__);
}

HcclResult HcclCommUnsetMemoryRange(HcclComm, void *)
{
	return refuse(__func__);
}

HcclResult HcclCommActivateCommMemory(HcclComm, void *, size_t, size_t, aclrtDrvMemHandle, uint64_t)
{
	return refuse(__func__);
}

HcclResult HcclCommDeactivateCommMemory(HcclComm, void *)
{
	return refuse(__func__);
}

HcclResult HcclCommWorkingDevNicSet(HcclComm, uint32_t *, bool *, uint32_t)
{
	return refuse(__func__);
}
