/* SPDX-License-Identifier: BSD-3-Clause */
/* Access by messages to memory that the client mapped without a file. */
#pragma once

#include "driver/base/types.h"

namespace usdma::sim {

struct remote_access {
	bool write = false;
	u64 address = 0;
	u8 *buf = nullptr;
	u32 len = 0;
	int wake_fd = -1; /* a nonblocking eventfd, written on completion */
	s32 result = 0;   /* by load_acquire: 1 in flight, 0 done, else -errno */

	/* Owned by the port while in flight. */
	u16 id = 0;
	bool sent = false;
	remote_access *next = nullptr;
};

class remote_port {
public:
	virtual ~remote_port() = default;

	/* Most bytes of one access. */
	virtual u32 max_len() const = 0;
	/* Queues the access and returns at once; -errno: no client. One access at a time for each remote_access. */
	virtual int begin(remote_access *a) = 0;
	/* On return the port uses neither *a nor its buffer. Called after each successful begin. */
	virtual void end(remote_access *a) = 0;
	/* True: the access was cancelled before it was sent. end() is called all the same. */
	virtual bool take_back(remote_access *a) = 0;
	/* False: the data of a read may be shifted by four bytes (server::reply_data), unless all of it is zeros. */
	virtual bool counts_valid() const = 0;
	/* Requests the end of the connection, as for a vanished device; returns at once. */
	virtual void hang_up() {}
};

} // namespace usdma::sim
