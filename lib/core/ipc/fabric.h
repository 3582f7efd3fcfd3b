/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FABRIC handles: 128 bytes that name exported memory for a process on any host. They hold the key of the export
 * (share.h) and the host on which it is valid. There is no transport between hosts: a handle of another one is refused.
 */
#pragma once

#include "lib/core/ipc/share.h"

#pragma GCC visibility push(default)

namespace usdma::core {

struct fabric_handle {
	char mark[8];
	u8 host[16]; /* boot id; 0: unknown */
	char key[share_key_len];
	u8 zero[40];
};
static_assert(sizeof(fabric_handle) == 128);

void fabric_make(const share *s, fabric_handle *out);
/* -EINVAL: not a FABRIC handle. -EOPNOTSUPP: of another host. */
int fabric_key(const fabric_handle *h, char key[share_key_len + 1]);

} // namespace usdma::core

#pragma GCC visibility pop
