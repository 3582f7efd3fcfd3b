/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of HCCL among ranks on one host (libhccl.so): one rank a device, in one process or in several of one
 * user, pid and network namespace. The ranks' devices must share memory (FABRIC and IPC handles of ACL).
 *
 * Calls return HCCL_SUCCESS or an error; USDMA_LOG=warn logs the cause, HcclGetErrorString() and aclGetRecentErrMsg()
 * report it. HCCL_E_PTR: a NULL, or no communicator of this process: a handle is never that of another one. Any thread
 * may call at any time; operations of one communicator run in the order of their calls, whatever the stream.
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
 * Makes the name of a group, without waiting; each info serves one group. A rank of this process must join it. Of 64
 * that no rank has joined the next call closes the oldest. HCCL_E_SYSCALL: no socket.
 */
HCCL_API HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);
/*
 * Joins the group as a rank with the thread's current device, and returns when all ranks have, or after
 * HCCL_CONNECT_TIMEOUT seconds (the variable; default 120) with HCCL_E_TIMEOUT. Allocates hcclBufferSize, HCCL_BUFFSIZE
 * or 8 MiB of the device's memory, with USDMA_PROFILE twice that and by default 2 x 200. Each rank needs a thread of
 * its own, or a group (HcclGroupStart). HCCL_E_PARA: rank or nRanks (1 to 64) out of range, a rank that another has
 * taken, a group of another size, not a root info; HCCL_E_TCP_CONNECT: the process of HcclGetRootInfo has ended, or is
 * in another network namespace; HCCL_E_NOT_SUPPORT: it is on another host; HCCL_E_REMOTE: another rank failed;
 * HCCL_E_OOM; HCCL_E_RUNTIME: an ACL call failed.
 */
HCCL_API HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm);
/* The same. HCCL_E_PARA also: a config not from HcclCommConfigInit(), a buffer size of 0 or beyond 4096 MiB. */
HCCL_API HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
					       const HcclCommConfig *config, HcclComm *comm);
/* Makes a group of devices of this process: comms[i] is rank i, of devices[i]. Errors as HcclCommInitRootInfo. */
HCCL_API HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);
/*
 * Synchronise the streams of its operations first: what is not complete is aborted, and the group fails. Waits for no
 * other rank, but for calls of other threads, which fail (HCCL_E_UNAVAIL). HCCL_E_PTR: destroyed before.
 */
HCCL_API HcclResult HcclCommDestroy(HcclComm comm);

HCCL_API HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);
HCCL_API HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);
/* commName: at least COMM_NAME_MAX_LENGTH bytes. The config's name, or one that is unique on this host. */
HCCL_API HcclResult HcclGetCommName(HcclComm comm, char *commName);
/* The newest communicator of this process with that name. HCCL_E_PARA: there is none. */
HCCL_API HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *comm);
/* HCCL_COMM_STATUS_*, by name. HCCL_E_PARA: there is none. */
HCCL_API HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status);
/*
 * HCCL_SUCCESS, or the first error, why operations fail: HCCL_E_REMOTE: another rank's process ended, or its part of
 * the group failed (once the rank that made the root info has left, the end of another is noticed by the time limit
 * only); HCCL_E_TIMEOUT: an operation took too long. It stays until the communicator's end.
 */
HCCL_API HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError);
/*
 * A text; of an unknown code, too. If the thread's last call of HCCL failed with that code, or HcclGetCommAsyncError()
 * has given it, the cause follows. Valid until the thread's next call.
 */
