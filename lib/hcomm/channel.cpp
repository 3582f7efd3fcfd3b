/* SPDX-License-Identifier: BSD-3-Clause */
/* How two endpoints' channels meet: each sends what its notifies and memory are, and imports the other's. */
#include "lib/hcomm/channel.h"

#include <cstring>

namespace usdma::hcomm {
namespace {

enum message : u32 { greeting = 3 };
constexpr u32 most_channels = 1048576;

handles<channel, 0xd0> &channels()
{
	static no_destructor<handles<channel, 0xd0>> all;

	return *all;
}

/* The first part of the message; the notifies and the descriptions of memory follow. */
struct introduction {
	u64 process;
	s32 device;
	u32 notifies, memories;
};

struct notify_info {
	aclrtNotify handle; /* for a side in the same process */
	char key[key_len];
};

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

/* Descriptors of older versions end earlier. */
HcclResult read_desc(const HcommChannelDesc *from, HcommChannelDesc *out)
{
	const u32 size = from->header.size;

	if (from->header.magicWord != HCOMM_CHANNEL_MAGIC_WORD || size < HCOMM_CHANNEL_DESC_ABI_V1_SIZE || size > 4096)
		return because(HCCL_E_PARA, "the descriptor is not of HcommChannelDescInit()");
	(void)HcommChannelDescInit(out, 1);
	memcpy(out, from, std::min<size_t>(size, sizeof(*out)));
	if (size < sizeof(*out))
		out->channelName = nullptr;
	if (out->channelName && strnlen(out->channelName, HCOMM_CHANNEL_NAME_MAX_LEN + 1) > HCOMM_CHANNEL_NAME_MAX_LEN)
		return because(HCCL_E_PARA, "channelName has more than %u characters", HCOMM_CHANNEL_NAME_MAX_LEN);
	if (out->notifyNum > most_notifies)
		return because(HCCL_E_PARA, "notifyNum is %u: at most %u", out->notifyNum, most_notifies);
	if (!out->exchangeAllMems && out->memHandleNum && !out->memHandles)
		return because(HCCL_E_PTR, "memHandles is NULL");
	return out->socket ? because(HCCL_E_NOT_SUPPORT, "a socket of the caller") : HCCL_SUCCESS;
}

/* The part of an address that is set. */
std::string address_of(const EndpointDesc &e)
{
	static constexpr size_t sizes[] = {sizeof(in_addr), sizeof(in6_addr), sizeof(u32), COMM_ADDR_EID_LEN};
	const unsigned type = unsigned(e.commAddr.type);
	const auto *raw = reinterpret_cast<const char *>(e.commAddr.raws);

	return std::to_string(type) + ":" + (type < std::size(sizes) ? std::string(raw, sizes[type]) : "");
}

/* The same on both sides: what the program named, or the port and both addresses, that of the accepting side first. */
HcclResult name_link(channel *c, const HcommChannelDesc &d)
{
	const std::string own = address_of(c->of->is), other = address_of(d.remoteEndpoint);
	const bool accepts = d.role == HCOMM_SOCKET_ROLE_RESERVED ? own < other : d.role == HCOMM_SOCKET_ROLE_SERVER;
	const std::string name = d.channelName ? d.channelName : accepts ? own + "," + other : other + "," + own;

	if (d.role < HCOMM_SOCKET_ROLE_RESERVED || d.role > HCOMM_SOCKET_ROLE_SERVER ||
	    (d.role == HCOMM_SOCKET_ROLE_RESERVED && own == other))
		return because(HCCL_E_PARA, "role is %d, and the endpoints' addresses are %s", int(d.role),
			       own == other ? "the same" : "not");
	c->to.set_name(accepts, {{"channel", 7}, {&d.port, sizeof(d.port)}, {name.data(), name.size()}});
	return HCCL_SUCCESS;
}

/* ---- the own message -------------------------------------------------------------------------------------------- */

template <class T> void append(std::string *out, const T &item)
{
	out->append(reinterpret_cast<const char *>(&item), sizeof(item));
}

HcclResult add_notifies(const channel &c, std::string *out)
{
	for (aclrtNotify n : c.mine) {
		notify_info is{n, {}};

		if (aclError code = aclrtNotifyGetExportKey(n, is.key, key_len,
							    ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION))
			return acl_failed("aclrtNotifyGetExportKey", code);
		append(out, is);
	}
	return HCCL_SUCCESS;
}

HcclResult add_memory(memory *m, std::string *out, u32 *count)
{
	description *d;

	if (!m)
		return because(HCCL_E_NOT_FOUND, "a handle of memHandles is no memory of the endpoint");
	if (HcclResult ret = m->describe(true, &d))
		return ret;
	append(out, *d);
	++*count;
	return HCCL_SUCCESS;
}

HcclResult add_memories(endpoint *e, const HcommChannelDesc &d, std::string *out, u32 *count)
{
	HcclResult ret = HCCL_SUCCESS;

	if (d.exchangeAllMems)
		e->memories.find_if([&](memory &m) {
			ret = add_memory(&m, out, count);
			return ret != HCCL_SUCCESS;
		});
	for (u32 i = 0; !d.exchangeAllMems && !ret && i < d.memHandleNum; i++)
		ret = add_memory(e->memories.find(number_of(d.memHandles[i])).get(), out, count);
	return ret;
}

HcclResult greet(channel *c, const HcommChannelDesc &d)
{
	introduction is = {0, c->of->device, d.notifyNum, 0};
	std::string notifies, memories, out;

	if (!hccl_comm::process_id(&is.process))
		return because(HCCL_E_SYSCALL, "no random number for this process");
	if (HcclResult ret = add_notifies(*c, &notifies))
		return ret;
	if (HcclResult ret = add_memories(c->of.get(), d, &memories, &is.memories))
		return ret;
	append(&out, is);
	c->to.begin(greeting, out + notifies + memories);
	return HCCL_SUCCESS;
}

HcclResult start(channel *c, const HcommChannelDesc *from)
{
	const std::lock_guard hold(c->of->lock);
	const in_context context(c->of->context);
	HcommChannelDesc d;

	if (HcclResult ret = read_desc(from, &d))
		return ret;
	if (HcclResult ret = context.failed())
		return ret;
	if (HcclResult ret = name_link(c, d))
		return ret;
	if (HcclResult ret = make_notifies(&c->mine, d.notifyNum))
		return ret;
	if (aclError code = aclrtCreateStream(&c->stream))
		return acl_failed("aclrtCreateStream", code);
	if (aclError code = aclrtCreateEventExWithFlag(&c->passed, ACL_EVENT_SYNC))
		return acl_failed("aclrtCreateEventExWithFlag", code);
	c->until = deadline::in_ms(hccl_comm::connect_seconds() * 1000);
	return greet(c, d);
}

HcclResult create_one(const std::shared_ptr<endpoint> &e, const HcommChannelDesc *desc, ChannelHandle *out)
{
	HcclResult ret = HCCL_SUCCESS;
	auto c = try_shared<channel>(e);

	if (!c || !fits([&] { ret = start(c.get(), desc); }))
		return because(HCCL_E_MEMORY, "no memory for a channel");
	if (ret)
		return ret;
	*out = channels().add(c);
	return *out ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for a channel");
}

/* Descriptors of another version have another size. */
const HcommChannelDesc *desc_at(const HcommChannelDesc *all, u32 i)
{
	return reinterpret_cast<const HcommChannelDesc *>(reinterpret_cast<const char *>(all) +
							  size_t(i) * all->header.size);
}

HcclResult check_list(const void *list, const void *results, u32 n)
{
	if (!list || !results)
		return because(HCCL_E_PTR, "a list is NULL");
	return n && n <= most_channels ? HCCL_SUCCESS : because(HCCL_E_PARA, "%u channels: 1 to %u", n, most_channels);
}

HcclResult create(const void *handle, CommEngine engine, const HcommChannelDesc *descs, u32 n, ChannelHandle *out)
{
	const auto e = find_endpoint(handle);

	if (HcclResult ret = check_list(descs, out, n))
		return ret;
	if (!e)
		return no_endpoint();
	if (HcclResult ret = check_engine(engine))
		return ret;
	for (u32 i = 0; i < n; i++)
		if (HcclResult ret = create_one(e, desc_at(descs, i), &out[i])) {
			while (i--)
				channels().take(out[i]);
			return ret;
		}
	return HCCL_SUCCESS;
}

/* ---- the other side's message ----------------------------------------------------------------------------------- */

HcclResult import_notifies(channel *c, const notify_info *all, u32 n)
{
	if (!try_resize(c->theirs, n))
		return because(HCCL_E_MEMORY, "no memory for a list");
	for (u32 i = 0; i < n; i++) {
		notify_info is;

		memcpy(&is, all + i, sizeof(is));
		is.key[key_len - 1] = 0;
		if (!c->imported)
			c->theirs[i] = is.handle;
		else if (aclError code = aclrtNotifyImportByKey(&c->theirs[i], is.key, 0))
			return acl_failed("aclrtNotifyImportByKey", code);
	}
	return HCCL_SUCCESS;
}

HcclResult import_memories(channel *c, const char *at, u32 n)
{
	description d;

	for (u32 i = 0; i < n; i++) {
		memcpy(&d, at + i * sizeof(d), sizeof(d));
		if (HcclResult ret = c->there.add(d))
			return ret;
	}
	return HCCL_SUCCESS;
}

HcclResult take_in(channel *c)
{
	const std::string &in = c->to.received();
	introduction is;
	u64 own;

	if (in.size() < sizeof(is))
		return because(HCCL_E_REMOTE, "the other side sends something else: another version?");
	memcpy(&is, in.data(), sizeof(is));
	if (is.notifies > most_notifies ||
	    in.size() != sizeof(is) + is.notifies * sizeof(notify_info) + u64(is.memories) * sizeof(description))
		return because(HCCL_E_REMOTE, "the other side sends something else: another version?");
	const char *const notifies = in.data() + sizeof(is), *const memories = notifies +
									       is.notifies * sizeof(notify_info);
	c->process = is.process;
	c->imported = !hccl_comm::process_id(&own) || own != is.process;
	if (!c->imported && is.device != c->of->device)
		if (HcclResult ret = hccl_comm::enable_both(c->of->device, is.device))
			return ret;
	if (HcclResult ret = import_notifies(c, reinterpret_cast<const notify_info *>(notifies), is.notifies))
		return ret;
	return import_memories(c, memories, is.memories);
}

HcclResult connect_step(channel *c)
{
	if (HcclResult ret = c->to.step())
		return ret;
	const in_context context(c->of->context);
	if (HcclResult ret = context.failed())
		return ret;
	HcclResult ret = HCCL_SUCCESS;
	return fits([&] { ret = take_in(c); }) ? ret : because(HCCL_E_MEMORY, "no memory for a channel");
}

/* What failed stays so; its text is there again at each later call. */
void advance(channel *c)
{
	const HcclResult ret = connect_step(c);

	if (!ret)
		c->status = connected;
	else if (ret == HCCL_E_AGAIN && !c->until.passed())
		return;
	else
		c->status = ret == HCCL_E_AGAIN || ret == HCCL_E_TIMEOUT ? late : broken;
	if (!ret)
		return;
	c->why = c->status == late ?
			 because(HCCL_E_TIMEOUT, "the other side was not there within HCCL_CONNECT_TIMEOUT") :
			 ret;
	(void)try_assign(&c->cause, hccl_comm::cause_here().text);
	c->to.reset();
}

s32 status_of(channel *c)
{
	const std::lock_guard hold(c->order);

	if (c->status == connecting)
		advance(c);
	if (c->status != connected)
		return c->status;
	return c->to.lost() ? broken : connected;
}

HcclResult get_status(const ChannelHandle *list, u32 n, s32 *out)
{
	if (HcclResult ret = check_list(list, out, n))
		return ret;
	for (u32 i = 0; i < n; i++) {
		const auto c = find_channel(list[i]);

		if (!c)
			return no_channel();
		out[i] = status_of(c.get());
	}
	return HCCL_SUCCESS;
}

HcclResult destroy(const ChannelHandle *list, u32 n)
{
	HcclResult ret = check_list(list, list, n);

	for (u32 i = 0; !ret && i < n; i++)
		if (!channels().take(list[i]))
			ret = HCCL_E_NOT_FOUND;
	return ret == HCCL_E_NOT_FOUND ? no_channel() : ret;
}

} // namespace

std::shared_ptr<channel> find_channel(ChannelHandle handle)
{
	return channels().find(handle);
}

HcclResult no_channel()
{
	return because(HCCL_E_NOT_FOUND, "this is no channel of HcommChannelCreate()");
}

channel::~channel()
{
	const in_context context(of->context);

	to.reset();
	if (stream) {
		(void)aclrtSynchronizeStream(stream);
		(void)aclrtDestroyStream(stream);
	}
	if (imported)
		drop_notifies(&theirs);
	drop_notifies(&mine);
	if (passed)
		(void)aclrtDestroyEvent(passed);
}

} // namespace usdma::hcomm

using namespace usdma::hcomm;
using usdma::hccl_comm::called;

#include "lib/hcomm/calls_channel.h"
