/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/pci/address.h"

#include "driver/base/error.h"

#include <cstdio>

namespace usdma::pci {

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Parses between least and most hexadecimal digits, followed by `end` (0: the end of the text). */
static bool take(std::string_view *text, size_t least, size_t most, char end, u64 limit, u64 *out)
{
	size_t n = 0;

	*out = 0;
	while (n < text->size() && n < most && digit((*text)[n]) >= 0)
		*out = *out * 16 + u64(digit((*text)[n++]));
	if (n < least || *out > limit)
		return false;
	text->remove_prefix(n);
	if (!end)
		return text->empty();
	if (text->empty() || text->front() != end)
		return false;
	text->remove_prefix(1);
	return true;
}

int address_parse(std::string_view text, address *out)
{
	std::string_view left = text;
	u64 domain, bus, dev, fn;

	if (!take(&left, 4, 8, ':', 0xffffffff, &domain) || !take(&left, 2, 2, ':', 0xff, &bus) ||
	    !take(&left, 2, 2, '.', 0x1f, &dev) || !take(&left, 1, 1, 0, 7, &fn))
		return fail(EINVAL, "'%.*s' is not a PCI address; one looks like 0000:3b:00.0 (lspci -D lists them)",
			    int(text.size() < 64 ? text.size() : 64), text.data());
	*out = {u32(domain), u8(bus), u8(dev), u8(fn)};
	return 0;
}

std::string address_format(const address &a)
{
	char text[32];

	snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", a.domain, a.bus, a.dev, a.fn);
	return text;
}

} // namespace usdma::pci
