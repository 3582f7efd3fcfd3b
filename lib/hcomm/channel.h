/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "lib/hcomm/endpoint.h"

namespace usdma::hcomm {

/* What HcommChannelGetStatus() says. */
enum channel_status : s32 { connected = 0, connecting = 1, broken = 2, late = 3 };

struct channel {
	explicit channel(std::shared_ptr<endpoint> e) : of(std::move(e)) {}
	~channel();
	channel(const channel &) = delete;
	channel &operator=(const channel &) = delete;

	const std::shared_ptr<endpoint> of;
	std::mutex order; /* of calls */
	link to;
	deadline until = deadline::never();
	s32 status = connecting;
	HcclResult why = HCCL_SUCCESS; /* it is broken */
	std::string cause;
	std::vector<aclrtNotify> mine, theirs;
	bool imported = false; /* theirs: from another process */
	imports there;
	u64 process = 0;              /* of the other side */
	aclrtStream stream = nullptr; /* of calls without a thread */
	reducer reductions;
	/* The stream of the last call: of a thread, unless it was freed, which waits for its work; else the own one. */
	std::weak_ptr<thread> last;
	bool last_own = true, used = false;
	aclrtEvent passed = nullptr;
};

std::shared_ptr<channel> find_channel(ChannelHandle handle);
HcclResult no_channel();

} // namespace usdma::hcomm
