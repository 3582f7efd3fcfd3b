/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicators of this process, so that a handle can be checked without dereferencing it. */
#include "driver/base/grow.h"
#include "lib/hccl_comm/comm.h"

#include <condition_variable>
#include <cstring>

namespace usdma::hccl_comm {
namespace {

constinit std::mutex lock;
constinit comm *first = nullptr;
/* Signalled when a communicator is not in use any more. */
std::condition_variable unused;
/* Of the handles: 2^56 do not wrap. Windows have odd marks. */
constinit u64 last = 0;
constexpr u64 comm_mark = 0xcc, window_mark = 0xcd;

template <class T> T make_handle(u64 mark)
{
	return reinterpret_cast<T>(++last << 8 | mark);
}

template <class F> comm *find_if(F matches)
{
	comm *c = first;

	while (c && !matches(c))
		c = c->next;
	return c;
}

template <class F> comm *enter_if(F matches)
{
	const std::lock_guard hold(lock);
	comm *const c = find_if(matches);

	if (c)
		c->users++;
	return c;
}

bool overlap(const window &w, const char *at, u64 size)
{
	return at < w.at + w.size && w.at < at + size;
}

} // namespace

comm_use::comm_use(HcclComm handle) : c_(enter_if([=](const comm *c) { return c->handle == handle; })) {}

comm_use::comm_use(const char *name) : c_(enter_if([=](const comm *c) { return !strcmp(c->name, name); })) {}

comm_use::~comm_use()
{
	if (!c_)
		return;
	const std::lock_guard hold(lock);
	if (!--c_->users)
		unused.notify_all();
}

bool name_in_use(const char *name, s32 device)
{
	const std::lock_guard hold(lock);

	return find_if([=](const comm *c) { return c->device == device && !strcmp(c->name, name); });
}

void wait_unused(comm *c)
{
	std::unique_lock hold(lock);

	unused.wait(hold, [=] { return !c->users; });
}

HcclComm publish(comm *c)
{
	const std::lock_guard hold(lock);

	c->handle = make_handle<HcclComm>(comm_mark);
	c->next = first;
	first = c;
	return c->handle;
}

comm *withdraw(HcclComm handle)
{
	const std::lock_guard hold(lock);

	for (comm **at = &first; *at; at = &(*at)->next)
		if (comm *const c = *at; c->handle == handle) {
			*at = c->next;
			return c;
		}
	return nullptr;
}

HcclResult add_window(comm *c, const void *start, u64 size, HcclCommSymWindow *out)
{
	const std::lock_guard hold(lock);
	const auto *at = static_cast<const char *>(start);

	for (const window &w : c->windows)
		if (overlap(w, at, size))
			return because(HCCL_E_PARA, "%p + %llu bytes overlaps a registered window", start,
				       static_cast<unsigned long long>(size));
	if (!try_push(c->windows, window{make_handle<HcclCommSymWindow>(window_mark), at, size}))
		return because(HCCL_E_MEMORY, "no memory for a window");
	*out = c->windows.back().handle;
	return HCCL_SUCCESS;
}

bool remove_window(HcclCommSymWindow handle)
{
	const std::lock_guard hold(lock);

	for (comm *c = first; c; c = c->next)
		if (std::erase_if(c->windows, [=](const window &w) { return w.handle == handle; }))
			return true;
	return false;
}

bool find_window(comm *c, const void *start, u64 size, window *out)
{
	const std::lock_guard hold(lock);
	const auto *at = static_cast<const char *>(start);

	for (const window &w : c->windows)
		if (at >= w.at && size <= w.size && u64(at - w.at) <= w.size - size) {
			*out = w;
			return true;
		}
	return false;
}

} // namespace usdma::hccl_comm
