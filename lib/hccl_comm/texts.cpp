/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of results, and settings. */
#include <hccl.h>

const char *HcclGetErrorString(HcclResult code)
{
	static constexpr const char *texts[] = {
		"no error",                           /* 0 */
		"parameter error",                    /* 1 */
		"empty pointer",                      /* 2 */
		"memory error",                       /* 3 */
		"internal error",                     /* 4 */
		"feature not supported",              /* 5 */
		"resource not found",                 /* 6 */
		"resource unavailable",               /* 7 */
		"system call error",                  /* 8 */
		"timeout",                            /* 9 */
		"open file error",                    /* 10 */
		"cannot connect to the root rank",    /* 11 */
		"RoCE connection error",              /* 12 */
		"TCP transfer error",                 /* 13 */
		"RoCE transfer error",                /* 14 */
		"runtime (ACL) call error",           /* 15 */
		"driver call error",                  /* 16 */
		"profiling error",                    /* 17 */
		"CCE error",                          /* 18 */
		"network error",                      /* 19 */
		"try again",                          /* 20 */
		"another rank has failed or is lost", /* 21 */
		"the communicator is suspended",      /* 22 */
		"the operation's retry failed",       /* 23 */
		"out of memory",                      /* 24 */
	};
	const unsigned n = unsigned(code);

	if (code == HCCL_E_IN_STATUS)
		return "an error is pending";
	return n < sizeof(texts) / sizeof(*texts) ? texts[n] : "unknown error code";
}

uint32_t HcclGetCommConfigCapability(void)
{
	return 8; /* the items up to the execution's time limit are read or have no effect here */
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue)
{
	return config == HCCL_DETERMINISTIC ? HCCL_SUCCESS : HCCL_E_PARA;
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue)
{
	if (!configValue)
		return HCCL_E_PTR;
	if (config != HCCL_DETERMINISTIC)
		return HCCL_E_PARA;
	configValue->value = 1;
	return HCCL_SUCCESS;
}
