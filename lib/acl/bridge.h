/* SPDX-License-Identifier: BSD-3-Clause */
/* What libhccl and libusdma-hccl of the same build use of libascendcl beside ACL's functions. */
#pragma once

#include "acl/acl.h"

#include <cstddef>

namespace usdma::core {
struct stream;
}

extern "C" {

/* Adds a line to the text of aclGetRecentErrMsg(): "CALL: CODE: TEXT". */
ACL_FUNC_VISIBILITY void usdma_acl_message(const char *call, int code, const char *text);

/*
 * Work of the stream: run(args, s), now, or at each replay if the stream is being captured. run returns 0 or -errno of
 * lib/core, -EINPROGRESS if the stream captures. args: at most 80 bytes, which are copied.
 */
ACL_FUNC_VISIBILITY aclError usdma_acl_submit(const char *call, aclrtStream stream,
					      int (*run)(const void *args, usdma::core::stream *s), const void *args,
					      size_t len);

/* 507899: the addresses are of devices without access to each other. */
ACL_FUNC_VISIBILITY aclError usdma_acl_check_peers(const char *call, const void *dst, const void *src);

/* The capture of the stream fails, as after a call that cannot be recorded. */
ACL_FUNC_VISIBILITY void usdma_acl_end_capture(aclrtStream stream);

/* As aclrtIpcMemGetExportKey(), at any address. open: to any process of this user. */
ACL_FUNC_VISIBILITY aclError usdma_acl_export_memory(const void *ptr, size_t size, bool open, char *key);

} // extern "C"
