/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "lib/hccl_comm/cause.h"

namespace usdma::hccl_comm {

/* The calling thread's context is another one's, while this exists. */
class in_context {
public:
	explicit in_context(aclrtContext context)
	{
		(void)aclrtGetCurrentContext(&before_);
		code_ = aclrtSetCurrentContext(context);
	}
	~in_context()
	{
		if (before_)
			(void)aclrtSetCurrentContext(before_);
	}
	in_context(const in_context &) = delete;
	in_context &operator=(const in_context &) = delete;
	HcclResult failed() const { return code_ ? acl_failed("aclrtSetCurrentContext", code_) : HCCL_SUCCESS; }

private:
	aclrtContext before_ = nullptr;
	aclError code_;
};

} // namespace usdma::hccl_comm
