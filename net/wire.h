/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What helpers of two machines say to each other.  On the control connection (TCP), each side: a hello, then frames.
 * Numbers are little-endian.  Each message has one length, which is checked before anything else of it is looked at.
 *
 *   client              server
 *   hello        →
 *                ←      hello
 *   offer        →               the client's proof, token and worker address
 *                ←      offer    the server's, or a refusal
 *
 * The connection stays open, without a byte: its end is that of the peer.  Data goes by active messages of UCX, each
 * of which begins with the token that its receiver has offered.
 *
 * A stream takes the place of the offers if a program of the client wants a connection to one of the server: each
 * proves that it has the key, with the stream's name where the worker address is. Then it is those programs'.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::net {

inline constexpr char magic[8] = {'u', 's', 'd', 'm', 'a', 'n', 'e', 't'};
inline constexpr u32 protocol = 4;
inline constexpr size_t id_len = 16, nonce_len = 32, mac_len = 32, token_len = 16;
inline constexpr u32 address_most = 1024; /* of a worker; 38 to 200 bytes are usual */

struct hello {
	char magic[sizeof(net::magic)];
	u32 version;
	u32 reserved; /* 0 */
	u8 host[id_len];
	u8 nonce[nonce_len];
};
static_assert(sizeof(hello) == 64);

enum class frame_kind : u32 { offer = 1, refusal = 2, stream = 3 };

struct frame {
	u32 kind;
	u32 length; /* of what follows */
};

/* mac: HMAC-SHA256 by the job's key over all that both sides have said, and over the rest of this message. */
struct offer {
	u8 mac[mac_len];
	u8 token[token_len];
	/* then the worker address, or the stream's name, to the end of the frame */
};

enum class refusal : u32 { none, version, key, full, malformed, nobody };

/* ---- active messages --------------------------------------------------------------------------------- */

/*
 * Of memory that the peer exports, by a number that it gave for the key:
 *
 *   open     the key (data)               ack: id, value: bytes of the memory
 *   put      id, offset, and the data     ack
 *            pattern_size 8: then the word at offset `pattern` becomes 1; there may be no data
 *   get      id, offset, value: bytes     data, or an ack with a failure
 *   fill     id, offset, value: bytes, pattern, pattern_size      ack
 *   close    id                           no answer
 *
 * sink and ping measure a link; an ack answers each. An ack of a put or fill: it is in the memory.
 */
enum class message : u32 { ping = 1, sink, ack, open, close, put, get, data, fill };
inline constexpr u32 message_kinds = u32(message::fill);

inline constexpr u64 sink_most = 64 * MiB;
inline constexpr u64 part_most = MiB;      /* of memory in a message */
inline constexpr u64 fill_most = 16 * MiB; /* the receiver has nothing else to do meanwhile */
inline constexpr u64 key_length = 64;      /* of exported memory */

/* The header of each. */
struct message_header {
	u8 token[token_len];
	u64 number; /* an answer has that of the message it answers */
	u64 length; /* of the data behind the header */
	u64 id;     /* of memory: of the peer's to which it goes */
	u64 offset;
	u64 value;
	u64 pattern;
	u32 pattern_size;
	s32 status; /* of an answer: 0 or -errno */
};
static_assert(sizeof(message_header) == 72);

/* Of a fill. */
bool fill_fits(u64 length, u32 pattern_size);
/* The sender waits for an answer. */
bool message_asks(message kind);
/* A message as UCX has delivered it: its header is copied and its lengths are checked; false: it is malformed. */
bool message_read(message kind, const void *header, size_t header_length, size_t length, message_header *out);
/* In the order of the network; the token is copied as it is. */
message_header message_write(const message_header &h);

} // namespace usdma::net
