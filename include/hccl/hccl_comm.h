/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of HCCL among ranks on one host (libhccl.so): one rank a device, in one process or in several of one
 * user, pid and network namespace. The ranks' devices must share memory (FABRIC and IPC handles of ACL).
 *
 * Calls return HCCL_SUCCESS or an error; USDMA_LOG=warn logs the cause. HCCL_E_PTR: a NULL, or no communicator of this
 * process. Any thread may call; operations of one communicator run in the order of their calls, whatever the stream.
 */
#ifndef USDMA_HCCL_COMM_H
#define USDMA_HCCL_COMM_H

#include <acl/acl.h>
#include <stdbool.h>
#include <stddef.h>
#include "hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HCCL_API __attribute__((visibility("default")))

/*
 * Makes the name of a group, without waiting; each info serves one group. A rank of this process must join it.
 * HCCL_E_SYSCALL: no socket; HCCL_E_UNAVAIL: 64 groups without a rank yet.
 */
HCCL_API HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);
/*
 * Joins the group as a rank with the thread's current device, and returns when all ranks have, or after
 * HCCL_CONNECT_TIMEOUT seconds (the variable; default 120) with HCCL_E_TIMEOUT. Allocates hcclBufferSize (default: 8)
 * MiB of the device's memory. Each rank needs a thread of its own. HCCL_E_PARA: rank or nRanks (1 to 64) out of range,
 * a rank that another has taken, a group of another size, not a root info; HCCL_E_TCP_CONNECT: the process of
 * HcclGetRootInfo has ended, or is in another network namespace; HCCL_E_NOT_SUPPORT: it is on another host;
 * HCCL_E_REMOTE: another rank failed; HCCL_E_OOM; HCCL_E_RUNTIME: an ACL call failed.
 */
HCCL_API HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm);
/* The same. HCCL_E_PARA also: a config not from HcclCommConfigInit(), a buffer size of 0 or beyond 4096 MiB. */
HCCL_API HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
					       const HcclCommConfig *config, HcclComm *comm);
/* Makes a group of devices of this process: comms[i] is rank i, of devices[i]. Errors as HcclCommInitRootInfo. */
HCCL_API HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);
/*
 * Synchronise the streams of its operations first: what is not complete is aborted, and the group fails. Waits for no
 * other rank. No other thread may be in an operation of it. HCCL_E_PTR: destroyed before.
 */
HCCL_API HcclResult HcclCommDestroy(HcclComm comm);

HCCL_API HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);
HCCL_API HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);
/* commName: at least COMM_NAME_MAX_LENGTH bytes. The config's name, or one that is unique on this host. */
HCCL_API HcclResult HcclGetCommName(HcclComm comm, char *commName);
/*
 * HCCL_SUCCESS, or why operations fail: HCCL_E_REMOTE: another rank's process ended, or its part of the group failed
 * (once the rank that made the root info has left, the end of another is noticed by the time limit only);
 * HCCL_E_TIMEOUT: an operation took too long. It stays until the communicator's end.
 */
HCCL_API HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError);
/* A static text; of an unknown code, too. */
HCCL_API const char *HcclGetErrorString(HcclResult code);
/* How many of the configuration's items there are, as in HCCL's own enumeration. */
HCCL_API uint32_t HcclGetCommConfigCapability(void);
/* HCCL_DETERMINISTIC is 1 and stays so: HCCL_E_PARA for other items. */
HCCL_API HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);
HCCL_API HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue);

/* HCCL_E_NOT_SUPPORT: no rank tables, groups of groups, suspension, or communication memory of the caller. */
HCCL_API HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm);
HCCL_API HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config,
						  HcclComm *comm);
HCCL_API HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
					    uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm);
HCCL_API HcclResult HcclCommSuspend(HcclComm comm);
HCCL_API HcclResult HcclCommResume(HcclComm comm);
HCCL_API HcclResult HcclCommSetMemoryRange(HcclComm comm, void *baseVirPtr, size_t size, size_t alignment,
					   uint64_t flags);
HCCL_API HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *baseVirPtr);
HCCL_API HcclResult HcclCommActivateCommMemory(HcclComm comm, void *virPtr, size_t size, size_t offset,
					       aclrtDrvMemHandle handle, uint64_t flags);
HCCL_API HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr);
HCCL_API HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t *ranks, bool *useBackup, uint32_t nRanks);

/* Fills in the defaults. NULL: nothing. */
static inline void HcclCommConfigInit(HcclCommConfig *config)
{
	struct {
		size_t size;
		uint32_t magic, version;
		uint64_t reserved;
	} info = {sizeof(HcclCommConfig), HCCL_COMM_CONFIG_MAGIC_WORD, HCCL_COMM_CONFIG_VERSION, 0};

	if (!config)
		return;
	__builtin_memset(config, 0, sizeof(*config));
	__builtin_memcpy(config->reserved, &info, sizeof(info));
	config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
	config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
	config->hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
	config->hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
	config->hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
	config->hcclExecTimeOut = HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
	config->hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
}

#ifdef __cplusplus
}
#endif

#endif
