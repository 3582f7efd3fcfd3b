/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Ascend ACL runtime's interface to devices, memory, streams, events and
 * copies, served by usdma.  Link with -lascendcl (pkg-config usdma-acl).
 *
 * Rules for all functions:
 *  - 0 is success.  Arguments are checked first (100000), then handles (107017)
 *    and ranges (107000), then features (207000), then the context (107002, 107003).
 *  - Copies and memsets of 0 bytes return 0 before any check.
 *  - Functions whose comment is "Refused" need what a copy engine lacks. They check nothing, return 207000 (NULL, 0 or
 *    the enumeration's undefined value where they return something else), and leave a message that says what is
 * missing.
 *  - After a failure aclGetRecentErrMsg() returns a text that names call, argument and cause.
 *  - Any thread may make any call; the current context is a property of each thread.
 *  - A thread that is cancelled (pthread_cancel(3)) during a call completes the call first.
 *  - In a child of fork(2), _Fork(3) or clone(2) every call that needs a device returns 507000: call exec first.
 */
#ifndef USDMA_ACL_H
#define USDMA_ACL_H

#include "acl_rt.h"
#include "acl_op.h"
#include "acl_mdl.h"

#endif
