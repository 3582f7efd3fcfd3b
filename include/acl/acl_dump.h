/* SPDX-License-Identifier: BSD-3-Clause */
/* Dumps of operators' data.  Refused, all of it: no operator here could be dumped. */
#ifndef USDMA_ACL_DUMP_H
#define USDMA_ACL_DUMP_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_DUMP_MAX_FILE_PATH_LENGTH 4096
#define ACL_OP_DUMP_OP_AICORE_ARGS 0x00000001U

/* A part of a file that is dumped. */
typedef struct acldumpChunk {
	char fileName[ACL_DUMP_MAX_FILE_PATH_LENGTH]; /* an absolute path */
	uint32_t bufLen;                              /* bytes of dataBuf */
	uint32_t isLastChunk;                         /* 1: the last of the file */
	int64_t offset;                               /* in the file; -1: at its end */
	int32_t flag;
	__extension__ uint8_t dataBuf[0];
} acldumpChunk;

typedef enum acldumpType {
	AIC_ERR_BRIEF_DUMP = 1,
	AIC_ERR_NORM_DUMP = 2,
	AIC_ERR_DETAIL_DUMP = 3,
	DATA_DUMP = 4,
	OVERFLOW_DUMP = 5
} acldumpType;

#define ACL_DUMP_MAX_SHAPE_NUM 25

typedef enum acldumpTensorType {
	ACL_DUMP_TENSOR_INPUT = 0,
	ACL_DUMP_TENSOR_OUTPUT = 1,
	ACL_DUMP_TENSOR_WORKSPACE = 2
} acldumpTensorType;

typedef enum acldumpTensorAddressType {
	ACL_DUMP_ADDR_PTR = 0,
	ACL_DUMP_ADDR_PTR_PTR = 1,
	ACL_DUMP_ADDR_RAW = 2
} acldumpTensorAddressType;

typedef enum acldumpTensorPlacement {
	ACL_DUMP_PLACEMENT_DEVICE = 0,
	ACL_DUMP_PLACEMENT_HOST = 1,
	ACL_DUMP_PLACEMENT_END = 2
} acldumpTensorPlacement;

typedef struct acldumpTensorInfo {
	acldumpTensorType type;
	size_t tensorSize; /* bytes */
	int32_t format;
	int32_t dataType;
	int64_t *tensorAddr;
	acldumpTensorAddressType addrType;
	acldumpTensorPlacement placement;
	uint32_t argsOffset;
	uint32_t shapeNum; /* up to ACL_DUMP_MAX_SHAPE_NUM */
	uint32_t originShapeNum;
	uint64_t shape[ACL_DUMP_MAX_SHAPE_NUM];
	uint64_t originShape[ACL_DUMP_MAX_SHAPE_NUM];
} acldumpTensorInfo;

ACL_FUNC_VISIBILITY aclError acldumpRegCallback(int32_t (*const messageCallback)(const acldumpChunk *, int32_t),
						int32_t flag);
ACL_FUNC_VISIBILITY void acldumpUnregCallback(void);
ACL_FUNC_VISIBILITY const char *acldumpGetPath(acldumpType dumpType);
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);
ACL_FUNC_VISIBILITY aclError acldumpSaveExceptionInfo(const char *fileName, const char *userTag,
						      const acldumpTensorInfo *tensors, size_t tensorCount);
ACL_FUNC_VISIBILITY aclError acldumpGetExceptionInfoPath(char *path, size_t maxLen);

#ifdef __cplusplus
}
#endif

#endif
