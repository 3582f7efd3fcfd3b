/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicators of this process, so that a handle can be checked without dereferencing it. */
#include "lib/hccl_comm/comm.h"

namespace usdma::hccl_comm {
namespace {

constinit std::mutex lock;
constinit comm *first = nullptr;
/* Of the handles: 2^56 do not wrap. */
constinit u64 last = 0;
constexpr u64 mark = 0xcc;

} // namespace

static comm *find(HcclComm handle)
{
	comm *c = first;

	while (c && c->handle != handle)
		c = c->next;
	return c;
}

comm *find_comm(HcclComm handle)
{
	const std::lock_guard hold(lock);

	return find(handle);
}

HcclResult with_comm(HcclComm handle, HcclResult (*f)(comm *c, void *arg), void *arg)
{
	const std::lock_guard hold(lock);
	comm *const c = arg ? find(handle) : nullptr;

	return c ? f(c, arg) : HCCL_E_PTR;
}

HcclComm publish(comm *c)
{
	const std::lock_guard hold(lock);

	c->handle = reinterpret_cast<HcclComm>(++last << 8 | mark);
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

} // namespace usdma::hccl_comm
