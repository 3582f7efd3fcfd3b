/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of a vfio-user client. */
#pragma once

#include "driver/vfio/device.h"

#include <string>

namespace usdma::vfio {

struct user_options {
	u64 timeout_ms = 5000; /* for each reply */
	u64 open_ms = 0;       /* for all requests together, until set_deadline(0) is called; 0: no limit */
	/*
	 * Embedded server (same process): called before each DMA_MAP is sent, so that the server accesses the memory
	 * directly instead of by a second mapping or by DMA_READ and DMA_WRITE. nullptr: separate process.
	 */
	int (*share_local)(void *arg, u64 iova, void *vaddr, u64 size) = nullptr;
	void *share_arg = nullptr;
	server_trust trust = server_trust::checked;
	std::string name;                  /* value of name(); default "vfio-user:PATH" */
	const char *backend = "vfio-user"; /* value of backend() */
};

} // namespace usdma::vfio
