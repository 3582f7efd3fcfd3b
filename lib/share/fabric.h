/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FABRIC handles: 128 bytes that name exported memory. They contain the key of the export (share.h), the identity of
 * the exporter's host, its boot id or the setting host_id, and with the setting net where the exporter's usdma-net
 * listens, which demands the job's key (net_key_file), too.
 */
#pragma once

#include "lib/share/helper_channel.h"
#include "lib/share/share.h"

#pragma GCC visibility push(default)

namespace usdma::core {

struct fabric_handle {
	char magic[8];
	u8 boot_id[16]; /* 0: unknown */
	char key[share_key_len];
	u8 port[2], family; /* of net_address, little-endian; 0: nothing listens */
	u8 address[16];
	u8 reserved[21]; /* 0 */
};
static_assert(sizeof(fabric_handle) == 128 && share_key_len == helper_key);

/* The identity of this host, as in a handle. */
void fabric_boot_id(u8 out[16]);
/* at: where other hosts get it, or null. */
void fabric_make(const share *s, const net_address *at, fabric_handle *out);
/* -EINVAL: not a FABRIC handle. */
int fabric_key(const fabric_handle *h, char key[share_key_len + 1]);
bool fabric_is_here(const fabric_handle *h);
net_address fabric_address(const fabric_handle *h);
/* The number of its export, as physical_allow_all() takes it. -EOPNOTSUPP: of another host. */
int fabric_number(const fabric_handle *h, u64 *number);

} // namespace usdma::core

#pragma GCC visibility pop
