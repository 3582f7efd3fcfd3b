/* SPDX-License-Identifier: BSD-3-Clause */
/* vfio-user messages on a UNIX stream socket: whole in, whole out, with descriptors beside them.  Both sides use it. */
#pragma once

#include "driver/base/clock.h"
#include "driver/vfio/user_message.h"

#include <span>
#include <string>
#include <string_view>
#include <sys/uio.h>

namespace usdma::vfio {

/* At most so many parts behind the header in one message. */
inline constexpr size_t user_send_parts = 3;

/*
 * Sends header and parts as one message; fills in head.size.  Not thread-safe
 * against itself on one socket.  -ETIMEDOUT: nothing went out; -ENODEV: the peer
 * is gone; -EPROTO: the deadline passed within the message, the stream is of no
 * more use.
 */
int user_send(int sock, proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until);

/*
 * Receives one message.  Waits for its first byte until `first`, then rest_ms
 * for the rest.  -ETIMEDOUT: nothing came; -ENODEV: the peer closed between two
 * messages; -EPROTO: cut short, stalled, longer than our_max_message, shorter
 * than its header, too many descriptors, or one of a kind of which many
 * could not be closed yet (close_foreign).  -ENOMEM, -EMFILE: there was no memory for its body,
 * or no number for its descriptors, and only its head is there; the next one can be received.
 */
int user_recv(int sock, deadline first, u64 rest_ms, user_message *out);
/* -EMFILE, with its text. */
int no_fds_free();

/* Reads, and releases, whatever comes until the peer has ended; true: it has. */
bool user_await_end(int sock);
/* Ends the connection without waiting for what the peer sent and nobody read. */
void user_hang_up(unique_fd sock);

/* What a side says of itself in the VERSION message. */
struct user_caps {
	u64 max_msg_fds = proto::default_max_msg_fds;
	u64 max_data_xfer = proto::default_max_data_xfer;
	u64 max_dma_maps = proto::default_max_dma_maps;
	u64 pgsizes = proto::default_pgsizes;
};

/* The text with its NUL. */
struct caps_text {
	char text[256];
};
caps_text user_caps_json(const user_caps &caps);
/* The VERSION body behind version_head: empty, or JSON that ends in NUL. -EPROTO: not JSON, or a bad value. */
int user_caps_parse(std::string_view data, user_caps *out);

} // namespace usdma::vfio
