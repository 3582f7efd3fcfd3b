/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs need of the driver's management library. Link with -ldrvdsmi_host (beside libascendcl.so).
 * No call opens a device; any thread may make it. Errors: 1 there is no device; 2 no such device; 8 a parameter;
 * 0xfffe not supported here.
 */
#ifndef USDMA_DSMI_COMMON_INTERFACE_H
#define USDMA_DSMI_COMMON_INTERFACE_H

#ifdef __cplusplus
extern "C" {
#endif

#define USDMA_DSMI_API __attribute__((visibility("default")))

/* The commands that something here answers. */
#define DSMI_MAIN_CMD_CHIP_INF 12
#define DSMI_CHIP_INF_SUB_CMD_SPOD_INFO 1

struct dsmi_spod_info {
	unsigned int sdid;
	unsigned int scale_type;
	unsigned int super_pod_id;
	unsigned int server_id;
	unsigned int chassis_id;
	unsigned int super_pod_type;
	unsigned int reserve[6];
};

struct dsmi_board_info_stru {
	unsigned int board_id;
	unsigned int pcb_id;
	unsigned int bom_id;
	unsigned int slot_id;
};

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

/*
 * A struct dsmi_spod_info for CHIP_INF with SPOD_INFO: a pod of this host only, sdid is the device's number. *size:
 * bytes of buf, at least so many, and of the answer. 0xfffe: other commands.
 */
USDMA_DSMI_API int dsmi_get_device_info(unsigned int device_id, unsigned int main_cmd, unsigned int sub_cmd, void *buf,
					unsigned int *size);
/* Refused: 0xfffe. */
USDMA_DSMI_API int dsmi_set_device_info(unsigned int device_id, unsigned int main_cmd, unsigned int sub_cmd,
					const void *buf, unsigned int buf_size);
USDMA_DSMI_API int dsmi_get_board_info(int device_id, struct dsmi_board_info_stru *pboard_info);

#ifdef __cplusplus
}
#endif

#endif
