/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Ascend ACL runtime's interface to devices, memory, streams, events and
 * copies, served by usdma.  Link with -lascendcl (pkg-config usdma-acl).
 *
 * Rules for all functions:
 *  - 0 is success.  Arguments are checked first (100000), then handles (107017)
 *    and ranges (107000), then features (207000), then the context (107002, 107003).
 *  - Copies and memsets of 0 bytes return 0 before any check.
 *  - After a failure aclGetRecentErrMsg() returns a text that names call, argument and cause.
 *  - Any thread may make any call; the current context is a property of each thread.
 *  - A thread that is cancelled (pthread_cancel(3)) during a call completes the call first.
 *  - In a child of fork(2) every call that needs a device returns 507000: call exec first.
 */
#ifndef USDMA_ACL_H
#define USDMA_ACL_H

#include "acl_rt.h"
#include "acl_op.h"
#include "acl_mdl.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0
#define ACL_PKG_VERSION_MAX_SIZE 128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

/* Parts of the software stack that can register callbacks for aclInit and aclFinalize. */
typedef enum {
	ACL_REG_TYPE_ACL_MODEL = 0,
	ACL_REG_TYPE_ACL_OP_EXECUTOR = 1,
	ACL_REG_TYPE_ACL_OP_CBLAS = 2,
	ACL_REG_TYPE_ACL_OP_COMPILER = 3,
	ACL_REG_TYPE_ACL_TDT_CHANNEL = 4,
	ACL_REG_TYPE_ACL_TDT_QUEUE = 5,
	ACL_REG_TYPE_ACL_DVPP = 6,
	ACL_REG_TYPE_ACL_RETR = 7,
	ACL_REG_TYPE_OTHER = 0xFFFF
} aclRegisterCallbackType;

/* Called by aclInit with the text of the configuration (len bytes, "" for none). */
typedef aclError (*aclInitCallbackFunc)(const char *configStr, size_t len, void *userData);
/* Called by the aclFinalize or aclFinalizeReference that finalises the library. */
typedef aclError (*aclFinalizeCallbackFunc)(void *userData);

/*
 * Initialises the library. configPath: a JSON file, or NULL or "" for none. Recognised members: "defaultDevice":
 * {"default_device": "N"} (for threads that set no device), "err_msg_mode": "0" (messages by thread, the default)
 * or "1" (by process). 100002: initialised already, and counted once more (aclGetRecentErrMsg has no text of that);
 * 100003: the file cannot be read; 100006: it is not a JSON object; 100000: its content differs from that of the
 * first aclInit of this process.
 */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);
/* Finalises the library, regardless of the number of aclInit calls. Devices stay set. 100037: not initialised. */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);
/*
 * Drops one aclInit reference; the last one finalises. refCount (may be NULL): references left. 100037: not
 * initialised.
 */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);
/* 1, 17, 0.  100000: a pointer is NULL. */
ACL_DEPRECATED_MESSAGE("use aclsysGetVersionNum")
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);
/*
 * The version of a package ("runtime", "driver") as text; versionStr holds ACL_PKG_VERSION_MAX_SIZE bytes.
 * 100000: NULL, or no such package.
 */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionStr(char *pkgName, char *versionStr);
/* The same as a number: major * 10000000 + minor * 100000 + patch * 1000.  100000: NULL, or no such package. */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);
/* The SoC name that this library reports; a static string. */
ACL_FUNC_VISIBILITY const char *aclrtGetSocName(void);
/*
 * The errors of this thread since the last call, newest first, one a line; NULL if there were none. Owned by the
 * library, valid until this thread's next call of this function.
 */
ACL_FUNC_VISIBILITY const char *aclGetRecentErrMsg(void);
/* Registers a callback for aclInit; called at once when initialised. 100000: callback NULL, or type unknown. */
ACL_FUNC_VISIBILITY aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc,
						     void *userData);
/* 100000: callback NULL, type unknown, or not registered. */
ACL_FUNC_VISIBILITY aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc);
/* Registers a callback for finalisation. 100000: callback NULL, or type unknown. */
ACL_FUNC_VISIBILITY aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc,
							 void *userData);
/* 100000: callback NULL, type unknown, or not registered. */
ACL_FUNC_VISIBILITY aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
							   aclFinalizeCallbackFunc cbFunc);
/* The attributes that aclGetCannAttribute accepts; the library owns the array. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num);
/* 1: supported, 0: not. 100000: NULL, or no such attribute. */
ACL_FUNC_VISIBILITY aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value);

#ifdef __cplusplus
}
#endif

#endif
