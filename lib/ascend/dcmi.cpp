/* SPDX-License-Identifier: BSD-3-Clause */
/* libdcmi.so: names of the driver's library for containers and machines over libascendcl.so. */
#include "acl/acl.h"
#include <driver/dcmi_interface_api.h>

#include <cstdio>
#include <cstring>

namespace {

constexpr int not_supported = DCMI_ERR_CODE_NOT_SUPPORT;

int dcmi(aclError code)
{
	switch (code) {
	case ACL_SUCCESS:
		return DCMI_OK;
	case ACL_ERROR_RT_INVALID_DEVICEID:
	case ACL_ERROR_RT_NO_DEVICE:
		return DCMI_ERR_CODE_INVALID_DEVICE_ID;
	case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
		return not_supported;
	default:
		return DCMI_ERR_CODE_INNER_ERR;
	}
}

/* Card i has device i, as its device 0. */
int check_device(int card, int device)
{
	int32_t phy;

	return device ? DCMI_ERR_CODE_INVALID_DEVICE_ID : dcmi(aclrtGetPhyDevIdByUserDevId(card, &phy));
}

unsigned read_id(const char *address, const char *what)
{
	char path[96];
	unsigned id = 0;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, what);
	if (FILE *f = fopen(path, "re")) {
		if (fscanf(f, "%x", &id) != 1)
			id = 0;
		fclose(f);
	}
	return id;
}

int local_cpus(int card, char *cpus, int *length)
{
	char address[16], path[96], line[256] = "";

	if (const aclError code = aclrtDeviceGetPCIBusId(card, address, sizeof(address)))
		return dcmi(code);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/local_cpulist", address);
	FILE *const f = fopen(path, "re");
	const bool found = f && fgets(line, sizeof(line), f);
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	if (!found || !*line || strlen(line) >= TOPO_INFO_MAX_LENTH)
		return not_supported;
	strcpy(cpus, line);
	*length = int(strlen(line));
	return DCMI_OK;
}

int pcie_info(int card, dcmi_pcie_info_all *out)
{
	char address[16];

	if (!out)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	if (const aclError code = aclrtDeviceGetPCIBusId(card, address, sizeof(address)))
		return dcmi(code);
	*out = {};
	if (sscanf(address, "%x:%x:%x.%x", reinterpret_cast<unsigned *>(&out->domain), &out->bdf_busid,
		   &out->bdf_deviceid, &out->bdf_funcid) != 4)
		return DCMI_ERR_CODE_INNER_ERR;
	out->venderid = read_id(address, "vendor");
	out->deviceid = read_id(address, "device");
	out->subvenderid = read_id(address, "subsystem_vendor");
	out->subdeviceid = read_id(address, "subsystem_device");
	return DCMI_OK;
}

} // namespace

extern "C" {

int dcmi_init(void)
{
	return DCMI_OK;
}

int dcmiv2_init(void)
{
	return DCMI_OK;
}

int dcmi_get_card_list(int *card_num, int *card_list, int list_len)
{
	uint32_t count;

	if (!card_num || !card_list || list_len < 0)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	if (const aclError code = aclrtGetDeviceCount(&count))
		return dcmi(code);
	*card_num = int(count) < list_len ? int(count) : list_len;
	for (int i = 0; i < *card_num; i++)
		card_list[i] = i;
	return DCMI_OK;
}

int dcmi_get_card_num_list(int *card_num, int *card_list, int list_len)
{
	return dcmi_get_card_list(card_num, card_list, list_len);
}

int dcmiv2_get_device_list(int *device_list, int *device_cnt, int list_len)
{
	return dcmi_get_card_list(device_cnt, device_list, list_len);
}

int dcmi_get_device_id_in_card(int card_id, int *device_id_max, int *mcu_id, int *cpu_id)
{
	if (!device_id_max || !mcu_id || !cpu_id)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	const int err = check_device(card_id, 0);
	if (!err)
		*device_id_max = 1, *mcu_id = -1, *cpu_id = -1;
	return err;
}

int dcmi_get_affinity_cpu_info_by_device_id(int card_id, int device_id, char *affinity_cpu, int *length)
{
	if (!affinity_cpu || !length)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	const int err = check_device(card_id, device_id);
	return err ? err : local_cpus(card_id, affinity_cpu, length);
}

int dcmiv2_get_affinity_cpu_info_by_dev_id(int dev_id, char *affinity_cpu, int *length)
{
	return dcmi_get_affinity_cpu_info_by_device_id(dev_id, 0, affinity_cpu, length);
}

int dcmi_get_device_num_in_card(int card_id, int *device_num)
{
	if (!device_num)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	const int err = check_device(card_id, 0);
	if (!err)
		*device_num = 1;
	return err;
}

int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id)
{
	if (!device_logic_id)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	const int err = check_device(card_id, device_id);
	if (!err)
		*device_logic_id = card_id;
	return err;
}

int dcmi_get_card_id_device_id_from_logicid(int *card_id, int *device_id, unsigned int device_logic_id)
{
	if (!card_id || !device_id)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	const int err = check_device(int(device_logic_id), 0);
	if (!err)
		*card_id = int(device_logic_id), *device_id = 0;
	return err;
}

int dcmiv2_get_dev_id_from_chip_phyid(unsigned int phyid, unsigned int *dev_id)
{
	if (!dev_id)
		return DCMI_ERR_CODE_INVALID_PARAMETER;
	return dcmi(aclrtGetUserDevIdByPhyDevId(int32_t(phyid), reinterpret_cast<int32_t *>(dev_id)));
}

int dcmi_get_device_pcie_info_v2(int card_id, int device_id, dcmi_pcie_info_all *pcie_info_all)
{
	const int err = check_device(card_id, device_id);

	return err ? err : pcie_info(card_id, pcie_info_all);
}

int dcmiv2_get_device_pcie_info(int dev_id, dcmi_pcie_info_all *pcie_info_all)
{
	return dcmi_get_device_pcie_info_v2(dev_id, 0, pcie_info_all);
}

} // extern "C"

#include "lib/ascend/calls_dcmi.h"
