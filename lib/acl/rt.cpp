/* SPDX-License-Identifier: BSD-3-Clause */
/* The layer below ACL (include/runtime): rt.list has its names, here is what they need beside ACL's functions. */
#include "lib/acl/soc.h"
#include "lib/acl/state.h"
#include "lib/share/vmm.h"
#include "runtime/rt.h"

#include <cstring>
#include <iterator>

using namespace usdma;
using namespace usdma::acl;

namespace {

/* Its code for one of ACL's. */
rtError_t as_runtime(aclError code)
{
	if (likely(code != ACL_ERROR_INVALID_PARAM))
		return code;
	return self().last_error = ACL_ERROR_RT_PARAM_INVALID;
}

/* For enumerators whose values are the same, and their unknown ones. */
template <class To, class From> To as(const From &value)
{
	const u32 n = number_in(value);
	To to;

	static_assert(sizeof(to) == sizeof(n));
	memcpy(&to, &n, sizeof(n));
	return to;
}

aclError first_devices(const char *call, uint32_t *devices, uint32_t len)
{
	const int count = visible_count();

	if (count < 0)
		return no_device(call, 0);
	if (u32(count) < len)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "len is %u, there are %d devices", len, count);
	for (u32 i = 0; i < len; i++)
		devices[i] = i;
	return ACL_SUCCESS;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bool is_of_device(rtMemType_t type)
{
	switch (type & 0x3ff) {
	case RT_MEMORY_DEFAULT:
	case RT_MEMORY_HBM:
	case RT_MEMORY_RDMA_HBM:
	case RT_MEMORY_DDR:
	case RT_MEMORY_P2P_HBM:
	case RT_MEMORY_P2P_DDR:
	case RT_MEMORY_DDR_NC:
		return true;
	default:
		return false;
	}
}

aclrtMemMallocPolicy policy_of(rtMemType_t type)
{
	if (type & (RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY | RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P))
		return ACL_MEM_MALLOC_HUGE1G_ONLY;
	if (type & (RT_MEMORY_POLICY_HUGE_PAGE_ONLY | RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P))
		return ACL_MEM_MALLOC_HUGE_ONLY;
	if (type & (RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY | RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P))
		return ACL_MEM_MALLOC_NORMAL_ONLY;
	return ACL_MEM_MALLOC_HUGE_FIRST;
}

constexpr aclrtMemcpyKind no_kind = ACL_MEMCPY_INTER_DEVICE_TO_DEVICE; /* copies refuse it: 100000 */

aclrtMemcpyKind kind_of(const rtMemcpyKind_t &kind)
{
	static constexpr aclrtMemcpyKind kinds[] = {ACL_MEMCPY_HOST_TO_HOST,
						    ACL_MEMCPY_HOST_TO_DEVICE,
						    ACL_MEMCPY_DEVICE_TO_HOST,
						    ACL_MEMCPY_DEVICE_TO_DEVICE,
						    no_kind,
						    no_kind,
						    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
						    ACL_MEMCPY_DEVICE_TO_HOST,
						    ACL_MEMCPY_DEFAULT};
	const u32 n = number_in(kind);

	return n < std::size(kinds) ? kinds[n] : no_kind;
}

aclDataType type_of(const rtDataType_t &type)
{
	static constexpr aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_INT16, ACL_INT4,
						ACL_INT8,  ACL_INT32,   ACL_BF16,  ACL_DT_UNDEFINED,
						ACL_UINT8, ACL_UINT16,  ACL_UINT32};
	const u32 n = number_in(type);

	return n < std::size(types) ? types[n] : ACL_DT_UNDEFINED;
}

aclError attributes_of(rtPointerAttributes_t *attributes, const void *ptr)
{
	aclrtPtrAttributes a = {};
	const aclError err = aclrtPointerGetAttributes(ptr, &a);

	if (!err)
		*attributes = {a.location.type == ACL_MEM_LOCATION_TYPE_DEVICE ? RT_MEMORY_TYPE_DEVICE :
										 RT_MEMORY_TYPE_HOST,
			       rtMemLocationType(a.location.type), a.location.id, a.pageSize};
	return err;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Flags of streams: of that layer, of ACL. Others have no effect. */
constexpr u32 flag_pairs[][2] = {
	{RT_STREAM_PERSISTENT, ACL_STREAM_PERSISTENT},     {RT_STREAM_HUGE, ACL_STREAM_HUGE},
	{RT_STREAM_CPU_SCHEDULE, ACL_STREAM_CPU_SCHEDULE}, {RT_STREAM_FAST_LAUNCH, ACL_STREAM_FAST_LAUNCH},
	{RT_STREAM_FAST_SYNC, ACL_STREAM_FAST_SYNC},       {RT_STREAM_CP_PROCESS_USE, ACL_STREAM_DEVICE_USE_ONLY}};

u32 stream_flags(u32 flags)
{
	u32 out = 0;

	for (const auto &[theirs, ours] : flag_pairs)
		out |= flags & theirs ? ours : 0;
	return out;
}

aclError read_flags(rtStream_t stream, u32 *flags)
{
	u32 have = 0;
	const aclError err = aclrtStreamGetFlags(stream, &have);

	if (err)
		return err;
	*flags = 0;
	for (const auto &[theirs, ours] : flag_pairs)
		*flags |= have & ours ? theirs : 0;
	return ACL_SUCCESS;
}

/* Streams can wait for either kind. */
u32 event_flags(u32 flags)
{
	return flags & RT_EVENT_DDSYNC ? (flags & ~RT_EVENT_DDSYNC) | ACL_EVENT_SYNC : flags;
}

aclError create_stream(const char *call, rtStream_t *stream, const rtStreamCreateConfig_t *config)
{
	u32 priority = 0, flags = 0;

	if (config && config->numAttrs && !config->attrs)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attrs is NULL and numAttrs %zu", config->numAttrs);
	for (size_t i = 0; config && i < config->numAttrs; i++) {
		const rtStreamCreateAttr_t &a = config->attrs[i];
		const u32 id = number_in(a.id);

		if (id != RT_STREAM_CREATE_ATTR_FLAGS && id != RT_STREAM_CREATE_ATTR_PRIORITY)
			return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attribute %u is unknown", id);
		(id == RT_STREAM_CREATE_ATTR_FLAGS ? flags : priority) = a.value.flags;
	}
	return aclrtCreateStreamWithConfig(stream, priority, stream_flags(flags));
}

aclError stream_state(rtStream_t stream)
{
	aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
	const aclError err = aclrtStreamQuery(stream, &status);

	return err || status == ACL_STREAM_STATUS_COMPLETE ? err : code_only(ACL_ERROR_RT_STREAM_NOT_COMPLETE);
}

aclError event_state(rtEvent_t event)
{
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
	const aclError err = aclrtQueryEventStatus(event, &status);

	return err || status == ACL_EVENT_RECORDED_STATUS_COMPLETE ? err : code_only(ACL_ERROR_RT_EVENT_NOT_COMPLETE);
}

aclError on_device(const char *call, int32_t device)
{
	const context_guard c;

	if (!c)
		return no_context(call);
	return c->id == device ?
		       ACL_SUCCESS :
		       fault(call, ACL_ERROR_RT_PARAM_INVALID, "the thread's device is %d, not %d", c->id, device);
}

} // namespace

#include "lib/acl/calls_rt.h"
