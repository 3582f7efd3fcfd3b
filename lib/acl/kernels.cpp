/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels: a copy engine does not run any. The calls exist so that programs link; each fails with 207000 and a message.
 */
#include "lib/acl/state.h"

using namespace usdma;
using namespace usdma::acl;

static aclError no_kernels(const char *call, bool args_good)
{
	if (!args_good)
		return bad_arg(call, "a pointer or handle is NULL, or a size is 0");
	return unsupported(call, "no device here runs kernels: there are copies, memsets and reductions");
}

extern "C" {

aclError aclrtBinaryLoadFromFile(const char *binPath, aclrtBinaryLoadOptions *, aclrtBinHandle *binHandle)
{
	return no_kernels(__func__, binPath && binHandle);
}

aclError aclrtBinaryLoadFromData(const void *data, size_t length, const aclrtBinaryLoadOptions *,
				 aclrtBinHandle *binHandle)
{
	return no_kernels(__func__, data && length && binHandle);
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle)
{
	return no_kernels(__func__, binHandle);
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle)
{
	return no_kernels(__func__, binHandle && kernelName && funcHandle);
}

aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle *argsHandle)
{
	return no_kernels(__func__, funcHandle && argsHandle);
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void *param, size_t paramSize, aclrtParamHandle *paramHandle)
{
	return no_kernels(__func__, argsHandle && param && paramSize && paramHandle);
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle)
{
	return no_kernels(__func__, argsHandle);
}

aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t, const void *argsData, size_t, aclrtStream)
{
	return no_kernels(__func__, funcHandle && argsData);
}

aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t, const void *argsData, size_t, aclrtLaunchKernelCfg *,
			     aclrtStream)
{
	return no_kernels(__func__, funcHandle && argsData);
}

aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t, aclrtStream, aclrtLaunchKernelCfg *,
				     aclrtArgsHandle argsHandle, void *)
{
	return no_kernels(__func__, funcHandle && argsHandle);
}

} // extern "C"
