/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of HCOMM, and what they do without a channel. */
#include "lib/hcomm/endpoint.h"

#include <cstring>
#include <pthread.h>

namespace usdma::hcomm {
namespace {

constexpr u32 most_threads = 200;

handles<thread, 0xd1> &threads()
{
	static no_destructor<handles<thread, 0xd1>> all;

	return *all;
}

/* stream: of the caller, or nullptr. */
HcclResult make_thread(u32 notifies, aclrtStream stream, ThreadHandle *out)
{
	auto t = try_shared<thread>();

	if (!t)
		return because(HCCL_E_MEMORY, "no memory for a thread");
	if (HcclResult ret = context_here(&t->context, &t->device))
		return ret;
	t->stream = stream;
	if (aclError code = stream ? 0 : aclrtCreateStream(&t->stream))
		return acl_failed("aclrtCreateStream", code);
	t->owns = !stream;
	if (HcclResult ret = make_notifies(&t->notifies, notifies))
		return ret;
	*out = threads().add(t);
	return *out ? HCCL_SUCCESS : because(HCCL_E_MEMORY, "no memory for a thread");
}

HcclResult alloc(CommEngine engine, u32 n, const u32 *notifies, ThreadHandle *out)
{
	if (!notifies || !out)
		return because(HCCL_E_PTR, "%s is NULL", out ? "notifyNumPerThread" : "threads");
	if (!n || n > most_threads)
		return because(HCCL_E_PARA, "threadNum is %u: 1 to %u", n, most_threads);
	if (HcclResult ret = check_engine(engine))
		return ret;
	for (u32 i = 0; i < n; i++)
		if (HcclResult ret = make_thread(notifies[i], nullptr, &out[i])) {
			while (i--)
				threads().take(out[i]);
			return ret;
		}
	return HCCL_SUCCESS;
}

HcclResult free_all(const ThreadHandle *list, u32 n)
{
	HcclResult ret = HCCL_SUCCESS;

	if (!list)
		return because(HCCL_E_PTR, "threads is NULL");
	for (u32 i = 0; i < n; i++)
		if (!threads().take(list[i]))
			ret = no_thread();
	return ret;
}

/* f(thread), in its context. */
template <class F> HcommResult on_thread(const char *call, ThreadHandle handle, F f)
{
	return hcomm_call(call, [=] {
		const auto t = find_thread(handle);

		if (!t)
			return no_thread();
		const in_context context(t->context);
		const HcclResult ret = context.failed();
		return ret ? ret : f(t.get());
	});
}

HcclResult wait_notify(thread *t, u32 index, u32 seconds)
{
	if (index >= t->notifies.size())
		return because(HCCL_E_PARA, "notify %u: the thread has %zu", index, t->notifies.size());
	if (aclError code = aclrtWaitAndResetNotify(t->notifies[index], t->stream, seconds))
		return acl_failed("aclrtWaitAndResetNotify", code);
	return HCCL_SUCCESS;
}

HcclResult record_notify(thread *t, ThreadHandle other, u32 index)
{
	const auto to = find_thread(other);

	if (!to)
		return no_thread();
	if (index >= to->notifies.size())
		return because(HCCL_E_PARA, "notify %u: the thread has %zu", index, to->notifies.size());
	if (aclError code = aclrtRecordNotify(to->notifies[index], t->stream))
		return acl_failed("aclrtRecordNotify", code);
	return HCCL_SUCCESS;
}

/* ---- batch mode ------------------------------------------------------------------------------------------------- */

/* The names of threads of the program that have begun one. */
struct batch_names {
	std::mutex lock;
	std::map<pthread_t, std::string> of;
};

batch_names &batches()
{
	static no_destructor<batch_names> all;

	return *all;
}

HcclResult begin_batch(const char *tag)
{
	batch_names &b = batches();
	const std::lock_guard hold(b.lock);
	std::string name;

	if (!tag)
		return because(HCCL_E_PTR, "batchTag is NULL");
	if (b.of.contains(pthread_self()))
		return because(HCCL_E_PARA, "the thread has begun a batch");
	if (!fits([&] { name = tag; }) || !try_emplace(b.of, pthread_self(), std::move(name)))
		return because(HCCL_E_MEMORY, "no memory for a name");
	return HCCL_SUCCESS;
}

HcclResult end_batch(const char *tag)
{
	batch_names &b = batches();
	const std::lock_guard hold(b.lock);
	const auto at = b.of.find(pthread_self());

	if (!tag)
		return because(HCCL_E_PTR, "batchTag is NULL");
	if (at == b.of.end() || at->second != tag)
		return because(HCCL_E_PARA, "the thread has not begun a batch of that name");
	b.of.erase(at);
	return HCCL_SUCCESS;
}

HcclResult alloc_with_stream(CommEngine engine, aclrtStream stream, u32 notifies, ThreadHandle *out)
{
	if (!stream || !out)
		return because(HCCL_E_PTR, "%s is NULL", out ? "stream" : "thread");
	const HcclResult ret = check_engine(engine);
	return ret ? ret : make_thread(notifies, stream, out);
}

HcclResult get_info(const thread &t, ThreadResType type, u32 bytes, void **info)
{
	if (!info)
		return because(HCCL_E_PTR, "info is NULL");
	if (type != THREAD_RES_TYPE_STREAM || bytes < sizeof(void *))
		return because(HCCL_E_PARA, "resType is %d, infoLen %u", int(type), bytes);
	*info = t.stream;
	return HCCL_SUCCESS;
}

HcclResult copy_local(const thread &t, void *dst, const void *src, u64 len)
{
	if (!dst || !src)
		return because(HCCL_E_PTR, "%s is NULL", dst ? "src" : "dst");
	return copy(true, {static_cast<char *>(dst), 0, -1}, const_cast<void *>(src), len, t.stream);
}

} // namespace

std::shared_ptr<thread> find_thread(ThreadHandle handle)
{
	return threads().find(handle);
}

HcclResult no_thread()
{
	return because(HCCL_E_NOT_FOUND, "this is no thread of HcommThreadAlloc()");
}

HcclResult check_engine(CommEngine engine)
{
	if (engine < COMM_ENGINE_CPU || engine > COMM_ENGINE_CCU)
		return because(HCCL_E_PARA, "engine %d is unknown", int(engine));
	return engine <= COMM_ENGINE_AICPU_TS ?
		       HCCL_SUCCESS :
		       because(HCCL_E_NOT_SUPPORT, "engine %d: no device here runs kernels", int(engine));
}

HcclResult make_notifies(std::vector<aclrtNotify> *out, u32 count)
{
	if (count > most_notifies)
		return because(HCCL_E_PARA, "%u notifies: at most %u", count, most_notifies);
	if (!try_resize(*out, count))
		return because(HCCL_E_MEMORY, "no memory for a list");
	for (aclrtNotify &n : *out)
		if (aclError code = aclrtCreateNotify(&n, 0))
			return acl_failed("aclrtCreateNotify", code);
	return HCCL_SUCCESS;
}

void drop_notifies(std::vector<aclrtNotify> *all)
{
	for (aclrtNotify n : *all)
		if (n)
			(void)aclrtDestroyNotify(n);
	all->clear();
}

reducer::~reducer()
{
	if (dispatcher_)
		(void)HcclDispatcherDestroy(dispatcher_);
}

HcclResult reducer::run(s32 device, void *to, void *from, u64 count, HcommDataType type, HcommReduceOp op,
			aclrtStream stream)
{
	::hccl::Stream wrapped(stream);
	const std::lock_guard hold(lock_);

	if (!dispatcher_)
		if (HcclResult ret = HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, device, &dispatcher_))
			return because(ret, "HcclDispatcherInit returned %d", ret);
	const HcclResult ret = HcclReduceAsync(dispatcher_, from, count, HcclDataType(type), HcclReduceOp(op), wrapped,
					       to, INVALID_VALUE_RANKID, ::hccl::LinkType::LINK_ONCHIP,
					       INLINE_REDUCE_BIT);
	return ret ? because(ret, "a reduction of %llu elements of type %d by operation %d",
			     static_cast<unsigned long long>(count), int(type), int(op)) :
		     HCCL_SUCCESS;
}

thread::~thread()
{
	const in_context there(context);

	if (stream)
		(void)aclrtSynchronizeStream(stream);
	if (owns)
		(void)aclrtDestroyStream(stream);
	drop_notifies(&notifies);
}

} // namespace usdma::hcomm

using namespace usdma::hcomm;
using usdma::hccl_comm::called;

#include "lib/hcomm/calls_thread.h"
