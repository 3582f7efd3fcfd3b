/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef USDMA_ACL_BASE_H
#define USDMA_ACL_BASE_H

#include "acl_base_rt.h"
#include "acl_base_mdl.h"

#endif
