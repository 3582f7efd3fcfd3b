/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the client mapped without a file: an engine reads and writes it by asking the client. */
#pragma once

#include "driver/base/types.h"

namespace usdma::sim {

struct remote_access {
	bool write = false;
	u64 address = 0;
	u8 *buf = nullptr;
	u32 len = 0;
	int wake_fd = -1; /* an eventfd that does not block, written when the end is known */
	s32 result = 0;   /* by load_acquire: 1 in flight, 0 done, else -errno */

	/* The port's, while it is in flight. */
	u16 id = 0;
	bool sent = false;
	remote_access *next = nullptr;
};

class remote_port {
public:
	virtual ~remote_port() = default;

	/* Most bytes in one access. */
	virtual u32 max_len() const = 0;
	/*
	 * Has the question sent, without waiting for that; -errno: there is nobody to ask.  One access at a
	 * time for each remote_access.
	 */
	virtual int begin(remote_access *a) = 0;
	/* Once it returns, the port touches neither *a nor its buffer.  Called after each begin that went well. */
	virtual void end(remote_access *a) = 0;
	/* True: it was not sent yet, and is not any more.  end() is called all the same. */
	virtual bool take_back(remote_access *a) = 0;
	/* False: what a read brought may be off by four bytes (server::reply_data), unless all of it is zeros. */
	virtual bool counts_known() const = 0;
	/* Has the connection end, as with a device that vanishes; returns at once. */
	virtual void hang_up() {}
};

} // namespace usdma::sim
