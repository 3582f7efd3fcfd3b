/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/wire.h"

#include <cstring>
#include <endian.h>

namespace usdma::net {

static constexpr s32 least_status = -4095;

/* A put says with a word that it is there. */
static bool has_signal(const message_header &h)
{
	return h.pattern_size == sizeof(u64) && h.pattern % sizeof(u64) == 0;
}

/* Bytes of data behind the header. */
static bool data_fits(message kind, const message_header &h)
{
	const u64 length = h.length;

	switch (kind) {
	case message::sink:
		return length <= sink_most;
	case message::open:
		return length == key_length;
	case message::put:
		return length <= part_most && (h.pattern_size ? has_signal(h) : length > 0);
	case message::data:
		return length && length <= part_most;
	default:
		return !length;
	}
}

bool fill_fits(u64 length, u32 pattern_size)
{
	return length && length <= fill_most && (pattern_size == 1 || pattern_size == 4 || pattern_size == 8) &&
	       length % pattern_size == 0;
}

bool message_asks(message kind)
{
	return kind != message::ack && kind != message::data && kind != message::close;
}

/* What it asks for. */
static bool value_fits(message kind, const message_header &h)
{
	switch (kind) {
	case message::get:
		return h.value && h.value <= part_most;
	case message::fill:
		return fill_fits(h.value, h.pattern_size);
	default:
		return true;
	}
}

message_header message_write(const message_header &h)
{
	message_header out = h;

	out.number = htole64(h.number);
	out.length = htole64(h.length);
	out.id = htole64(h.id);
	out.offset = htole64(h.offset);
	out.value = htole64(h.value);
	out.pattern = htole64(h.pattern);
	out.pattern_size = htole32(h.pattern_size);
	out.status = s32(htole32(u32(h.status)));
	return out;
}

bool message_read(message kind, const void *header, size_t header_length, size_t length, message_header *out)
{
	message_header h;

	*out = {};
	if (header_length != sizeof(h))
		return false;
	memcpy(&h, header, sizeof(h));
	/* The same in both directions. */
	*out = message_write(h);
	return out->length == length && data_fits(kind, *out) && value_fits(kind, *out) && out->status <= 0 &&
	       out->status >= least_status;
}

} // namespace usdma::net
