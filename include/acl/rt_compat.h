/* SPDX-License-Identifier: BSD-3-Clause */
/* Another name of runtime/rt.h. */
#ifndef USDMA_ACL_RT_COMPAT_H
#define USDMA_ACL_RT_COMPAT_H

#include "runtime/rt.h"

#endif
