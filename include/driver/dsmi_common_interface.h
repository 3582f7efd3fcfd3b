/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs need of the driver's management library. Link with -ldrvdsmi_host (beside libascendcl.so).
 * No call opens a device; any thread may make it. Errors: 1 there is no device; 2 no such device; 8 a parameter.
 */
#ifndef USDMA_DSMI_COMMON_INTERFACE_H
#define USDMA_DSMI_COMMON_INTERFACE_H

#ifdef __cplusplus
extern "C" {
#endif

#define USDMA_DSMI_API __attribute__((visibility("default")))

/*
 * The driver's version, as aclsysGetVersionStr("driver"), ended by a zero; *ret_len: bytes without it. version_len:
 * bytes of version_str.
 */
USDMA_DSMI_API int dsmi_get_version(int device_id, char *version_str, unsigned int version_len, unsigned int *ret_len);
/* aclrtGetDeviceCount */
USDMA_DSMI_API int dsmi_get_device_count(int *device_count);
/* The numbers of count devices. */
USDMA_DSMI_API int dsmi_list_device(int device_id_list[], int count);
/* aclrtGetPhyDevIdByUserDevId */
USDMA_DSMI_API int dsmi_get_phyid_from_logicid(unsigned int logicid, unsigned int *phyid);
/* aclrtGetUserDevIdByPhyDevId */
USDMA_DSMI_API int dsmi_get_logicid_from_phyid(unsigned int phyid, unsigned int *logicid);

#ifdef __cplusplus
}
#endif

#endif
