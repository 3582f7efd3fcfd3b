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

ACL_FUNC_VISIBILITY aclError acldumpRegCallback(int32_t (*const messageCallback)(const acldumpChunk *, int32_t),
						int32_t flag);
ACL_FUNC_VISIBILITY void acldumpUnregCallback(void);
ACL_FUNC_VISIBILITY const char *acldumpGetPath(void);
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

#ifdef __cplusplus
}
#endif

#endif
