/* SPDX-License-Identifier: BSD-3-Clause */
/* What a vfio-user client is told when it is made. */
#pragma once

#include "driver/vfio/device.h"

#include <string>

namespace usdma::vfio {

struct user_options {
	u64 timeout_ms = 5000; /* for each reply */
	u64 open_ms = 0;       /* for all together, until hurry(0) is called; 0: no such limit */
	/*
	 * Embedded server (same process): called beside each DMA_MAP, before the
	 * message goes out, so that the server reaches the memory where it is instead
	 * of by a second mapping or by DMA_READ and DMA_WRITE.  nullptr: separate process.
	 */
	int (*share_local)(void *arg, u64 iova, void *vaddr, u64 size) = nullptr;
	void *share_arg = nullptr;
	server_trust trust = server_trust::checked;
	std::string name;                  /* what name() says; default "vfio-user:PATH" */
	const char *backend = "vfio-user"; /* what backend() says */
};

} // namespace usdma::vfio
