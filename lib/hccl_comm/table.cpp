/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicators of this process, so that a handle can be checked without dereferencing it. */
#include "lib/hccl_comm/comm.h"

namespace usdma::hccl_comm {
namespace {

constinit std::mutex lock;
constinit comm *first = nullptr;

} // namespace

comm *find_comm(HcclComm handle)
{
	const std::lock_guard hold(lock);
	comm *c = first;

	while (c && c != handle)
		c = c->next;
	return c;
}

void publish(comm *c)
{
	const std::lock_guard hold(lock);

	c->next = first;
	first = c;
}

bool withdraw(comm *c)
{
	const std::lock_guard hold(lock);

	for (comm **at = &first; *at; at = &(*at)->next) {
		if (*at == c) {
			*at = c->next;
			return true;
		}
	}
	return false;
}

} // namespace usdma::hccl_comm
