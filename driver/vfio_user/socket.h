/* SPDX-License-Identifier: BSD-3-Clause */
/* vfio-user messages on a UNIX stream socket, sent and received whole, with descriptors. Used by client and server. */
#pragma once

#include "driver/base/clock.h"
#include "driver/vfio_user/message.h"

#include <span>
#include <string>
#include <string_view>
#include <sys/uio.h>

namespace usdma::vfio {

/* Maximum number of parts after the header of a message. */
inline constexpr size_t user_send_parts = 3;

/*
 * Sends header and parts as one message; sets head.size. Not thread-safe on one socket. -ETIMEDOUT: nothing was
 * sent; -ENODEV: the peer has closed; -EPROTO: the deadline passed within the message, the stream is unusable.
 */
int user_send(int sock, proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until);

/*
 * Receives one message. Waits for its first byte until `first`, then rest_ms for the rest. -ETIMEDOUT: no data;
 * -ENODEV: the peer closed between two messages; -EPROTO: truncated, stalled, longer than our_max_message,
 * shorter than its header, too many descriptors, or one whose close may block while too many such closes are
 * pending (close_foreign). -ENOMEM, -EMFILE: no memory for its body, or no free descriptor, and only the header
 * is valid; the next message can be received.
 */
int user_recv(int sock, deadline first, u64 rest_ms, user_message *out);
/* Returns -EMFILE and sets its text. */
int no_fds_free();

/* Discards all data until the peer has closed; true: it has; false: the time is over. */
bool user_await_end(int sock, deadline until);
/* Closes the connection without blocking on descriptors in unread data. */
void user_hang_up(unique_fd sock);

/* A side's capabilities in the VERSION message. */
struct user_caps {
	u64 max_msg_fds = proto::default_max_msg_fds;
	u64 max_data_xfer = proto::default_max_data_xfer;
	u64 max_dma_maps = proto::default_max_dma_maps;
	u64 pgsizes = proto::default_pgsizes;
};

/* NUL-terminated. */
struct caps_text {
	char text[256];
};
caps_text user_caps_json(const user_caps &caps);
/* Parses the VERSION body after version_head: empty, or JSON that ends in NUL. -EPROTO: not JSON, or a bad value. */
int user_caps_parse(std::string_view data, user_caps *out);

} // namespace usdma::vfio
