/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <acl/acl.h>
#include <dispatcher.h>

#include "tests/support/test.h"

using hccl::DeviceMem;
using hccl::HostMem;
using hccl::Stream;
using hccl::StreamType;
using hccl::TaskLogicFuncType;
using hccl::TaskLogicInfo;
using hccl::TaskLogicType;

inline int open_device(void **)
{
	return aclInit(nullptr) || aclrtSetDevice(0);
}

inline int close_device(void **)
{
	return aclrtResetDevice(0) || aclFinalize();
}
