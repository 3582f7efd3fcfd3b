/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies, reductions and notifies of channels. All of a channel's work is in one order: where a call's stream is not
 * that of the one before, it waits there for what that stream has so far.
 */
#include "lib/hcomm/channel.h"

#include "lib/hccl/data_type.h"

namespace usdma::hcomm {
namespace {

enum class mode { blocks, returns };
constexpr s32 slice_ms = 50; /* of a wait, after which it is seen whether the other side is there */

/* A call that is being put into a stream. */
struct op {
	channel *c;
	thread *t; /* nullptr: the channel's own stream */
	aclrtStream stream;
};

HcclResult check_connected(const channel &c)
{
	if (c.status == connecting)
		return because(HCCL_E_UNAVAIL, "the channel is not connected: HcommChannelGetStatus()");
	if (c.status != connected)
		return because(c.why, "%.200s", c.cause.c_str());
	return HCCL_SUCCESS;
}

HcclResult check_there(const channel &c)
{
	return c.to.lost() ? because(HCCL_E_REMOTE, "the other side is lost, or has destroyed its channel") :
			     HCCL_SUCCESS;
}

/* Behind the last call's work. */
HcclResult follow(channel *c, const std::shared_ptr<thread> &t, aclrtStream stream)
{
	const auto before = c->last.lock();
	const aclrtStream from = c->last_own ? c->stream : before ? before->stream : nullptr;

	if (c->used && from && from != stream) {
		if (aclError code = aclrtRecordEvent(c->passed, from))
			return acl_failed("aclrtRecordEvent", code);
		if (aclError code = aclrtStreamWaitEvent(stream, c->passed))
			return acl_failed("aclrtStreamWaitEvent", code);
	}
	c->used = true;
	c->last = t;
	c->last_own = !t;
	return HCCL_SUCCESS;
}

HcclResult finish(const op &o)
{
	const aclError code = aclrtSynchronizeStream(o.stream);

	if (code == ACL_ERROR_RT_TASK_TIMEOUT)
		return because(HCCL_E_TIMEOUT, "a notify was not recorded in time");
	return code ? acl_failed("aclrtSynchronizeStream", code) : HCCL_SUCCESS;
}

/* In the stream of a thread, or the channel's; f(op) submits. */
template <class F> HcclResult submit(channel *c, const std::shared_ptr<thread> &t, mode how, F f)
{
	const std::lock_guard hold(c->order);
	const in_context context(t ? t->context : c->of->context);
	const op o = {c, t.get(), t ? t->stream : c->stream};

	if (HcclResult ret = check_connected(*c))
		return ret;
	if (HcclResult ret = context.failed())
		return ret;
	if (HcclResult ret = follow(c, t, o.stream))
		return ret;
	const HcclResult ret = f(o);
	return !ret && !t && how == mode::blocks ? finish(o) : ret;
}

template <class F>
HcommResult on_channel(const char *call, ThreadHandle thread_handle, ChannelHandle handle, mode how, F f)
{
	return hcomm_call(call, [=] {
		const auto c = find_channel(handle);
		const auto t = thread_handle ? find_thread(thread_handle) : nullptr;

		if (!c)
			return no_channel();
		if (thread_handle && !t)
			return no_thread();
		return submit(c.get(), t, how, f);
	});
}

/* By the other side's address: what it gave with the channel, or the endpoint imported. */
HcclResult find_remote(channel *c, const void *at, u64 bytes, mapping *out)
{
	const u64 start = number_of(at);
	bool found = c->there.find(c->process, start, bytes, out);

	if (!found) {
		const std::lock_guard hold(c->of->lock);
		found = c->of->there.find(c->process, start, bytes, out);
	}
	if (!found)
		return because(HCCL_E_PARA, "%p and %llu bytes from there are not in memory that the other side gave",
			       at, static_cast<unsigned long long>(bytes));
	out->pid = c->to.pid();
	return check_there(*c);
}

HcclResult move(const op &o, bool put, const void *remote, const void *local, u64 bytes)
{
	mapping p;

	if (!remote || !local)
		return because(HCCL_E_PTR, "dst or src is NULL");
	if (HcclResult ret = find_remote(o.c, remote, bytes, &p))
		return ret;
	return o.c->to.copied(copy(put, p, const_cast<void *>(local), bytes, o.stream));
}

HcclResult reduce(const op &o, bool put, const void *remote, const void *local, u64 count, HcommDataType type,
		  HcommReduceOp by)
{
	u64 bytes;
	mapping p;

	if (!remote || !local)
		return because(HCCL_E_PTR, "dst or src is NULL");
	if (!::hccl::element_bytes(HcclDataType(type)) ||
	    __builtin_mul_overflow(count, ::hccl::element_bytes(HcclDataType(type)), &bytes))
		return because(HCCL_E_PARA, "%llu elements of type %d", static_cast<unsigned long long>(count),
			       int(type));
	if (HcclResult ret = find_remote(o.c, remote, bytes, &p))
		return ret;
	if (!p.here)
		return because(HCCL_E_NOT_SUPPORT, "a reduction in host memory of another process");
	void *const to = put ? p.here : const_cast<void *>(local), *const from = put ? const_cast<void *>(local) :
										       p.here;
	reducer &with = o.t ? o.t->reductions : o.c->reductions;
	return with.run(o.t ? o.t->device : o.c->of->device, to, from, count, type, by, o.stream);
}

HcclResult record(const op &o, u32 index)
{
	if (index >= o.c->theirs.size())
		return because(HCCL_E_PARA, "notify %u: the other side has %zu", index, o.c->theirs.size());
	if (HcclResult ret = check_there(*o.c))
		return ret;
	if (aclError code = aclrtRecordNotify(o.c->theirs[index], o.stream))
		return acl_failed("aclrtRecordNotify", code);
	return HCCL_SUCCESS;
}

/* The host waits: the stream's own limit stops the wait, or the other side's end. */
HcclResult wait_here(const op &o)
{
	for (bool lost = false;;) {
		const aclError code = aclrtSynchronizeStreamWithTimeout(o.stream, slice_ms);

		if (code != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
			return !code ? HCCL_SUCCESS :
			       code == ACL_ERROR_RT_TASK_TIMEOUT ?
				       because(HCCL_E_TIMEOUT, "the notify was not recorded in time") :
				       acl_failed("aclrtSynchronizeStream", code);
		if (lost) {
			(void)aclrtStreamAbort(o.stream);
			return check_there(*o.c);
		}
		lost = o.c->to.lost(); /* what it recorded before may still come */
	}
}

HcclResult wait_notify(const op &o, u32 index, u32 seconds)
{
	if (index >= o.c->mine.size())
		return because(HCCL_E_PARA, "notify %u: the channel has %zu", index, o.c->mine.size());
	if (aclError code = aclrtWaitAndResetNotify(o.c->mine[index], o.stream, seconds))
		return acl_failed("aclrtWaitAndResetNotify", code);
	return o.t ? HCCL_SUCCESS : wait_here(o);
}

HcclResult move_and_record(const op &o, const void *dst, const void *src, u64 len, u32 index)
{
	if (index >= o.c->theirs.size())
		return because(HCCL_E_PARA, "notify %u: the other side has %zu", index, o.c->theirs.size());
	const HcclResult ret = move(o, true, dst, src, len);
	return ret ? ret : record(o, index);
}

HcclResult reduce_and_record(const op &o, const void *dst, const void *src, u64 count, HcommDataType type,
			     HcommReduceOp by, u32 index)
{
	if (index >= o.c->theirs.size())
		return because(HCCL_E_PARA, "notify %u: the other side has %zu", index, o.c->theirs.size());
	const HcclResult ret = reduce(o, true, dst, src, count, type, by);
	return ret ? ret : record(o, index);
}

HcclResult transfer(const op &o, const HcommBatchTransferDesc &d)
{
	const auto &t = d.transferInfo;

	switch (d.transType) {
	case HCOMM_TRANSFER_TYPE_WRITE:
		return move(o, true, t.write.dst, t.write.src, t.write.len);
	case HCOMM_TRANSFER_TYPE_WRITE_REDUCE:
		return reduce(o, true, t.reduce.dst, t.reduce.src, t.reduce.count, t.reduce.dataType,
			      t.reduce.reduceOp);
	case HCOMM_TRANSFER_TYPE_WRITE_WITH_NOTIFY:
		return move_and_record(o, t.writeWithNotify.dst, t.writeWithNotify.src, t.writeWithNotify.len,
				       t.writeWithNotify.notifyIdx);
	case HCOMM_TRANSFER_TYPE_WRITE_REDUCE_WITH_NOTIFY:
		return reduce_and_record(o, t.writeReduceWithNotify.dst, t.writeReduceWithNotify.src,
					 t.writeReduceWithNotify.count, t.writeReduceWithNotify.dataType,
					 t.writeReduceWithNotify.reduceOp, t.writeReduceWithNotify.notifyIdx);
	case HCOMM_TRANSFER_TYPE_READ:
		return move(o, false, t.read.src, t.read.dst, t.read.len);
	case HCOMM_TRANSFER_TYPE_READ_REDUCE:
		return reduce(o, false, t.reduce.src, t.reduce.dst, t.reduce.count, t.reduce.dataType,
			      t.reduce.reduceOp);
	case HCOMM_TRANSFER_TYPE_NOTIFY_RECORD:
		return record(o, t.notifyRecord.notifyIdx);
	default:
		return because(HCCL_E_PARA, "transType is %d", int(d.transType));
	}
}

HcclResult transfer_all(const op &o, const HcommBatchTransferDesc *all, u32 n)
{
	if (!all && n)
		return because(HCCL_E_PTR, "transferDescs is NULL");
	for (u32 i = 0; i < n; i++)
		if (HcclResult ret = transfer(o, all[i]))
			return ret;
	return HCCL_SUCCESS;
}

u32 default_seconds()
{
	hccl_comm::options o;

	(void)hccl_comm::read_options(nullptr, &o);
	return o.wait_s;
}

/* What this library does not do. */
[[gnu::cold]] HcommResult refuse(const char *call)
{
	return hcomm_call(call, [] {
		return because(HCCL_E_NOT_SUPPORT,
			       "not supported: no code runs on a device here, and a notify has no address");
	});
}

} // namespace
} // namespace usdma::hcomm

using namespace usdma::hcomm;

#include "lib/hcomm/calls_primitives.h"
