/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "lib/hccl_comm/context.h"
#include "lib/hcomm/handles.h"
#include "lib/hcomm/memory.h"

#include <dispatcher.h>
#include <hcomm_primitives.h>
#include <hcomm_res.h>

namespace usdma::hcomm {

using hccl_comm::in_context;

struct endpoint {
	EndpointDesc is{};
	aclrtContext context = nullptr;
	s32 device = 0;

	std::mutex lock;
	handles<memory, 0xd5> memories;
	imports there;
	unique_fd reserved; /* of its port */
	u32 port = 0;
};

std::shared_ptr<endpoint> find_endpoint(const void *handle);
HcclResult no_endpoint();

/* Reductions of one device, which need an HcclDispatcher. */
class reducer {
public:
	reducer() = default;
	~reducer();
	reducer(const reducer &) = delete;
	reducer &operator=(const reducer &) = delete;
	HcclResult run(s32 device, void *to, void *from, u64 count, HcommDataType type, HcommReduceOp op,
		       aclrtStream stream);

private:
	std::mutex lock_;
	void *dispatcher_ = nullptr;
};

/* A stream, with notifies that other threads record. */
struct thread {
	~thread();

	aclrtContext context = nullptr;
	s32 device = 0;
	aclrtStream stream = nullptr;
	bool owns = false;
	std::vector<aclrtNotify> notifies;
	reducer reductions;
};

std::shared_ptr<thread> find_thread(ThreadHandle handle);
HcclResult no_thread();

inline constexpr u32 most_notifies = 64;

HcclResult check_engine(CommEngine engine);
/* In the thread's context. */
HcclResult make_notifies(std::vector<aclrtNotify> *out, u32 count);
void drop_notifies(std::vector<aclrtNotify> *all);
HcclResult context_here(aclrtContext *context, s32 *device);

template <class F> HcommResult hcomm_call(const char *call, F f)
{
	return HcommResult(hccl_comm::called(call, f));
}

} // namespace usdma::hcomm
