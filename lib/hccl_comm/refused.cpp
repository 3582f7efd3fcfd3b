/* SPDX-License-Identifier: BSD-3-Clause */
/* What this library does not do. */
#include "driver/base/log.h"

#include <hccl.h>

[[gnu::cold]] static HcclResult refuse(const char *call)
{
	log_warn("hccl: %s is not supported: libhccl of usdma makes groups on one host by HcclCommInitRootInfo", call);
	return HCCL_E_NOT_SUPPORT;
}

HcclResult HcclCommInitClusterInfo(const char *, uint32_t, HcclComm *)
{
	return refuse(__func__);
}

HcclResult HcclCommInitClusterInfoConfig(const char *, uint32_t, HcclCommConfig *, HcclComm *)
{
	return refuse(__func__);
}

HcclResult HcclCreateSubCommConfig(HcclComm *, uint32_t, uint32_t *, uint64_t, uint32_t, HcclCommConfig *, HcclComm *)
{
	return refuse(__func__);
}

HcclResult HcclCommSuspend(HcclComm)
{
	return refuse(__func__);
}

HcclResult HcclCommResume(HcclComm)
{
	return refuse(__func__);
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
