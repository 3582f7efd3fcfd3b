/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hccl_comm/group.h"

#include "driver/base/grow.h"
#include "driver/base/thread.h"

#include <algorithm>
#include <pthread.h>
#include <vector>

namespace usdma::hccl_comm {
namespace {

struct job {
	const char *call;
	aclrtContext context;
	aclrtStream stream; /* of an operation */
	u32 number;         /* among the group's calls */
	later f;
};

/* What belongs to one communicator, or makes one. */
struct call_list {
	HcclComm handle = nullptr;
	std::vector<job> jobs;
	std::vector<HcclSendRecvItem> items;
	aclrtStream stream = nullptr; /* of the items */
	size_t next = 0;              /* of the jobs */
	call_list *head = this;       /* the first of those that one thread runs, */
	call_list *beside = nullptr;  /* and the next of them */
	cause why;
	pthread_t thread{};
};

struct group {
	u32 open = 0; /* calls of HcclGroupStart() without HcclGroupEnd() */
	u32 calls = 0;
	std::vector<std::unique_ptr<call_list>> lists;
	std::vector<std::unique_ptr<char[]>> copies;
};

group &here()
{
	static thread_local group g;

	return g;
}

/* nullptr: no memory. */
call_list *list_of(HcclComm handle)
{
	group &g = here();

	for (const auto &l : g.lists)
		if (handle && l->handle == handle)
			return l.get();
	auto made = try_unique<call_list>();
	if (!made || !try_push(g.lists, std::move(made)))
		return nullptr;
	g.lists.back()->handle = handle;
	return g.lists.back().get();
}

HcclResult run_job(const job &j)
{
	/* Without a context the call says so. */
	if (j.context)
		(void)aclrtSetCurrentContext(j.context);
	return called(j.call, [&] { return j.f.run(j.f.args); });
}

using lists_of = std::vector<std::unique_ptr<call_list>>;

bool share_stream(const call_list &a, const call_list &b)
{
	for (const job &x : a.jobs)
		for (const job &y : b.jobs)
			if (x.stream && x.stream == y.stream)
				return true;
	return false;
}

/* One thread runs both lists, and all that each of them is with. */
void join(call_list *a, call_list *b)
{
	call_list *end = a->head;

	while (end->beside)
		end = end->beside;
	end->beside = b->head;
	for (call_list *l = b->head; l; l = l->beside)
		l->head = a->head;
}

/*
 * Operations of two communicators in one stream are submitted in the order of the calls, as without a group: if two
 * ranks had another order, each one's stream would wait for what is behind in the other's.
 */
void join_by_stream(const lists_of &lists)
{
	for (size_t i = 0; i < lists.size(); i++)
		for (size_t j = i + 1; j < lists.size(); j++)
			if (lists[i]->head != lists[j]->head && share_stream(*lists[i], *lists[j]))
				join(lists[i].get(), lists[j].get());
}

/* The list of the earliest call that has not run; nullptr: all have. */
call_list *next_list(call_list *head)
{
	call_list *first = nullptr;

	for (call_list *l = head; l; l = l->beside)
		if (l->next < l->jobs.size() && (!first || l->jobs[l->next].number < first->jobs[first->next].number))
			first = l;
	return first;
}

/* All of them, also after a failure: other ranks may wait for them. */
void run_list(call_list *head)
{
	while (call_list *l = next_list(head))
		if (const HcclResult ret = run_job(l->jobs[l->next++]); ret && !l->why.code) {
			l->why = cause_here();
			l->why.code = ret;
		}
}

void *list_main(void *arg)
{
	run_list(static_cast<call_list *>(arg));
	return nullptr;
}

void run_alone(call_list *l)
{
	aclrtContext before = nullptr;

	(void)aclrtGetCurrentContext(&before);
	run_list(l);
	if (before)
		(void)aclrtSetCurrentContext(before);
}

/* With its cause. */
HcclResult first_error(const lists_of &lists)
{
	HcclResult ret = HCCL_SUCCESS;

	for (const auto &l : lists)
		if (l->why.code)
			ret = because(ret ? ret : l->why.code, "%.220s", l->why.text);
	return ret;
}

HcclResult run_all(const lists_of &lists)
{
	join_by_stream(lists);
	const auto heads = std::count_if(lists.begin(), lists.end(), [](const auto &l) { return l->head == l.get(); });
	for (const auto &l : lists)
		if (l->head != l.get())
			continue;
		else if (heads == 1)
			run_alone(l.get());
		else if (thread_start(&l->thread, "usdma-hccl-group", list_main, l.get()))
			l->why = {HCCL_E_SYSCALL, "no thread for a communicator"};
	for (const auto &l : lists)
		if (l->thread)
			pthread_join(l->thread, nullptr);
	return first_error(lists);
}

HcclResult end()
{
	group &g = here();

	if (!g.open)
		return because(HCCL_E_NOT_SUPPORT, "no group was begun: HcclGroupStart()");
	if (--g.open)
		return HCCL_SUCCESS;
	const lists_of lists = std::move(g.lists);
	const std::vector<std::unique_ptr<char[]>> copies = std::move(g.copies);
	g.lists.clear();
	g.copies.clear();
	g.calls = 0;
	call_begins();
	return run_all(lists);
}

} // namespace

bool group_open()
{
	return here().open;
}

HcclResult no_memory_for_group()
{
	return because(HCCL_E_MEMORY, "no memory for a group's calls");
}

const void *group_copy(const void *from, size_t bytes)
{
	std::unique_ptr<char[]> made(new (std::nothrow) char[bytes]);
	char *const at = made.get();

	if (!at || !try_push(here().copies, std::move(made)))
		return nullptr;
	memcpy(at, from, bytes);
	return at;
}

HcclResult group_add_call(const char *call, HcclComm handle, aclrtStream stream, const later &f)
{
	call_list *const l = list_of(handle);
	aclrtContext context = nullptr;

	(void)aclrtGetCurrentContext(&context);
	return l && try_push(l->jobs, job{call, context, stream, here().calls++, f}) ? HCCL_SUCCESS :
										       no_memory_for_group();
}

HcclResult group_add_item(HcclComm handle, const HcclSendRecvItem &item, aclrtStream stream)
{
	call_list *const l = list_of(handle);

	if (!l || !try_push(l->items, item))
		return no_memory_for_group();
	if (l->items.size() > 1)
		return HCCL_SUCCESS;
	l->stream = stream;
	return group_add("HcclGroupEnd", handle, stream,
			 [=] { return batch_send_recv(l->handle, l->items.data(), u32(l->items.size()), l->stream); });
}

} // namespace usdma::hccl_comm

using namespace usdma::hccl_comm;

HcclResult HcclGroupStart(void)
{
	here().open++;
	return HCCL_SUCCESS;
}

HcclResult HcclGroupEnd(void)
{
	return called(__func__, end);
}

HcclResult HcclGroupStatusGet(bool *isGroupEnabled)
{
	return called(__func__, [=] {
		if (!isGroupEnabled)
			return because(HCCL_E_PTR, "isGroupEnabled is NULL");
		*isGroupEnabled = group_open();
		return HCCL_SUCCESS;
	});
}
