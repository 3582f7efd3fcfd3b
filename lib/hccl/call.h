/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts ACL codes to HCCL results, with a log line. */
#pragma once

#include "driver/base/log.h"

#include <acl/acl.h>
#include <hccl_common.h>

namespace hccl {

/* Does not take the text of aclGetRecentErrMsg(): the caller may read it. */
[[gnu::cold]] inline HcclResult acl_failed(const char *call, aclError code, HcclResult result = HCCL_E_RUNTIME)
{
	log_warn("hccl: %s returned %d", call, code);
	return result;
}

inline HcclResult acl_result(const char *call, aclError code)
{
	if (code == ACL_SUCCESS)
		return HCCL_SUCCESS;
	return acl_failed(call, code, code == ACL_ERROR_RT_MEMORY_ALLOCATION ? HCCL_E_OOM : HCCL_E_RUNTIME);
}

} // namespace hccl
