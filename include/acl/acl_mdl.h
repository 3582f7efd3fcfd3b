/* SPDX-License-Identifier: BSD-3-Clause */
/* Models: not part of this library (it moves data).  Exists because <acl/acl.h> has always included it. */
#ifndef USDMA_ACL_MDL_H
#define USDMA_ACL_MDL_H

#include "acl_base.h"

#endif
