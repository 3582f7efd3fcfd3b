/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/printable.h"

#include "driver/base/types.h"

#include <cstring>

namespace usdma {

static constexpr size_t quoted_most = 60;

/* Length of the UTF-8 sequence that starts with this byte; 0: invalid. */
static size_t length_by(u8 first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Decodes the UTF-8 character at p and returns its length; 0: malformed. */
static size_t decode(const char *p, size_t left, u32 *code)
{
	static constexpr u32 least[] = {0, 0, 0x80, 0x800, 0x10000};
	const size_t n = length_by(u8(*p));

	if (!n || n > left)
		return 0;
	*code = n == 1 ? u8(*p) : u8(*p) & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((u8(p[i]) & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (u8(p[i]) & 0x3f);
	}
	/* No overlong form, no surrogate, and not above U+10FFFF. */
	return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

static bool within(u32 code, u32 first, u32 last)
{
	return code >= first && code <= last;
}

/* Neither a control character nor an invisible one that changes how others are displayed. */
static bool is_visible(u32 code)
{
	return code >= 0x20 && !within(code, 0x7f, 0x9f) && code != 0xad && code != 0x61c &&
	       !within(code, 0x200b, 0x200f) && !within(code, 0x2028, 0x202e) && !within(code, 0x2060, 0x206f) &&
	       code != 0xfeff && !within(code, 0xfff9, 0xfffb) && !within(code, 0xe0000, 0xe0fff);
}

/* The new length. */
static size_t filter(char *text, size_t len)
{
	size_t to = 0;

	for (size_t at = 0; at < len;) {
		u32 code = 0;
		const size_t n = decode(text + at, len - at, &code);

		if (n && is_visible(code)) {
			memmove(text + to, text + at, n);
			to += n;
		} else {
			text[to++] = '?';
		}
		at += n ? n : 1;
	}
	return to;
}

void make_printable(char *text)
{
	text[filter(text, strlen(text))] = '\0';
}

std::string printable(std::string_view text)
{
	std::string out(text);

	out.resize(filter(out.data(), out.size()));
	return out;
}

std::string quoted(std::string_view text)
{
	size_t n = text.size() > quoted_most ? quoted_most : text.size();

	/* Not in the middle of a character. */
	while (n < text.size() && n && (u8(text[n]) & 0xc0) == 0x80)
		n--;
	return "\"" + printable(text.substr(0, n)) + (n < text.size() ? "…\"" : "\"");
}

} // namespace usdma
