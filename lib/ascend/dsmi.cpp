/* SPDX-License-Identifier: BSD-3-Clause */
/* libdrvdsmi_host.so: names of the driver's management library over libascendcl.so. */
#include "acl/acl.h"
#include <driver/dsmi_common_interface.h>
#include "lib/acl/soc.h"

#include <cstring>

namespace {

constexpr int no_device = 1, invalid_device = 2, parameter = 8, not_supported = 0xfffe;

int dsmi(aclError code)
{
	switch (code) {
	case ACL_SUCCESS:
		return 0;
	case ACL_ERROR_RT_NO_DEVICE:
		return no_device;
	case ACL_ERROR_RT_INVALID_DEVICEID:
		return invalid_device;
	default:
		return parameter;
	}
}

} // namespace

extern "C" {

int dsmi_get_version(int device_id, char *version_str, unsigned int version_len, unsigned int *ret_len)
{
	const char *const version = usdma::acl::driver_version.text;
	const unsigned len = unsigned(strlen(version));
	int32_t phy;

	if (!version_str || !ret_len || version_len <= len)
		return parameter;
	if (const aclError code = aclrtGetPhyDevIdByUserDevId(device_id, &phy))
		return dsmi(code);
	memcpy(version_str, version, len + 1);
	*ret_len = len;
	return 0;
}

int dsmi_get_device_count(int *device_count)
{
	uint32_t count;

	if (!device_count)
		return parameter;
	const aclError code = aclrtGetDeviceCount(&count);
	if (!code)
		*device_count = int(count);
	return dsmi(code);
}

int dsmi_list_device(int device_id_list[], int count)
{
	int have;

	if (!device_id_list || count < 0)
		return parameter;
	if (const int err = dsmi_get_device_count(&have))
		return err;
	if (count > have)
		return parameter;
	for (int i = 0; i < count; i++)
		device_id_list[i] = i;
	return 0;
}

int dsmi_get_phyid_from_logicid(unsigned int logicid, unsigned int *phyid)
{
	return dsmi(aclrtGetPhyDevIdByUserDevId(int32_t(logicid), reinterpret_cast<int32_t *>(phyid)));
}

int dsmi_get_logicid_from_phyid(unsigned int phyid, unsigned int *logicid)
{
	return dsmi(aclrtGetUserDevIdByPhyDevId(int32_t(phyid), reinterpret_cast<int32_t *>(logicid)));
}

int dsmi_get_device_info(unsigned int device_id, unsigned int main_cmd, unsigned int sub_cmd, void *buf,
			 unsigned int *size)
{
	int32_t phy;
	dsmi_spod_info pod = {};

	if (!buf || !size)
		return parameter;
	if (const aclError code = aclrtGetPhyDevIdByUserDevId(int32_t(device_id), &phy))
		return dsmi(code);
	if (main_cmd != DSMI_MAIN_CMD_CHIP_INF || sub_cmd != DSMI_CHIP_INF_SUB_CMD_SPOD_INFO)
		return not_supported;
	if (*size < sizeof(pod))
		return parameter;
	pod.sdid = unsigned(phy);
	memcpy(buf, &pod, sizeof(pod));
	*size = sizeof(pod);
	return 0;
}

} // extern "C"

#include "lib/ascend/calls_dsmi.h"
