/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of HCOMM, and their memory. */
#include "lib/hcomm/endpoint.h"

#include "driver/base/fd.h"

#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace usdma::hcomm {
namespace {

constexpr size_t most_tag = 255;
constexpr u32 first_port = 50000, last_port = 65535;

handles<endpoint, 0xce> &endpoints()
{
	static no_destructor<handles<endpoint, 0xce>> all;

	return *all;
}

/* As of a rank table: the device must be the thread's, if this process has one of that number. */
HcclResult check_location(const EndpointDesc &is, s32 device)
{
	u32 count = 0;
	s32 physical = 0;

	if (is.loc.locType == ENDPOINT_LOC_TYPE_HOST)
		return HCCL_SUCCESS;
	if (aclError code = aclrtGetDeviceCount(&count))
		return acl_failed("aclrtGetDeviceCount", code);
	if (aclError code = aclrtGetPhyDevIdByLogicDevId(device, &physical))
		return acl_failed("aclrtGetPhyDevIdByLogicDevId", code);
	if (is.loc.device.devPhyId < count && is.loc.device.devPhyId != u32(physical))
		return because(HCCL_E_PARA, "devPhyId is %u, the thread's device is %d", is.loc.device.devPhyId,
			       physical);
	return HCCL_SUCCESS;
}

HcclResult create(const EndpointDesc *desc, EndpointHandle *out)
{
	auto e = try_shared<endpoint>();

	if (!desc || !out)
		return because(HCCL_E_PTR, "%s is NULL", desc ? "endpointHandle" : "endpoint");
	if ((desc->loc.locType != ENDPOINT_LOC_TYPE_DEVICE && desc->loc.locType != ENDPOINT_LOC_TYPE_HOST) ||
	    desc->protocol < COMM_PROTOCOL_HCCS || desc->protocol > COMM_PROTOCOL_UB_RTP)
		return because(HCCL_E_PARA, "locType is %d, protocol %d", int(desc->loc.locType), int(desc->protocol));
	if (!e)
		return because(HCCL_E_MEMORY, "no memory for an endpoint");
	e->is = *desc;
	if (HcclResult ret = context_here(&e->context, &e->device))
		return ret;
	if (HcclResult ret = check_location(*desc, e->device))
		return ret;
	*out = pointer_of(endpoints().add(e));
	return *out ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for an endpoint");
}

/* f(endpoint), locked. */
template <class F> HcommResult with_endpoint(const char *call, const void *handle, F f)
{
	return hcomm_call(call, [=] {
		const auto e = find_endpoint(handle);

		if (!e)
			return no_endpoint();
		const std::lock_guard hold(e->lock);
		return f(e.get());
	});
}

/* A name that is never connected to: it is taken as long as its socket is open. */
bool reserve_port(u32 port, unique_fd *out)
{
	sockaddr_un at{};
	const int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "usdma-hcomm-%u-port-%u", geteuid(), port);
	unique_fd fd(fd_above_stdio(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));

	at.sun_family = AF_UNIX;
	if (!fd.valid() ||
	    bind(fd.get(), reinterpret_cast<sockaddr *>(&at), socklen_t(offsetof(sockaddr_un, sun_path) + 1 + u32(n))))
		return false;
	*out = std::move(fd);
	return true;
}

HcclResult get_port(endpoint *e, u32 *out)
{
	if (!out)
		return because(HCCL_E_PTR, "port is NULL");
	const u32 start = u32(getpid()) % (last_port - first_port);

	for (u32 i = 0; !e->port && i <= last_port - first_port; i++) {
		const u32 port = first_port + (start + i) % (last_port - first_port + 1);

		if (reserve_port(port, &e->reserved))
			e->port = port;
	}
	if (!e->port)
		return because(HCCL_E_UNAVAIL, "no port is left: %s", strerrordesc_np(errno));
	*out = e->port;
	return HCCL_SUCCESS;
}

HcclResult no_memory_handle()
{
	return because(HCCL_E_NOT_FOUND, "memHandle is no memory of the endpoint");
}

