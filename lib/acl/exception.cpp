/* SPDX-License-Identifier: BSD-3-Clause */
/* Callbacks for failed tasks, and what they are called with. */
#include "lib/acl/state.h"

#include <algorithm>
#include <mutex>
#include <unistd.h>

/* Each ~0: cannot be said. */
struct rtExceptionInfo {
	uint32_t task, stream, thread, device, code;
};

namespace usdma::acl {

inline constexpr unsigned max_callbacks = 16;

namespace {

/* The first is that of aclrtSetExceptionInfoCallback() and may be null; the others are in the order of registration. */
struct callback_list {
	aclrtExceptionInfoCallback fn[1 + max_callbacks] = {};
	unsigned count = 1;
};

} // namespace

static std::mutex lock;
static callback_list callbacks;

/* The device of the calling thread's context. */
static u32 device_here()
{
	const core::read_section in;
	const context *c = in ? current_now() : nullptr;

	return c ? u32(c->id) : ~0u;
}

static u32 id_of(u64 number)
{
	return number ? u32(number) : ~0u;
}

static void report(const core::stream_error &e)
{
	aclrtExceptionInfo info{id_of(e.number), id_of(e.stream), uint32_t(gettid()), device_here(),
				uint32_t(code_of(-e.err, at::task))};
	callback_list now;
	{
		std::lock_guard guard(lock);
		now = callbacks;
	}
	for (unsigned i = 0; i < now.count; i++)
		if (now.fn[i])
			now.fn[i](&info);
}

void report_exceptions(core::error_list *unlisted)
{
	/* A call that fails in a callback leaves nothing to the caller of the synchronisation. */
	const saved_error text;
	const aclError last = self().last_error;
	core::stream_error e;

	while (core::error_list_take(unlisted, &e))
		report(e);
	self().last_error = last;
	text.again(0);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback)
{
	std::lock_guard guard(lock);

	callbacks.fn[0] = callback;
	return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback)
{
	if (!callback)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "callback is NULL");
	std::lock_guard guard(lock);
	auto *const end = callbacks.fn + callbacks.count;
	if (std::find(callbacks.fn + 1, end, callback) != end)
		return ACL_SUCCESS;
	if (callbacks.count == std::size(callbacks.fn))
		return fault(__func__, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "there are %u callbacks already",
			     max_callbacks);
	callbacks.fn[callbacks.count++] = callback;
	return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback)
{
	if (!callback)
		return bad_arg(__func__, "callback is NULL");
	std::lock_guard guard(lock);
	auto *const end = callbacks.fn + callbacks.count;
	callbacks.count = unsigned(std::remove(callbacks.fn + 1, end, callback) - callbacks.fn);
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_exception.h"
