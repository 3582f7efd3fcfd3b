/* SPDX-License-Identifier: BSD-3-Clause */
/* Explicit contexts and parameters. */
#include "lib/acl/profile.h"
#include "lib/acl/state.h"

#include <mutex>

namespace usdma::acl {

static constinit core::no_destructor<options> process_options;
static std::mutex options_lock;

static bool valid_opt(aclSysParamOpt opt)
{
	return opt >= ACL_OPT_DETERMINISTIC && opt <= ACL_OPT_STRONG_CONSISTENCY;
}

static void set_opt(options *o, aclSysParamOpt opt, s64 value)
{
	std::lock_guard guard(options_lock);

	o->value[opt] = value;
	o->set[opt] = true;
}

static aclError get_opt(const char *call, const options *o, aclSysParamOpt opt, s64 *value)
{
	std::lock_guard guard(options_lock);

	if (!o->set[opt])
		return fault(call, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "opt %d was never set", opt);
	*value = o->value[opt];
	return ACL_SUCCESS;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
	acl::context *c;
	int err;

	if (!context)
		return bad_arg(__func__, "context is NULL");
	if (slot_of(deviceId) < 0)
		return no_device(__func__, deviceId);
	err = refusals_take_effect();
	if (!err)
		err = context_create(deviceId, false, &c);
	if (err)
		return core_fault(__func__, err, at::open);
	set_current(c);
	*context = context_handle(c);
	return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context)
{
	if (!context)
		return bad_arg(__func__, "context is NULL");
	if (core::forked())
		return no_context(__func__);
	acl::context *c = context_find(context);
	if (!c)
		return fault(__func__, ACL_ERROR_RT_CONTEXT_NULL, "%p is not a live context", context);
	if (c->primary)
		return fault(__func__, ACL_ERROR_RT_CONTEXT_NULL,
			     "context %p is the primary one of device %d: use aclrtResetDevice", context, c->id);
	if (const int err = context_allows_end(c))
		return core_fault(__func__, err, at::wait);
	if (self().ctx == c)
		set_current(nullptr);
	if (!context_destroy(c, false))
		return fault(__func__, ACL_ERROR_RT_CONTEXT_NULL, "%p is not a live context", context);
	return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
	if (!context)
		return bad_arg(__func__, "context is NULL");
	if (core::forked() || !set_current_handle(context))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "%p is not a live context", context);
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_context.h"
