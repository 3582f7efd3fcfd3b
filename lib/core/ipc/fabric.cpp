/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/ipc/fabric.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/unique_fd.h"

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

static u8 digit_of(char c)
{
	return u8(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* The kernel's random number of this boot, the same in all containers of a host; 0: /proc does not show it. */
static host_id read_boot_id()
{
	const unique_fd file(fd_above_stdio(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)));
	char text[36]; /* 32 digits and 4 dashes */
	host_id id = {};
	size_t n = 0;

	if (!file.valid() || read(file.get(), text, sizeof(text)) != ssize_t(sizeof(text)))
		return id;
	for (const char c : text)
		if (c != '-' && n < 2 * sizeof(id.bytes)) {
			id.bytes[n / 2] = u8(id.bytes[n / 2] << 4 | digit_of(c));
			n++;
		}
	return id;
}

void fabric_boot_id(u8 out[16])
{
	const host_id here = read_boot_id();

	memcpy(out, here.bytes, sizeof(here.bytes));
}

void fabric_make(const share *s, fabric_handle *out)
{
	const host_id here = read_boot_id();

	*out = {};
	memcpy(out->magic, magic, sizeof(magic));
	memcpy(out->boot_id, here.bytes, sizeof(out->boot_id));
	memcpy(out->key, s->key, share_key_len);
}

int fabric_key(const fabric_handle *h, char key[share_key_len + 1])
{
	static constexpr u8 none[sizeof(h->reserved)] = {};
	const host_id here = read_boot_id();
	host_id there;

	if (memcmp(h->magic, magic, sizeof(magic)) != 0 || memcmp(h->reserved, none, sizeof(none)) != 0)
		return fail(EINVAL, "these 128 bytes are not a FABRIC handle");
	memcpy(there.bytes, h->boot_id, sizeof(there.bytes));
	if (here.valid() && there.valid() && there != here)
		return fail(EOPNOTSUPP,
			    "the FABRIC handle is from another host, or from before this host was restarted: "
			    "memory is shared within one host only");
	memcpy(key, h->key, share_key_len);
	key[share_key_len] = '\0';
	return 0;
}

} // namespace usdma::core
