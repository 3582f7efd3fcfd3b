/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations of a communicator. Two ranks have a socket of their own, made when both first call what needs
 * it; what they send each other are descriptions of memory, or what the program put instead.
 */
#include "lib/hcomm/handles.h"
#include "lib/hcomm/memory.h"

#include "driver/base/grow.h"
#include "lib/hccl/data_type.h"
#include "lib/hccl_comm/context.h"
#include "lib/hccl_comm/rules.h"

#include <algorithm>
#include <cstring>
#include <hccl_one_sided_services.h>
#include <mutex>

namespace usdma::hcomm {
namespace {

using hccl_comm::called;
using hccl_comm::comm;
using hccl_comm::comm_use;

enum message : u32 { bound_memory = 1, descriptors = 2 };
constexpr u32 most_ranges = 256;
constexpr u64 most_device = u64(64) << 30, most_host = u64(1) << 40; /* of HcclRegisterMem, as in HCCL */

HcclResult no_comm()
{
	return because(HCCL_E_PTR, "comm is not a communicator of this process");
}

/* ---- memory of the process -------------------------------------------------------------------------------------- */

/* Of what is bound to which communicators, and of additions to the list. */
std::mutex lock;

handles<memory, 0xd4> &registered()
{
	static no_destructor<handles<memory, 0xd4>> all;

	return *all;
}

std::shared_ptr<memory> find_memory(const void *handle)
{
	return registered().find(number_of(handle));
}

HcclResult no_memory_of(const void *handle)
{
	return because(HCCL_E_PARA, "memHandle %p is no registered memory", handle);
}

HcclResult register_memory(const CommMem *mem, void **out)
{
	if (!out)
		return because(HCCL_E_PTR, "memHandle is NULL");
	if (HcclResult ret = check_mem(mem))
		return ret;
	const std::lock_guard hold(lock);
	*out = pointer_of(registered().find_if([=](const memory &m) { return same_range(m.is, *mem); }));
	if (*out)
		return HCCL_SUCCESS;
	if (registered().find_if([=](const memory &m) { return overlap(m.is, *mem); }))
		return because(HCCL_E_PARA, "a part of the memory is registered");
	*out = pointer_of(registered().add(try_shared<memory>(*mem)));
	return *out ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for a list");
}

HcclResult deregister_memory(void *handle)
{
	const std::lock_guard hold(lock);
	const auto m = find_memory(handle);

	if (!m)
		return no_memory_of(handle);
	if (!m->bound.empty())
		return because(HCCL_E_PARA, "the memory is bound to a communicator: HcclCommUnbindMem() first");
	registered().take(number_of(handle));
	return HCCL_SUCCESS;
}

/* ---- of a communicator ------------------------------------------------------------------------------------------ */

/* Another rank. */
struct side {
	std::mutex lock;
	link to;
	imports there;
};

struct sides : hccl_comm::one_sided {
	std::mutex lock; /* of the lists */
	std::vector<std::shared_ptr<memory>> bound, described;
	std::mutex preparing;
	bool prepared = false;
	std::unique_ptr<side[]> of;

