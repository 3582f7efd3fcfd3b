/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of HCCL by devices of a network that is not there (hccl_mem.h, hccl_net_dev.h). */
#include "lib/hcomm/endpoint.h"

#include <cstring>
#include <hccl_net_dev.h>

namespace usdma::hcomm {
namespace {

struct net_device {
	HcclNetDevInfos is;
	aclrtContext context = nullptr;
	s32 device = 0;
};

/* Memory of this process, or what it imported: which of both is set. */
struct buffer {
	std::shared_ptr<net_device> of;
	std::shared_ptr<memory> own;
	imports there;
};

handles<net_device, 0xd6> &devices()
{
	static no_destructor<handles<net_device, 0xd6>> all;

	return *all;
}

handles<buffer, 0xd7> &buffers()
{
	static no_destructor<handles<buffer, 0xd7>> all;

	return *all;
}

/* Of counts, and of additions to the list. */
std::mutex lock;

HcclResult no_device()
{
	return because(HCCL_E_PARA, "netDev is no device of HcclNetDevOpen()");
}

HcclResult open_device(const HcclNetDevInfos *info, HcclNetDev *out)
{
	auto d = try_shared<net_device>();

	if (!info || !out)
		return because(HCCL_E_PTR, "%s is NULL", info ? "netDev" : "info");
	if (info->netdevDeployment == HCCL_NETDEV_DEPLOYMENT_RESERVED ||
	    info->addr.protoType == HCCL_PROTO_TYPE_RESERVED)
		return because(HCCL_E_PARA, "deployment or protoType is not set");
	if (!d)
		return because(HCCL_E_MEMORY, "no memory for a device");
	d->is = *info;
	if (HcclResult ret = context_here(&d->context, &d->device))
		return ret;
	*out = pointer_of(devices().add(d));
	return *out ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for a device");
}

HcclResult close_device(const void *handle)
{
	const auto d = devices().take(number_of(handle));

	if (!handle || !d)
		return handle ? no_device() : because(HCCL_E_PTR, "netDev is NULL");
	const std::lock_guard hold(lock);
	while (const u64 b = buffers().find_if([&](const buffer &one) { return one.of == d && one.own; }))
		buffers().take(b);
	return HCCL_SUCCESS;
}

HcclResult register_buffer(const void *handle, const HcclMem *mem, HcclBuf *out)
{
	const auto d = devices().find(number_of(handle));

	if (!handle || !mem || !out)
		return because(HCCL_E_PTR, "netDev, mem or buf is NULL");
	const CommMem is = {CommMemType(mem->type), mem->addr, mem->size};
	if (HcclResult ret = check_mem(&is))
		return ret;
	if (!d)
		return no_device();
	const std::lock_guard hold(lock);
	*out = {is.addr, is.size, nullptr};
	const auto matches = [&](bool same(const CommMem &, const CommMem &)) {
		return buffers().find_if([&](const buffer &b) { return b.of == d && b.own && same(b.own->is, is); });
	};
	if (const u64 have = matches(same_range)) {
		buffers().find(have)->own->uses++;
		out->handle = pointer_of(have);
		return HCCL_E_AGAIN;
	}
	if (matches(overlap))
		return because(HCCL_E_INTERNAL, "the memory overlaps other memory of the device");
	auto b = try_shared<buffer>();
	if (b) {
		b->of = d;
		b->own = try_shared<memory>(is);
	}
	out->handle = b && b->own ? pointer_of(buffers().add(b)) : nullptr;
	return out->handle ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for a list");
}

/* f(buffer): of this process's memory, or of another's. */
template <class F> HcclResult with_buffer(const char *call, const HcclBuf *buf, bool own, F f)
{
	return hccl_comm::called(call, [=] {
		if (!buf || !buf->handle)
			return because(HCCL_E_PTR, buf ? "the buffer's handle is NULL" : "buf is NULL");
		const std::lock_guard hold(lock);
		const auto b = buffers().find(number_of(buf->handle));
		if (!b || !b->own == own)
			return because(HCCL_E_PARA,
				       own ? "the memory is not registered" : "the memory is not imported");
		return f(b.get());
	});
}

HcclResult export_buffer(buffer *b, char **out, u64 *len)
{
	description *d;

	if (!out || !len)
		return because(HCCL_E_PTR, "%s is NULL", out ? "outDescLen" : "outDesc");
	if (HcclResult ret = b->own->describe(false, &d))
		return ret;
	*out = reinterpret_cast<char *>(d);
	*len = sizeof(*d);
	return HCCL_SUCCESS;
}

HcclResult add_import(const std::shared_ptr<net_device> &dev, const description &d, HcclBuf *out)
{
	const in_context context(dev->context);
	auto b = try_shared<buffer>();

	if (!b)
		return because(HCCL_E_MEMORY, "no memory for a list");
	if (HcclResult ret = context.failed())
		return ret;
	if (HcclResult ret = b->there.add(d))
		return ret;
	void *const here = b->there.mapped(d);
	if (!here)
		return because(HCCL_E_NOT_SUPPORT, "host memory of another process: it has no address here");
	b->of = dev;
	*out = {here, d.size, pointer_of(buffers().add(b))};
	return out->handle ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for a list");
}

HcclResult import_buffer(const char *from, u32 len, HcclBuf *out, const void *handle)
{
	const auto dev = devices().find(number_of(handle));
	description d;

	if (!from || !out || !handle)
		return because(HCCL_E_PTR, "description, outBuf or netDevCtx is NULL");
	if (len != sizeof(d))
		return because(HCCL_E_PARA, "descLen is %u, a description has %zu bytes", len, sizeof(d));
	if (!dev)
		return no_device();
	memcpy(&d, from, sizeof(d));
	return add_import(dev, d, out);
}

HcclResult remap(const void *handle, const HcclMem *mem, u64 n)
{
	const auto d = devices().find(number_of(handle));

	if (!handle || !mem)
		return because(HCCL_E_PTR, "%s is NULL", mem ? "netDev" : "memArray");
	if (!n || !d)
		return n ? no_device() : because(HCCL_E_PARA, "arraySize is 0");
	for (u64 i = 0; i < n; i++) {
		const CommMem start = {CommMemType(mem[i].type), mem[i].addr, 1};

		if (!buffers().find_if(
			    [&](const buffer &b) { return b.of == d && b.own && overlap(b.own->is, start); }))
			return because(HCCL_E_PARA, "%p is not registered", mem[i].addr);
	}
	return HCCL_SUCCESS;
}

HcclResult get_address(HcclNetDev handle, HcclAddress *addr)
{
	const auto d = devices().find(number_of(handle));

	if (!handle || !addr || !d)
		return handle && addr ? no_device() : because(HCCL_E_PTR, "netDev or addr is NULL");
	*addr = d->is.addr;
	return HCCL_SUCCESS;
}

HcclResult no_address(bool given)
{
	return because(given ? HCCL_E_NOT_SUPPORT : HCCL_E_PTR,
		       given ? "devices here have no addresses" : "addr or its number is NULL");
}

HcclResult deregister_buffer(const buffer &b, const HcclBuf *buf)
{
	if (--b.own->uses)
		return because(HCCL_E_AGAIN, "the memory was registered %u times more", b.own->uses);
	buffers().take(number_of(buf->handle));
	return HCCL_SUCCESS;
}

HcclResult grant(const buffer &b, const HcclMemGrantInfo *to)
{
	return to ? b.own->allow(to->remotePid) : because(HCCL_E_PTR, "remoteGrantInfo is NULL");
}

HcclResult close_buffer(const HcclBuf *buf)
{
	buffers().take(number_of(buf->handle));
	return HCCL_SUCCESS;
}

} // namespace
} // namespace usdma::hcomm

using namespace usdma::hcomm;
using usdma::hccl_comm::called;

#include "lib/hcomm/calls_buffers.h"
