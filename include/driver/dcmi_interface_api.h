/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs need of the management library for containers and machines. Link with -ldcmi (beside libascendcl.so).
 * Each device is a card of its own, with one device, 0. No call opens a device; any thread may make it. Errors: -8001 a
 * parameter; -8007 no such device; -8255 not supported here.
 */
#ifndef USDMA_DCMI_INTERFACE_API_H
#define USDMA_DCMI_INTERFACE_API_H

#ifdef __cplusplus
extern "C" {
#endif

#define USDMA_DCMI_API __attribute__((visibility("default")))

#define DCMI_OK 0
#define DCMI_ERR_CODE_INVALID_PARAMETER (-8001)
#define DCMI_ERR_CODE_INNER_ERR (-8005)
#define DCMI_ERR_CODE_INVALID_DEVICE_ID (-8007)
#define DCMI_ERR_CODE_NOT_SUPPORT (-8255)

struct dcmi_pcie_info_all {
	unsigned int venderid;
	unsigned int subvenderid;
	unsigned int deviceid;
	unsigned int subdeviceid;
	int domain;
	unsigned int bdf_busid;
	unsigned int bdf_deviceid;
	unsigned int bdf_funcid;
	unsigned char reserve[32];
};

#define TOPO_INFO_MAX_LENTH 32

/* Opaque: nothing is written to it. */
typedef struct dcmi_urma_eid_info dcmi_urma_eid_info_t;

/* Nothing is needed: 0. */
USDMA_DCMI_API int dcmi_init(void);
USDMA_DCMI_API int dcmiv2_init(void);
/* The numbers of all cards, at most list_len. */
USDMA_DCMI_API int dcmi_get_card_list(int *card_num, int *card_list, int list_len);
USDMA_DCMI_API int dcmi_get_card_num_list(int *card_num, int *card_list, int list_len);
USDMA_DCMI_API int dcmiv2_get_device_list(int *device_list, int *device_cnt, int list_len);
/* 1; -1 for the others: there is no such chip. */
USDMA_DCMI_API int dcmi_get_device_id_in_card(int card_id, int *device_id_max, int *mcu_id, int *cpu_id);
USDMA_DCMI_API int dcmi_get_device_num_in_card(int card_id, int *device_num);
USDMA_DCMI_API int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id);
USDMA_DCMI_API int dcmi_get_card_id_device_id_from_logicid(int *card_id, int *device_id, unsigned int device_logic_id);
/* dsmi_get_logicid_from_phyid */
USDMA_DCMI_API int dcmiv2_get_dev_id_from_chip_phyid(unsigned int phyid, unsigned int *dev_id);
/* The address of aclrtDeviceGetPCIBusId, and the ids that the kernel has of it. -8255: a software device. */
USDMA_DCMI_API int dcmi_get_device_pcie_info_v2(int card_id, int device_id, struct dcmi_pcie_info_all *pcie_info);
USDMA_DCMI_API int dcmiv2_get_device_pcie_info(int dev_id, struct dcmi_pcie_info_all *pcie_info);
/*
 * The CPUs beside the device, as the kernel has them ("0-31,64-95"), and their length; at most TOPO_INFO_MAX_LENTH
 * bytes with the zero. -8255: a software device, a longer list.
 */
USDMA_DCMI_API int dcmi_get_affinity_cpu_info_by_device_id(int card_id, int device_id, char *affinity_cpu, int *length);
USDMA_DCMI_API int dcmiv2_get_affinity_cpu_info_by_dev_id(int dev_id, char *affinity_cpu, int *length);
/* Refused: -8255. */
USDMA_DCMI_API int dcmiv2_get_urma_device_cnt(int dev_id, unsigned int *dev_cnt);
USDMA_DCMI_API int dcmiv2_get_eid_list_by_urma_dev_index(int dev_id, unsigned int dev_index,
							 dcmi_urma_eid_info_t *eid_list, unsigned int *eid_cnt);
USDMA_DCMI_API int dcmiv2_get_mainboard_id(int dev_id, unsigned int *mainboard_id);
USDMA_DCMI_API int dcmiv2_get_device_info(int dev_id, unsigned int main_cmd, unsigned int sub_cmd, void *buf,
					  unsigned int *size);

#ifdef __cplusplus
}
#endif

#endif
