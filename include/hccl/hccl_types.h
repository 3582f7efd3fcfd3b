/* SPDX-License-Identifier: BSD-3-Clause */
/* Results, data types, reductions, and the types of communicators of HCCL.  Names and values are HCCL's. */
#ifndef USDMA_HCCL_TYPES_H
#define USDMA_HCCL_TYPES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	HCCL_SUCCESS = 0,
	HCCL_E_PARA = 1,   /* an argument is out of its range */
	HCCL_E_PTR = 2,    /* a NULL, a destroyed dispatcher, or memory that is too small */
	HCCL_E_MEMORY = 3, /* no host memory */
	HCCL_E_INTERNAL = 4,
	HCCL_E_NOT_SUPPORT = 5,
	HCCL_E_NOT_FOUND = 6,
	HCCL_E_UNAVAIL = 7,
	HCCL_E_SYSCALL = 8,
	HCCL_E_TIMEOUT = 9,
	HCCL_E_OPEN_FILE_FAILURE = 10,
	HCCL_E_TCP_CONNECT = 11,
	HCCL_E_ROCE_CONNECT = 12,
	HCCL_E_TCP_TRANSFER = 13,
	HCCL_E_ROCE_TRANSFER = 14,
	HCCL_E_RUNTIME = 15, /* an ACL call failed; aclGetRecentErrMsg() says why */
	HCCL_E_DRV = 16,
	HCCL_E_PROFILING = 17,
	HCCL_E_CCE = 18,
	HCCL_E_NETWORK = 19,
	HCCL_E_AGAIN = 20,
	HCCL_E_REMOTE = 21,
	HCCL_E_SUSPENDING = 22,
	HCCL_E_OPRETRY_FAIL = 23,
	HCCL_E_OOM = 24, /* no device memory */
	HCCL_E_IN_STATUS = 1041,
	HCCL_E_RESERVED = 1042
} HcclResult;

typedef enum {
	HCCL_REDUCE_SUM = 0,
	HCCL_REDUCE_PROD = 1,
	HCCL_REDUCE_MAX = 2,
	HCCL_REDUCE_MIN = 3,
	HCCL_REDUCE_RESERVED = 255
} HcclReduceOp;

/* The numbers differ from aclDataType's. */
typedef enum {
	HCCL_DATA_TYPE_INT8 = 0,
	HCCL_DATA_TYPE_INT16 = 1,
	HCCL_DATA_TYPE_INT32 = 2,
	HCCL_DATA_TYPE_FP16 = 3,
	HCCL_DATA_TYPE_FP32 = 4,
	HCCL_DATA_TYPE_INT64 = 5,
	HCCL_DATA_TYPE_UINT64 = 6,
	HCCL_DATA_TYPE_UINT8 = 7,
	HCCL_DATA_TYPE_UINT16 = 8,
	HCCL_DATA_TYPE_UINT32 = 9,
	HCCL_DATA_TYPE_FP64 = 10,
	HCCL_DATA_TYPE_BFP16 = 11,
	HCCL_DATA_TYPE_INT128 = 12,
	HCCL_DATA_TYPE_HIF8 = 14,
	HCCL_DATA_TYPE_FP8E4M3 = 15,
	HCCL_DATA_TYPE_FP8E5M2 = 16,
	HCCL_DATA_TYPE_FP8E8M0 = 17,
	HCCL_DATA_TYPE_RESERVED = 255
} HcclDataType;

/* A communicator: one rank of a group. */
typedef void *HcclComm;
typedef void *HcclConn;
/* A symmetric window. */
typedef void *HcclCommSymWindow;
typedef enum { HCCL_WIN_DEFAULT = 0, HCCL_WIN_COLL_SYMMETRIC = 1 } symmetricMemoryFlag;

/* Constants, as in HCCL's header: programs have variables of these names. Lengths of arrays are not, in C. */
#ifdef __cplusplus
#define USDMA_HCCL_CONSTANT const
const uint32_t HCCL_ROOT_INFO_BYTES = 4108;
const uint32_t HCCL_COMM_CONFIG_INFO_BYTES = 24;
const uint32_t COMM_NAME_MAX_LENGTH = 128;
const uint32_t BUFFER_NAME_MAX_LENGTH = 128;
const uint32_t UDI_MAX_LENGTH = 128;
const uint32_t HCCL_COMM_ALGO_MAX_LENGTH = 1600;
const uint32_t HCCL_COMM_RETRY_ENABLE_MAX_LENGTH = 50;
const uint32_t HCCL_COMM_RETRY_PARAMS_MAX_LENGTH = 128;
#else
#define USDMA_HCCL_CONSTANT static const
enum {
	HCCL_ROOT_INFO_BYTES = 4108,
	HCCL_COMM_CONFIG_INFO_BYTES = 24,
	COMM_NAME_MAX_LENGTH = 128,
	BUFFER_NAME_MAX_LENGTH = 128,
	UDI_MAX_LENGTH = 128,
	HCCL_COMM_ALGO_MAX_LENGTH = 1600,
	HCCL_COMM_RETRY_ENABLE_MAX_LENGTH = 50,
	HCCL_COMM_RETRY_PARAMS_MAX_LENGTH = 128
};
#endif

USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_CONFIG_MAGIC_WORD = 0xf0f0f0f0U;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_CONFIG_VERSION = 11;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_DEFAULT_BUFFSIZE = 200; /* MiB; usdma: only with USDMA_PROFILE */
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET = 0xffffffffU;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_DEFAULT_DETERMINISTIC = 0;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET = 0xffffffffU;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_DEFAULT_OP_EXPANSION_MODE = 0;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET = 0xffffffffU;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET = 0xffffffffU;
USDMA_HCCL_CONSTANT int32_t HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET = -1;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_QOS_CONFIG_NOT_SET = 0xffffffffU;
USDMA_HCCL_CONSTANT uint32_t HCCL_COMM_SQ_DEPTH_CONFIG_NOT_SET = 0xffffffffU;
USDMA_HCCL_CONSTANT uint64_t HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE = 16; /* GB */
#undef USDMA_HCCL_CONSTANT

/* Names a group to its ranks: made by one of them, and passed to the others by the program. */
typedef struct HcclRootInfoDef {
	char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

/* Set all of it by HcclCommConfigInit(). usdma reads hcclBufferSize, hcclCommName and hcclExecTimeOut. */
typedef struct HcclCommConfigDef {
	char reserved[HCCL_COMM_CONFIG_INFO_BYTES]; /* by HcclCommConfigInit() only */
	uint32_t hcclBufferSize;                    /* MiB of device memory for communication */
	uint32_t hcclDeterministic;                 /* reductions always are */
	char hcclCommName[COMM_NAME_MAX_LENGTH];
	char hcclUdi[UDI_MAX_LENGTH];
	uint32_t hcclOpExpansionMode;
	uint32_t hcclRdmaTrafficClass;
	uint32_t hcclRdmaServiceLevel;
	uint32_t hcclWorldRankID;
	uint64_t hcclJobID;
	uint8_t aclGraphZeroCopyEnable;
	int32_t hcclExecTimeOut; /* seconds that an operation may wait for other ranks */
	char hcclAlgo[HCCL_COMM_ALGO_MAX_LENGTH];
	char hcclRetryEnable[HCCL_COMM_RETRY_ENABLE_MAX_LENGTH];
	char hcclRetryParams[HCCL_COMM_RETRY_PARAMS_MAX_LENGTH];
	char hcclBufferName[BUFFER_NAME_MAX_LENGTH];
	uint32_t hcclQos;
	uint64_t hcclSymWinMaxMemSizePerRank;
	uint32_t hcclChannelSqDepth; /* from version 11 on */
} HcclCommConfig;

/* Items of a configuration: those below HcclGetCommConfigCapability() are accepted. */
typedef enum {
	HCCL_COMM_CONFIG_BUFFER_SIZE = 0,
	HCCL_COMM_CONFIG_DETERMINISTIC = 1,
	HCCL_COMM_CONFIG_COMM_NAME = 2,
	HCCL_COMM_CONFIG_OP_EXPANSION_MODE = 3,
	HCCL_COMM_CONFIG_SUPPORT_INIT_BY_ENV = 4,
	HCCL_COMM_CONFIG_WORLD_RANKID = 5,
	HCCL_COMM_CONFIG_JOBID = 6,
	HCCL_COMM_CONFIG_ACLGRAPH_ZEROCOPY_ENABLE = 7,
	HCCL_COMM_CONFIG_EXEC_TIMEOUT = 8,
	HCCL_COMM_CONFIG_ALGO = 9,
	HCCL_COMM_CONFIG_RETRY = 10,
	HCCL_COMM_CONFIG_BUFFER_NAME = 11,
	HCCL_COMM_CONFIG_RESERVED
} HcclCommConfigCapability;

typedef enum {
	HCCL_COMM_STATUS_READY = 0,
	HCCL_COMM_STATUS_SUSPENDING = 1,
	HCCL_COMM_STATUS_INVALID = 254, /* the group has failed */
	HCCL_COMM_STATUS_RESERVED = 255
} HcclCommStatus;

/* How operations are executed; usdma: HOST_TS. */
typedef enum {
	HCCL_OP_EXPANSION_MODE_INVALID = -1,
	HCCL_OP_EXPANSION_MODE_AI_CPU = 0,
	HCCL_OP_EXPANSION_MODE_AIV = 1,
	HCCL_OP_EXPANSION_MODE_HOST = 2,
	HCCL_OP_EXPANSION_MODE_HOST_TS = 3,
	HCCL_OP_EXPANSION_MODE_CCU_MS = 4,
	HCCL_OP_EXPANSION_MODE_CCU_SCHED = 5,
	HCCL_OP_EXPANSION_AIV_ONLY = 6
} HcclOpExpansionMode;

typedef enum {
	HCCL_CONFIG_TYPE_INVALID = -1,
	HCCL_CONFIG_TYPE_OP_EXPANSION_MODE = 0,
	HCCL_CONFIG_TYPE_HCCL_ALGO = 1,
	HCCL_CONFIG_TYPE_UB_MULTI_CHANNEL_NUM = 2
} HcclConfigType;

typedef HcclOpExpansionMode HcclConfigTypeOpExpansionMode;

typedef enum { HCCL_DETERMINISTIC = 0, HCCL_CONFIG_RESERVED } HcclConfig;

typedef union HcclConfigValue {
	int32_t value;
} HcclConfigValue;

typedef enum { HCCL_SEND = 0, HCCL_RECV = 1, HCCL_SEND_RECV_RESERVED } HcclSendRecvType;

/* One transfer of HcclBatchSendRecv(). */
typedef struct HcclSendRecvItemDef {
	HcclSendRecvType sendRecvType;
	void *buf;      /* device memory */
	uint64_t count; /* elements */
	HcclDataType dataType;
	uint32_t remoteRank;
} HcclSendRecvItem;

#ifdef __cplusplus
}
#endif

#endif