HCCL_API const char *HcclGetErrorString(HcclResult code);
/* HCCL_COMM_CONFIG_RESERVED: all items are read, or have no effect here. */
HCCL_API uint32_t HcclGetCommConfigCapability(void);
/* HCCL_DETERMINISTIC is 1 and stays so: HCCL_E_PARA for other items. With comm: of a communicator. */
HCCL_API HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);
HCCL_API HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue);
HCCL_API HcclResult HcclSetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue configValue);
HCCL_API HcclResult HcclGetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue *configValue);
/* A setting that info receives. HCCL_E_NOT_SUPPORT: not OP_EXPANSION_MODE; HCCL_E_PARA: infoLen is too small. */
HCCL_API HcclResult HcclConfigGetInfo(HcclComm comm, HcclConfigType cfgType, uint32_t infoLen, void *info);

/*
 * Joins as a rank of a rank table's file, version 1.0 or 1.2, of one server, as HcclCommInitRootInfo does, without
 * a root info. All ranks have a file of the same content, and the same name in config; a group of the same
 * table and name of this user is made after the other. HCCL_E_PARA also: no file, not a rank table, not this rank's
 * device; HCCL_E_NOT_SUPPORT: several servers, another version.
 */
HCCL_API HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm);
HCCL_API HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config,
						  HcclComm *comm);
/*
 * A group of some ranks of a group, which all of them call with the same rankIds (rising), subCommId and config; this
 * one is rankIds[subCommRankId]. A rank that belongs to none passes rankIds NULL and subCommId 0xffffffff: *subComm is
 * NULL. Without a name in config it is NAME_sub_ID. Errors as HcclCommInitRootInfo.
 */
HCCL_API HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
					    uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm);

/* Operations fail with HCCL_E_SUSPENDING until HcclCommResume(). */
HCCL_API HcclResult HcclCommSuspend(HcclComm comm);
/*
 * Called by all ranks, and returns when all have: what is not complete is aborted, an error of the group is over, the
 * next operation is the first; graphs recorded before fail. Errors as HcclCommInitRootInfo; the communicator stays
 * suspended then. HCCL_E_PARA also: it is not suspended.
 */
HCCL_API HcclResult HcclCommResume(HcclComm comm);

/*
 * What the thread calls until HcclGroupEnd() is done there: HcclCommInit*, collective operations, HcclSend and
 * HcclRecv, HcclCommDestroy. So one thread can serve several ranks. Arguments are checked, and arrays copied, at the
 * call; buffers and results stay the caller's until the end. All HcclSend and HcclRecv of a communicator are one
 * HcclBatchSendRecv in the first one's stream. Groups may be nested: the outermost counts.
 */
HCCL_API HcclResult HcclGroupStart(void);
/* The first error of all of it; all of it is tried. HCCL_E_NOT_SUPPORT: no group was begun. */
HCCL_API HcclResult HcclGroupEnd(void);
HCCL_API HcclResult HcclGroupStatusGet(bool *isGroupEnabled);

/*
 * Registers memory of this rank as a symmetric window, until it is deregistered or the communicator is destroyed.
 * Operations copy through slots with and without it. flag: 1. HCCL_E_PARA: another flag, size 0, not a device's memory,
 * or a part of it is registered; HCCL_E_NOT_SUPPORT: by USDMA_PROFILE; HCCL_E_MEMORY.
 */
HCCL_API HcclResult HcclCommSymWinRegister(HcclComm comm, void *addr, uint64_t size, HcclCommSymWindow *winHandle,
					   uint32_t flag);
/* HCCL_E_PARA: no window. */
HCCL_API HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle);
/* The window that holds the range, and where. HCCL_E_NOT_FOUND: there is none; HCCL_E_PARA: size 0. */
HCCL_API HcclResult HcclCommSymWinGet(HcclComm comm, void *ptr, size_t size, HcclCommSymWindow *winHandle,
				      size_t *offset);

/* HCCL_E_NOT_SUPPORT: no communication memory of the caller, no network cards. */
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
	config->hcclSymWinMaxMemSizePerRank = HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE;
	config->hcclChannelSqDepth = HCCL_COMM_SQ_DEPTH_CONFIG_NOT_SET;
}

#ifdef __cplusplus
}
#endif

#endif