	bool has_bound() override
	{
		const std::lock_guard hold(lock);

		return !bound.empty();
	}
};

/* nullptr: no memory for it. */
sides *sides_of(comm *c)
{
	const std::lock_guard hold(c->state);

	if (!c->sided) {
		auto made = try_unique<sides>();
		if (!made)
			return nullptr;
		made->of.reset(new (std::nothrow) side[c->size]);
		if (!made->of)
			return nullptr;
		c->sided = std::move(made);
	}
	return static_cast<sides *>(c->sided.get());
}

/* f(comm, its sides). */
template <class F> HcclResult with_sides(HcclComm handle, F f)
{
	const comm_use c(handle);

	if (!c)
		return no_comm();
	if (c->remote_slot)
		return because(HCCL_E_NOT_SUPPORT, "one-sided operations of a group on several machines");
	sides *const s = sides_of(c);
	return s ? f(c.get(), s) : because(HCCL_E_MEMORY, "no memory for a communicator");
}

bool is_ended(comm *c)
{
	const std::lock_guard hold(c->state);

	return c->ended;
}

HcclResult until_of(int seconds, deadline *out)
{
	if (seconds < -1)
		return because(HCCL_E_PARA, "timeout is %d: -1, 0 or above", seconds);
	*out = seconds < 0 ? deadline::never() :
			     deadline::in_ms((seconds ? u64(seconds) : hccl_comm::connect_seconds()) * 1000);
	return HCCL_SUCCESS;
}

/* The lower rank accepts. */
void begin(const comm *c, side *s, u32 rank, u32 kind, std::string out)
{
	const u32 pair[] = {std::min(c->rank, rank), std::max(c->rank, rank)};

	if (!s->to.has_name())
		s->to.set_name(c->rank < rank,
			       {{"one-sided", 9}, {c->root.cookie, sizeof(c->root.cookie)}, {pair, sizeof(pair)}});
	s->to.begin(kind, std::move(out));
}

template <class T> std::string as_bytes(const T *items, size_t n)
{
	return {reinterpret_cast<const char *>(items), n * sizeof(T)};
}

/* ---- bound memory ----------------------------------------------------------------------------------------------- */

HcclResult bind(HcclComm handle, void *mem)
{
	return with_sides(handle, [=](comm *, sides *s) {
		const std::lock_guard hold(lock), listed(s->lock);
		const auto m = find_memory(mem);

		if (!m)
			return no_memory_of(mem);
		if (std::find(m->bound.begin(), m->bound.end(), handle) != m->bound.end())
			return because(HCCL_E_PARA, "the memory is bound to that communicator");
		if (!try_reserve(s->bound, s->bound.size() + 1) || !try_push(m->bound, handle))
			return because(HCCL_E_MEMORY, "no memory for a list");
		push_reserved(s->bound, m);
		return HCCL_SUCCESS;
	});
}

HcclResult unbind(HcclComm handle, void *mem)
{
	return with_sides(handle, [=](comm *, sides *s) {
		const std::lock_guard hold(lock), listed(s->lock);
		const auto m = find_memory(mem);

		if (!m)
			return no_memory_of(mem);
		if (!std::erase(m->bound, handle))
			return because(HCCL_E_PARA, "the memory is not bound to that communicator");
		std::erase(s->bound, m);
		return HCCL_SUCCESS;
	});
}

HcclResult describe_bound(sides *s, std::string *out)
{
	const std::lock_guard listed(s->lock);

	for (const auto &m : s->bound) {
		description *d;

		if (HcclResult ret = m->describe(true, &d))
			return ret;
		out->append(as_bytes(d, 1));
	}
	return HCCL_SUCCESS;
}

HcclResult import_all(side *s)
{
	const std::string &in = s->to.received();
	description d;

	if (in.size() % sizeof(d))
		return because(HCCL_E_REMOTE, "another rank sends something else: another version?");
	for (size_t at = 0; at < in.size(); at += sizeof(d)) {
		memcpy(&d, in.data() + at, sizeof(d));
		if (HcclResult ret = s->there.add(d))
			return ret;
	}
	return HCCL_SUCCESS;
}

HcclResult meet_all(comm *c, sides *s, const std::string &out, deadline until)
{
	link *links[hccl_comm::max_ranks];
	u32 n = 0;

	for (u32 r = 0; r < c->size; r++)
		if (r != c->rank) {
			begin(c, &s->of[r], r, bound_memory, out);
			links[n++] = &s->of[r].to;
		}
	if (HcclResult ret = wait_all(links, n, until, [=] { return is_ended(c); }))
		return ret;
	for (u32 r = 0; r < c->size; r++)
		if (r != c->rank)
			if (HcclResult ret = import_all(&s->of[r]))
				return ret;
	return HCCL_SUCCESS;
}

HcclResult prepare_all(comm *c, sides *s, deadline until)
{
	const std::lock_guard once(s->preparing);
	std::vector<std::unique_lock<std::mutex>> held;
	std::string out;

	if (s->prepared)
		return HCCL_SUCCESS;
	for (u32 r = 0; r < c->size; r++)
		held.emplace_back(s->of[r].lock);
	HcclResult ret = describe_bound(s, &out);
	const hccl_comm::in_context context(c->context);
	ret = ret ? ret : context.failed();
	ret = ret ? ret : meet_all(c, s, out, until);
	for (u32 r = 0; ret && r < c->size; r++) {
		s->of[r].to.reset();
		s->of[r].there.clear();
	}
	s->prepared = !ret;
	return ret;
}

HcclResult prepare(HcclComm handle, const HcclPrepareConfig *config, int timeout)
{
	return with_sides(handle, [=](comm *c, sides *s) {
		HcclResult ret = HCCL_SUCCESS;
		deadline until = deadline::never();

		if (!config)
			return because(HCCL_E_PTR, "prepareConfig is NULL");
		if ((ret = until_of(timeout, &until)))
			return ret;
		if (config->topoType != HCCL_TOPO_FULLMESH)
			return because(HCCL_E_PARA, "topoType is %d: HCCL_TOPO_FULLMESH (0)", int(config->topoType));
		return fits([&] { ret = prepare_all(c, s, until); }) ? ret :
								       because(HCCL_E_MEMORY, "no memory for a list");
	});
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

/* As in HCCL, the ranks come first; the program may have put something else instead. */
struct packed {
	u32 local, remote;
	description is;
};
static_assert(sizeof(packed) <= sizeof(HcclMemDesc));

HcclResult register_for(comm *c, sides *s, u32 rank, const CommMem &mem, HcclMemDesc *out)
{
	auto made = try_shared<memory>(mem);
	packed p = {c->rank, rank, {}};
	description *d;

	if (!made)
		return because(HCCL_E_MEMORY, "no memory for a list");
	if (HcclResult ret = made->describe(true, &d))
		return ret;
	p.is = *d;
	const std::lock_guard listed(s->lock);
	if (!try_push(s->described, std::move(made)))
		return because(HCCL_E_MEMORY, "no memory for a list");
	memset(out, 0, sizeof(*out));
	memcpy(out, &p, sizeof(p));
	return HCCL_SUCCESS;
}

HcclResult register_desc(HcclComm handle, u32 rank, const CommMem &mem, HcclMemDesc *out)
{
	return with_sides(handle, [=, &mem](comm *c, sides *s) {
		if (!mem.addr || !out)
			return because(HCCL_E_PTR, "%s is NULL", out ? "addr" : "desc");
		if (rank == c->rank)
			return HCCL_SUCCESS;
		if (HcclResult ret = hccl_comm::check_rank("remoteRank", rank, c->size))
			return ret;
		if (HcclResult ret = check_mem(&mem))
			return ret;
		if (mem.size > (mem.type == COMM_MEM_TYPE_HOST ? most_host : most_device))
			return because(HCCL_E_PARA, "size is %llu: at most 64 GiB of a device, 1 TiB of the host",
				       static_cast<unsigned long long>(mem.size));
		return register_for(c, s, rank, mem, out);
	});
}

HcclResult deregister_desc(HcclComm handle, const HcclMemDesc *desc)
{
	return with_sides(handle, [=](comm *, sides *s) {
		packed p;

		if (!desc)
			return because(HCCL_E_PTR, "desc is NULL");
		memcpy(&p, desc, sizeof(p));
		const std::lock_guard listed(s->lock);
		const auto at = std::find_if(s->described.begin(), s->described.end(), [&](const auto &m) {
			description *d;

			return !m->describe(true, &d) && *d == p.is;
		});
		if (at == s->described.end())
			return because(HCCL_E_NOT_FOUND, "desc is not of HcclRegisterMem()");
		s->described.erase(at);
		return HCCL_SUCCESS;
	});
}

/* Both sides send, also nothing. */
HcclResult exchange(comm *c, side *s, u32 rank, const HcclMemDescs *out, deadline until)
{
	link *const one = &s->to;

	begin(c, s, rank, descriptors, as_bytes(out->array, out->arrayLength));
	const HcclResult ret = wait_all(&one, 1, until, [=] { return is_ended(c); });
	if (ret)
		s->to.reset();
	return ret;
}

HcclResult deliver(const std::string &in, HcclMemDescs *out, u32 *count)
{
	const size_t n = in.size() / sizeof(HcclMemDesc);

	if (n > out->arrayLength || in.size() % sizeof(HcclMemDesc))
		return because(HCCL_E_PARA, "the other rank has %zu descriptors, space for %u", n, out->arrayLength);
	if (n)
		memcpy(out->array, in.data(), in.size());
	*count = u32(n);
	return HCCL_SUCCESS;
}

HcclResult exchange_desc(HcclComm handle, u32 rank, const HcclMemDescs *out, int timeout, HcclMemDescs *in, u32 *count)
{
	return with_sides(handle, [=](comm *c, sides *s) {
		deadline until = deadline::never();
		HcclResult ret = HCCL_SUCCESS;

		if (!out || !in || !count || (out->arrayLength && !out->array) || (in->arrayLength && !in->array))
			return because(HCCL_E_PTR, "local, remote, actualNum or an array is NULL");
		if ((ret = until_of(timeout, &until)) || rank == c->rank)
			return ret;
		if ((ret = hccl_comm::check_rank("remoteRank", rank, c->size)))
			return ret;
		side *const other = &s->of[rank];
		const std::lock_guard hold(other->lock);
		if (!fits([&] { ret = exchange(c, other, rank, out, until); }))
			ret = because(HCCL_E_MEMORY, "no memory for descriptors");
		return ret ? ret : deliver(other->to.received(), in, count);
	});
}

/* f(side, description): of a descriptor of another rank. */
template <class F> HcclResult with_desc(HcclComm handle, const HcclMemDesc *desc, F f)
{
	return with_sides(handle, [=](comm *c, sides *s) {
		packed p;

		if (!desc)
			return because(HCCL_E_PTR, "remoteMemDesc is NULL");
		memcpy(&p, desc, sizeof(p));
		if (p.local >= c->size || p.local == c->rank)
			return because(HCCL_E_PARA, "the descriptor is not of HcclRegisterMem() of another rank");
		side *const other = &s->of[p.local];
		const std::lock_guard hold(other->lock);
		const hccl_comm::in_context context(c->context);
		const HcclResult ret = context.failed();
		return ret ? ret : f(other, p.is);
	});
}

HcclResult enable(HcclComm handle, const HcclMemDesc *desc, CommMem *out)
{
	if (!out)
		return because(HCCL_E_PTR, "remoteMem is NULL");
	return with_desc(handle, desc, [=](side *s, const description &d) {
		if (HcclResult ret = s->there.add(d))
			return ret;
		*out = {CommMemType(d.type), pointer_of(d.at), d.size};
		return HCCL_SUCCESS;
	});
}

HcclResult disable(HcclComm handle, const HcclMemDesc *desc)
{
	return with_desc(handle, desc, [](side *s, const description &d) {
		return s->there.drop(d) ? HCCL_SUCCESS : because(HCCL_E_NOT_FOUND, "the memory is not enabled");
	});
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

struct range {
	mapping remote;
	void *local;
	u64 bytes;
};

HcclResult find_range(const side &s, const HcclOneSideOpDesc &d, u32 rank, range *out)
{
	const u64 element = ::hccl::element_bytes(d.dataType);
	u64 bytes;

	if (!d.localAddr || !d.remoteAddr)
		return because(HCCL_E_PTR, "localAddr or remoteAddr is NULL");
	if (!element)
		return because(HCCL_E_NOT_SUPPORT, "data type %d", int(d.dataType));
	if (__builtin_mul_overflow(d.count, element, &bytes) ||
	    !s.there.find(0, number_of(d.remoteAddr), bytes, &out->remote))
		return because(HCCL_E_PARA, "%p: %llu elements from there are not in memory that rank %u gave",
			       d.remoteAddr, static_cast<unsigned long long>(d.count), rank);
	if (HcclResult ret = check_local(d.localAddr, bytes))
		return ret;
	out->remote.pid = s.to.pid();
	out->local = d.localAddr;
	out->bytes = bytes;
	return HCCL_SUCCESS;
}

HcclResult check_batch(const comm *c, u32 rank, u32 n)
{
	if (n > most_ranges)
		return because(HCCL_E_PARA, "descNum is %u: at most %u", n, most_ranges);
	if (rank == c->rank)
		return because(HCCL_E_PARA, "remoteRank is this rank");
	return hccl_comm::check_rank("remoteRank", rank, c->size);
}

/* *waits: one is made by the calling thread, behind the stream's work. */
HcclResult check_ranges(const side &s, const HcclOneSideOpDesc *desc, u32 n, u32 rank, bool *waits)
{
	range r;

	if (!s.to.is_connected())
		return because(HCCL_E_INTERNAL, "rank %u has exchanged no memory with this one: HcclCommPrepare()",
			       rank);
	for (u32 i = 0; i < n; i++) {
		if (HcclResult ret = find_range(s, desc[i], rank, &r))
			return ret;
		*waits |= r.bytes && needs_kernel(r.remote, r.local);
	}
	return s.to.lost() ? because(HCCL_E_REMOTE, "rank %u is lost", rank) : HCCL_SUCCESS;
}

/* Without the lock while it waits for the stream, which may wait for another thread's call. */
HcclResult copy_range(bool put, const range &r, aclrtStream stream, std::unique_lock<std::mutex> &hold)
{
	const bool waits = needs_kernel(r.remote, r.local);

	if (waits)
		hold.unlock();
	const HcclResult ret = copy(put, r.remote, r.local, r.bytes, stream);
	if (waits)
		hold.lock();
	return ret;
}

HcclResult copy_all(bool put, side *s, u32 rank, const HcclOneSideOpDesc *desc, u32 n, aclrtStream stream)
{
	std::unique_lock hold(s->lock);
	bool waits = false;
	HcclResult ret = check_ranges(*s, desc, n, rank, &waits);

	if (ret)
		return ret;
	if (waits && hccl_comm::capturing(stream))
		return hccl_comm::capture_failed(
			stream, because(HCCL_E_NOT_SUPPORT, "a graph cannot record copies of host memory"));
	for (u32 i = 0; i < n && !ret; i++) {
		range r;

		/* Again: another thread may have taken the memory back meanwhile. */
		ret = find_range(*s, desc[i], rank, &r);
		ret = ret ? ret : copy_range(put, r, stream, hold);
	}
	return s->to.copied(ret);
}

HcclResult batch(bool put, HcclComm handle, u32 rank, const HcclOneSideOpDesc *desc, u32 n, aclrtStream stream)
{
	return with_sides(handle, [=](comm *c, sides *s) {
		if (!stream || !desc)
			return because(HCCL_E_PTR, "%s is NULL", stream ? "desc" : "stream");
		if (!n)
			return HCCL_SUCCESS;
		if (HcclResult ret = check_batch(c, rank, n))
			return ret;
		return copy_all(put, &s->of[rank], rank, desc, n, stream);
	});
}

/* ---- remapping -------------------------------------------------------------------------------------------------- */

HcclResult check_registered(const CommMem &mem)
{
	return registered().find_if([&](const memory &m) {
		return overlap(m.is, {mem.type, mem.addr, 1});
	}) ?
		       HCCL_SUCCESS :
		       because(HCCL_E_PARA, "%p is not registered", mem.addr);
}

HcclResult remap(const HcclComm *comms, const CommMem *mem, u64 ncomms, u64 nmem)
{
	if (!comms || !mem)
		return because(HCCL_E_PTR, "%s is NULL", comms ? "memInfoArray" : "comm");
	if (!ncomms || !nmem)
		return because(HCCL_E_PARA, "commSize is %llu, arraySize %llu", static_cast<unsigned long long>(ncomms),
			       static_cast<unsigned long long>(nmem));
	for (u64 i = 0; i < ncomms; i++)
		if (!comm_use(comms[i]).get())
			return no_comm();
	for (u64 i = 0; i < nmem; i++)
		if (HcclResult ret = check_registered(mem[i]))
			return ret;
	return HCCL_SUCCESS;
}

} // namespace
} // namespace usdma::hcomm

using namespace usdma::hcomm;
using usdma::hccl_comm::called;

#include "lib/hcomm/calls_one_sided.h"
