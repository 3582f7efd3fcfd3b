/* SPDX-License-Identifier: BSD-3-Clause */
/* The vfio-user client: a device that another process, or another thread, serves on a UNIX socket. */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/vfio/device.h"

namespace usdma::vfio {

struct user_options {
	u64 timeout_ms = 5000; /* for each reply */
	u64 open_ms = 0; /* for all together, until hurry(0) is called; 0: no such limit */
	/*
	 * Embedded server (same process): called beside each DMA_MAP, before the
	 * message goes out, so that the server reaches the memory where it is instead
	 * of by a second mapping or by DMA_READ and DMA_WRITE.  nullptr: separate process.
	 */
	int (*share_local)(void *arg, u64 iova, void *vaddr, u64 size) = nullptr;
	void *share_arg = nullptr;
	server_trust trust = server_trust::checked;
	std::string name; /* what name() says; default "vfio-user:PATH" */
	const char *backend = "vfio-user"; /* what backend() says */
};

/* Connects to PATH (a deadline applies) and negotiates. -ENOENT, -ECONNREFUSED, -EPROTO, -ETIMEDOUT, … */
int user_connect(const std::string &path, const user_options &opt, std::unique_ptr<device> *out);
/* Takes over a connected socket (embedded: one end of a socketpair) and negotiates. */
int user_attach(unique_fd socket, const user_options &opt, std::unique_ptr<device> *out);

} // namespace usdma::vfio
