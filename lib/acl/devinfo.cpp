/* SPDX-License-Identifier: BSD-3-Clause */
/* Device information: numbers, attributes, utilization, topology, peers. */
#include "runtime/rt.h"
#include "lib/core/memory/memory.h"
#include "lib/acl/copy.h"
#include "lib/acl/soc.h"
#include "lib/acl/state.h"

#include <cstdio>
#include <cstring>
#include <strings.h>
#include <unistd.h>

namespace usdma::acl {

/* Holds the device of a slot open. */
class opened {
public:
	explicit opened(int slot) : err_(core::device_get(unsigned(slot), &dev_)) {}
	~opened()
	{
		if (!err_)
			core::device_put(dev_);
	}
	opened(const opened &) = delete;
	opened &operator=(const opened &) = delete;
	int err() const { return err_; }
	core::device *operator->() const { return dev_; }
	core::device *get() const { return dev_; }

private:
	core::device *dev_ = nullptr;
	int err_;
};

static bool is_software(int slot)
{
	char spec[sizeof("vfio-user")];

	return core::device_spec_copy(unsigned(slot), spec, sizeof(spec)) &&
	       (!strncmp(spec, "sim", 3) || !strcmp(spec, "vfio-user"));
}

static aclError memory_size(const char *call, int slot, int64_t *value)
{
	opened dev(slot);

	if (dev.err())
		return core_fault(call, dev.err(), at::open);
	*value = int64_t(core::device_heap_info(dev.get()).total);
	return ACL_SUCCESS;
}

/* Attributes of parts that a copy engine lacks. */
static bool lacking_attr(int attr)
{
	return (attr >= ACL_DEV_ATTR_WARP_SIZE && attr <= ACL_DEV_ATTR_MAX_BLOCK_DIM_Z) ||
	       attr == ACL_DEV_ATTR_L2_CACHE_SIZE;
}

static aclError device_attr(const char *call, int slot, int attr, int64_t *value)
{
	switch (attr) {
	case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
		return memory_size(call, slot, value);
	case ACL_DEV_ATTR_PHY_CHIP_ID:
	case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
		*value = slot;
		return ACL_SUCCESS;
	case ACL_DEV_ATTR_SMP_ID:
	case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
	case ACL_DEV_ATTR_SUPER_POD_ID:
	case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
	case ACL_DEV_ATTR_MAINBOARD_ID:
	case ACL_DEV_ATTR_DEVICE_FORM_FACTOR:
	case ACL_DEV_ATTR_SUPER_POD_CHASSIS_ID:
		*value = 0;
		return ACL_SUCCESS;
	case ACL_DEV_ATTR_AICORE_CORE_NUM:
	case ACL_DEV_ATTR_CUBE_CORE_NUM:
		*value = soc_cube_cores;
		return ACL_SUCCESS;
	case ACL_DEV_ATTR_AICPU_CORE_NUM:
		*value = soc_ai_cpus;
		return ACL_SUCCESS;
	case ACL_DEV_ATTR_VECTOR_CORE_NUM:
		*value = soc_vector_cores;
		return ACL_SUCCESS;
	case ACL_DEV_ATTR_NPU_ARCH:
		*value = soc_arch;
		return ACL_SUCCESS;
	case ACL_DEV_ATTR_HD_CONNECT_TYPE:
		*value = ACL_HOST_DEVICE_CONNECT_TYPE_PCIE;
		return ACL_SUCCESS;
	case ACL_DEV_ATTR_IS_VIRTUAL:
		*value = is_software(slot);
		return ACL_SUCCESS;
	default:
		if (lacking_attr(attr))
			return unsupported(call, "attr %d: a copy engine has no such part", attr);
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attr %d is unknown", attr);
	}
}

static u64 fnv(const char *text, u64 hash)
{
	for (; *text; text++)
		hash = (hash ^ u8(*text)) * 0x100000001b3;
	return hash;
}

static int numa_of(int slot)
{
	const core::slot_guard dev{unsigned(slot)};

	return dev ? dev->eng->limits().numa_node : -1;
}

/* The PCI address of a slot's device: the start of its device string. */
static bool pci_address(int slot, char (*text)[13])
{
	return !is_software(slot) && core::device_spec_copy(unsigned(slot), *text, sizeof(*text));
}

static aclError no_atomics(const char *call, uint32_t *capabilities, const aclrtAtomicOperation *operations, u32 count)
{
	if (!capabilities || !operations || !count)
		return bad_arg(call, "capabilities or operations is NULL, or count is 0");
	for (u32 i = 0; i < count; i++) {
		const u32 op = number_in(operations[i]);

		if (op > ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_EXCH)
			return fault(call, ACL_ERROR_RT_PARAM_INVALID, "operation %u is unknown", op);
	}
	memset(capabilities, 0, count * sizeof(*capabilities));
	return ACL_SUCCESS;
}

/* ---- peers ------------------------------------------------------------------------------------------ */

/*
 * How often it was enabled less disabled: the driver counts, per process, and resets of devices leave it
 * (devdrv_enable_p2p, devdrv_flush_p2p in its devdrv_ctrl.c).
 */
static u32 peer_enabled[core::max_devices][core::max_devices];

/* "Both directions must be set to take effect" (the driver's ascend_hal.h, halDeviceEnableP2P). */
aclError check_peers(const char *call, unsigned a, unsigned b)
{
	if (likely(load_acquire(&peer_enabled[a][b]) && load_acquire(&peer_enabled[b][a])))
		return ACL_SUCCESS;
	return fault(call, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
		     "devices %d and %d have no access to each other: aclrtDeviceEnablePeerAccess first, on both",
		     user_of(a), user_of(b));
}

/* False: it is not enabled. */
static bool count_peer(unsigned from, unsigned to, bool on)
{
	u32 *const n = &peer_enabled[from][to];
	u32 now = load_relaxed(n);

	while (on || now)
		if (cmpxchg_acq_rel(n, &now, on ? now + 1 : now - 1))
			return true;
	return false;
}

static aclError set_peer(const char *call, s32 peer, bool on)
{
	const int slot = slot_of(peer);
	const context_guard c;

	if (!c)
		return no_context(call);
	if (peer == c->id)
		return bad_arg(call, "peerDeviceId %d is the current device itself", peer);
	if (slot < 0)
		return no_device(call, peer);
	if (!count_peer(c->dev->slot, unsigned(slot), on))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "access to device %d is not enabled", peer);
	return ACL_SUCCESS;
}

