/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HcclGroupStart() to HcclGroupEnd(): what the calling thread does between them is stored, and done at the end: what
 * belongs to one communicator in order, communicators beside each other, unless they share a stream. So one thread can
 * serve several ranks.
 */
#pragma once

#include "driver/base/types.h"
#include "lib/hccl_comm/cause.h"

#include <cstring>
#include <hccl.h>
#include <initializer_list>
#include <type_traits>

namespace usdma::hccl_comm {

/* A call, by value. */
struct later {
	static constexpr size_t most = 112;

	HcclResult (*run)(const void *args) = nullptr;
	alignas(8) unsigned char args[most];

	later() = default;
	template <class F>
	explicit later(const F &f) : run([](const void *a) -> HcclResult { return (*static_cast<const F *>(a))(); })
	{
		static_assert(sizeof(F) <= most && alignof(F) <= 8 && std::is_trivially_copyable_v<F>);
		memcpy(args, &f, sizeof(f));
	}
};

/* Whether the calling thread has begun a group. */
bool group_open();
/* Of the group that is open; handle: the communicator, nullptr: it will be made; stream: of an operation, or nullptr.
 */
HcclResult group_add_call(const char *call, HcclComm handle, aclrtStream stream, const later &f);
/* A transfer of HcclSend() or HcclRecv(): all of a communicator's are one HcclBatchSendRecv() in the first's stream. */
HcclResult group_add_item(HcclComm handle, const HcclSendRecvItem &item, aclrtStream stream);

/* A copy that the group that is open has until its end; nullptr: no memory. */
const void *group_copy(const void *from, size_t bytes);
HcclResult no_memory_for_group();

template <class F> HcclResult group_add(const char *call, HcclComm handle, aclrtStream stream, const F &f)
{
	return group_add_call(call, handle, stream, later(f));
}

/*
 * In a group, copies replace the arrays of a call, of n elements each: the program may change or free them before the
 * group's end.
 */
template <class T> HcclResult keep(const char *call, u64 n, std::initializer_list<const T **> arrays)
{
	if (!n || !group_open())
		return HCCL_SUCCESS;
	for (const T **at : arrays) {
		if (!*at)
			continue;
		*at = static_cast<const T *>(group_copy(*at, n * sizeof(T)));
		if (!*at)
			return called(call, no_memory_for_group);
	}
	return HCCL_SUCCESS;
}

/* HcclBatchSendRecv(), for the items of a group. */
HcclResult batch_send_recv(HcclComm handle, const HcclSendRecvItem *items, u32 n, aclrtStream stream);

} // namespace usdma::hccl_comm
