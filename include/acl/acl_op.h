/* SPDX-License-Identifier: BSD-3-Clause */
/* Single operators: not part of this library (it moves data).  Exists because <acl/acl.h> has always included it. */
#ifndef USDMA_ACL_OP_H
#define USDMA_ACL_OP_H

#include "acl_base.h"

#endif