static aclError map_number(const char *call, s32 in, int32_t *out, s32 value)
{
	if (!out)
		return bad_arg(call, "the output is NULL");
	if (value < 0)
		return no_device(call, in);
	*out = value;
	return ACL_SUCCESS;
}

/* The user's number of a slot that may be negative; -1: there is none. */
static s32 visible_as(s32 slot)
{
	return slot < 0 ? -1 : user_of(unsigned(slot));
}

static bool lost(int slot)
{
	const core::slot_guard dev{unsigned(slot)};

	return dev && dev->lost();
}

/* Modules are parts of an NPU (rtGetDeviceInfo); only the system module has the device's numbers. */
inline constexpr s32 module_system = 0, info_phy_chip = 18, info_super_pod = 26;

/* The number itself if the machine has such a device, else -1. */
static s32 present(s32 id)
{
	return id >= 0 && id < core::device_count() ? id : -1;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority)
{
	if (leastPriority)
		*leastPriority = most_priority;
	if (greatestPriority)
		*greatestPriority = 0;
	return ACL_SUCCESS;
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid)
{
	const int slot = slot_of(deviceId);
	char name[512];
	u64 half[2];

	if (!uuid)
		return bad_arg(__func__, "uuid is NULL");
	if (slot < 0)
		return no_device(__func__, deviceId);
	if (!core::device_spec_copy(unsigned(slot), name, sizeof(name)))
		return no_device(__func__, deviceId);
	if (!strncmp(name, "sim", 3)) /* local to this process, which may have several identical ones */
		snprintf(name + strlen(name), sizeof(name) - strlen(name), "#%d.%d", int(getpid()), slot);
	half[0] = fnv(name, 0xcbf29ce484222325);
	half[1] = fnv(name, half[0]);
	memcpy(uuid->bytes, half, sizeof(half));
	return ACL_SUCCESS;
}

aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo)
{
	const int slot = slot_of(deviceId);

	if (!errorInfo)
		return bad_arg(__func__, "errorInfo is NULL");
	if (slot < 0)
		return no_device(__func__, deviceId);
	const core::slot_guard dev{unsigned(slot)};
	memset(errorInfo, 0, sizeof(*errorInfo));
	errorInfo->errorType = dev && dev->lost() ? ACL_RT_ERROR_OTHERS : ACL_RT_NO_ERROR;
	return ACL_SUCCESS;
}

aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len)
{
	const int slot = slot_of(deviceId);
	char text[13];

	if (!pciBusId || len < int(sizeof(text)))
		return bad_arg(__func__, "pciBusId is NULL, or len is %d and less than %zu", len, sizeof(text));
	if (slot < 0)
		return no_device(__func__, deviceId);
	if (!pci_address(slot, &text))
		return unsupported(__func__, "device %d is a software device: it has no PCI address", deviceId);
	memcpy(pciBusId, text, sizeof(text));
	return ACL_SUCCESS;
}

aclError aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId)
{
	unsigned part[4];
	char text[13], want[40];
	int end = 0;

	if (!pciBusId || !deviceId)
		return bad_arg(__func__, "pciBusId or deviceId is NULL");
	if (sscanf(pciBusId, "%4x:%2x:%2x.%1x%n", &part[0], &part[1], &part[2], &part[3], &end) != 4 || pciBusId[end])
		return bad_arg(__func__, "\"%.20s\" is not a PCI address", pciBusId);
	snprintf(want, sizeof(want), "%04x:%02x:%02x.%x", part[0], part[1], part[2], part[3]);
	for (int slot = 0; slot < core::device_count(); slot++)
		if (user_of(unsigned(slot)) >= 0 && pci_address(slot, &text) && !strcasecmp(text, want)) {
			*deviceId = user_of(unsigned(slot));
			return ACL_SUCCESS;
		}
	return fault(__func__, ACL_ERROR_RT_INVALID_DEVICEID, "no device has PCI address %s", want);
}

aclError aclrtDeviceGetHostAtomicCapabilities(uint32_t *capabilities, const aclrtAtomicOperation *operations,
					      const uint32_t count, int32_t deviceId)
{
	if (capabilities && slot_of(deviceId) < 0)
		return no_device(__func__, deviceId);
	return no_atomics(__func__, capabilities, operations, count);
}

aclError aclrtDeviceGetP2PAtomicCapabilities(uint32_t *capabilities, const aclrtAtomicOperation *operations,
					     const uint32_t count, int32_t srcDeviceId, int32_t dstDeviceId)
{
	if (capabilities && (slot_of(srcDeviceId) < 0 || slot_of(dstDeviceId) < 0))
		return no_device(__func__, slot_of(srcDeviceId) < 0 ? srcDeviceId : dstDeviceId);
	return no_atomics(__func__, capabilities, operations, count);
}

static int32_t set_p2p(const char *call, uint32_t a, uint32_t b, bool on)
{
	const int from = slot_of(a), to = int(b);

	if (from < 0 || present(to) < 0)
		return no_device(call, from < 0 ? a : b);
	count_peer(unsigned(from), unsigned(to), on);
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_devinfo.h"
