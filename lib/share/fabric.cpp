/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/fabric.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/unique_fd.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace usdma::core {

static constexpr char magic[sizeof(fabric_handle::magic)] = {'u', 's', 'd', 'm', 'a', 'f', 'a', '1'};

struct host_id {
	u8 bytes[sizeof(fabric_handle::boot_id)];

	bool valid() const { return *this != host_id{}; }
	bool operator==(const host_id &o) const = default;
};

/* The kernel's random number of this boot, the same in all containers of a host; 0: /proc does not show it. */
static host_id read_boot_id()
{
	static constexpr size_t length = 36; /* 32 digits and 4 dashes */
	const unique_fd file(fd_above_stdio(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)));
	char text[length];
	host_id id;

	if (!file.valid() || read(file.get(), text, length) != ssize_t(length))
		return {};
	const std::string_view digits(text, size_t(std::remove(text, text + length, '-') - text));
	return host_id_parse(digits, id.bytes) ? id : host_id{};
}

static host_id this_host()
{
	const std::string &given = config_get().host_id;
	host_id id;

	return host_id_parse(given, id.bytes) ? id : read_boot_id();
}

void fabric_boot_id(u8 out[16])
{
	const host_id here = this_host();

	memcpy(out, here.bytes, sizeof(here.bytes));
}

void fabric_make(const share *s, const net_address *at, fabric_handle *out)
{
	const host_id here = this_host();

	*out = {};
	memcpy(out->magic, magic, sizeof(magic));
	memcpy(out->boot_id, here.bytes, sizeof(out->boot_id));
	memcpy(out->key, s->key, share_key_len);
	if (!at)
		return;
	out->family = at->family;
	out->port[0] = u8(at->port);
	out->port[1] = u8(at->port >> 8);
	memcpy(out->address, at->address, sizeof(out->address));
}

net_address fabric_address(const fabric_handle *h)
{
	net_address at = {};

	at.family = h->family;
	at.port = u16(h->port[0] | h->port[1] << 8);
	memcpy(at.address, h->address, sizeof(at.address));
	return at;
}

static bool is_address(const net_address &at)
{
	return at.family ? at.port && (at.family == 4 || at.family == 6) : !at.port;
}

bool fabric_is_here(const fabric_handle *h)
{
	const host_id here = this_host();
	host_id there;

	memcpy(there.bytes, h->boot_id, sizeof(there.bytes));
	return !here.valid() || !there.valid() || there == here;
}

int fabric_key(const fabric_handle *h, char key[share_key_len + 1])
{
	static constexpr u8 none[sizeof(h->reserved)] = {};

	if (memcmp(h->magic, magic, sizeof(magic)) != 0 || memcmp(h->reserved, none, sizeof(none)) != 0 ||
	    !is_address(fabric_address(h)))
		return fail(EINVAL, "these 128 bytes are not a FABRIC handle");
	memcpy(key, h->key, share_key_len);
	key[share_key_len] = '\0';
	return 0;
}

int fabric_number(const fabric_handle *h, u64 *number)
{
	char key[share_key_len + 1];

	if (int err = fabric_key(h, key))
		return err;
	if (!fabric_is_here(h))
		return fail(EOPNOTSUPP, "the FABRIC handle is of another host: its processes allow others");
	*number = share_number_of(key);
	return *number ? 0 : fail(EINVAL, "the FABRIC handle has no key");
}

} // namespace usdma::core