HcclResult register_memory(endpoint *e, const char *tag, const CommMem *mem, HcommMemHandle *out)
{
	if (!out)
		return because(HCCL_E_PTR, "memHandle is NULL");
	if (tag && strnlen(tag, most_tag + 1) > most_tag)
		return because(HCCL_E_PARA, "memTag has more than %zu characters", most_tag);
	if (HcclResult ret = check_mem(mem))
		return ret;
	if (const u64 have = e->memories.find_if([=](const memory &m) { return same_range(m.is, *mem); })) {
		e->memories.find(have)->uses++;
		*out = pointer_of(have);
		return HCCL_E_AGAIN; /* no failure: it has no text */
	}
	*out = pointer_of(e->memories.add(try_shared<memory>(*mem)));
	return *out ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for a list");
}

HcclResult deregister_memory(endpoint *e, const void *handle)
{
	const auto m = e->memories.find(number_of(handle));

	if (!m)
		return no_memory_handle();
	if (--m->uses)
		return because(HCCL_E_AGAIN, "the memory was registered %u times more", m->uses);
	e->memories.take(number_of(handle));
	return HCCL_SUCCESS;
}

HcclResult export_memory(endpoint *e, const void *handle, void **out, u32 *len)
{
	const auto m = e->memories.find(number_of(handle));
	description *d;

	if (!out || !len)
		return because(HCCL_E_PTR, "%s is NULL", out ? "memDescLen" : "memDesc");
	if (!m)
		return no_memory_handle();
	if (HcclResult ret = m->describe(true, &d))
		return ret;
	*out = d;
	*len = sizeof(*d);
	return HCCL_SUCCESS;
}

HcclResult get_description(const void *from, u32 len, description *out)
{
	if (!from)
		return because(HCCL_E_PTR, "memDesc is NULL");
	if (len != sizeof(*out))
		return because(HCCL_E_PARA, "descLen is %u, a description has %zu bytes", len, sizeof(*out));
	memcpy(out, from, sizeof(*out));
	return HCCL_SUCCESS;
}

HcclResult import_memory(endpoint *e, const void *from, u32 len, CommMem *out)
{
	const in_context context(e->context);
	description d;

	if (!out)
		return because(HCCL_E_PTR, "outMem is NULL");
	if (HcclResult ret = get_description(from, len, &d))
		return ret;
	if (HcclResult ret = context.failed())
		return ret;
	if (HcclResult ret = e->there.add(d))
		return ret;
	*out = {CommMemType(d.type), pointer_of(d.at), d.size};
	return HCCL_SUCCESS;
}

HcclResult forget_memory(endpoint *e, const void *from, u32 len)
{
	description d;

	if (HcclResult ret = get_description(from, len, &d))
		return ret;
	return e->there.drop(d) ? HCCL_SUCCESS : because(HCCL_E_NOT_FOUND, "the memory is not imported");
}

HcclResult check_feature(HcommEndpointFeatureType type, const EndpointDesc *desc, bool *value)
{
	if (!desc || !value)
		return because(HCCL_E_PTR, "%s is NULL", value ? "endpointDesc" : "value");
	if (type != HCOMM_ENDPOINT_FEATURE_NDA)
		return because(HCCL_E_PARA, "feature %d is unknown", int(type));
	*value = false;
	return HCCL_SUCCESS;
}

HcclResult allocate(void **ptr, size_t size)
{
	if (!ptr || !size)
		return because(ptr ? HCCL_E_PARA : HCCL_E_PTR, ptr ? "size is 0" : "ptr is NULL");
	if (aclError code = aclrtMalloc(ptr, size, ACL_MEM_MALLOC_HUGE_FIRST))
		return acl_failed("aclrtMalloc", code);
	return HCCL_SUCCESS;
}

HcclResult release(void *ptr)
{
	if (!ptr)
		return because(HCCL_E_PTR, "ptr is NULL");
	if (aclError code = aclrtFree(ptr))
		return acl_failed("aclrtFree", code);
	return HCCL_SUCCESS;
}

} // namespace

std::shared_ptr<endpoint> find_endpoint(const void *handle)
{
	return endpoints().find(number_of(handle));
}

HcclResult no_endpoint()
{
	return because(HCCL_E_NOT_FOUND, "endpointHandle is no endpoint");
}

HcclResult context_here(aclrtContext *context, s32 *device)
{
	if (aclError code = aclrtGetCurrentContext(context))
		return acl_failed("aclrtGetCurrentContext", code);
	if (aclError code = aclrtGetDevice(device))
		return acl_failed("aclrtGetDevice", code);
	return HCCL_SUCCESS;
}

} // namespace usdma::hcomm

using namespace usdma::hcomm;
using usdma::hccl_comm::called;

#include "lib/hcomm/calls_endpoint.h"
