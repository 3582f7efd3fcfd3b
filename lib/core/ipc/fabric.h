/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FABRIC handles: 128 bytes that name exported memory. They contain the key of the export (share.h) and the boot id
 * of the exporter's host. There is no transport between hosts: a handle from another host is refused.
 */
#pragma once

#include "lib/core/ipc/share.h"

#pragma GCC visibility push(default)

namespace usdma::core {

struct fabric_handle {
	char magic[8];
	u8 boot_id[16]; /* 0: unknown */
	char key[share_key_len];
	u8 reserved[40]; /* 0 */
};
static_assert(sizeof(fabric_handle) == 128);

/* Of this host, as in a handle. */
void fabric_boot_id(u8 out[16]);
void fabric_make(const share *s, fabric_handle *out);
/* -EINVAL: not a FABRIC handle. -EOPNOTSUPP: from another host. */
int fabric_key(const fabric_handle *h, char key[share_key_len + 1]);

} // namespace usdma::core

#pragma GCC visibility pop
