/* SPDX-License-Identifier: BSD-3-Clause */
/* Syntax of device strings. */
#include "driver/base/error.h"
#include "driver/dma/registry.h"

namespace usdma::dma {

/* printf arguments of a string_view for error texts, truncated to a readable length. */
#define SV(s) int((s).size() < 200 ? (s).size() : 200), (s).data()

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* "DDDD:BB:DD.F", as printed by the kernel: h is a hexadecimal digit, o is 0 to 7. */
static bool is_pci_address(std::string_view s)
{
	constexpr std::string_view form = "hhhh:hh:hh.o";

	if (s.size() != form.size())
		return false;
	for (size_t i = 0; i < form.size(); i++) {
		const bool ok = form[i] == 'h' ? is_hex(s[i]) :
				form[i] == 'o' ? s[i] >= '0' && s[i] <= '7' :
						 s[i] == form[i];

		if (!ok)
			return false;
	}
	return true;
}

static std::optional<vfio::server_trust> parse_trust(std::string_view word)
{
	if (word == "no")
		return vfio::server_trust::no;
	if (word == "checked")
		return vfio::server_trust::checked;
	return word == "yes" ? std::optional(vfio::server_trust::yes) : std::nullopt;
}

static constexpr std::string_view word_trust = "trust=", word_isolated = "isolated=";

static int set_trust(std::string_view spec, std::string_view word, device_options *out)
{
	const bool twice = out->trust.has_value();

	out->trust = parse_trust(word);
	if (!out->trust || twice || !spec.starts_with("vfio-user:"))
		return fail(EINVAL,
			    "device \"%.*s\": trust=no, trust=checked or trust=yes is for vfio-user:PATH, whose server "
			    "is another "
			    "process",
			    SV(spec));
	return 0;
}

static int set_isolated(std::string_view spec, std::string_view word, device_options *out)
{
	if (out->isolated || (word != "yes" && word != "no"))
		return fail(EINVAL, "device \"%.*s\": isolated is yes or no, and may be given once", SV(spec));
	out->isolated = word == "yes";
	return 0;
}

int parse_options(std::string_view spec, std::string_view *bare, device_options *out)
{
	int err = 0;

	*out = {};
	*bare = spec;
	for (size_t at; !err && (at = bare->rfind(':')) != bare->npos; *bare = bare->substr(0, at)) {
		const std::string_view word = bare->substr(at + 1);

		if (word.starts_with(word_trust))
			err = set_trust(spec, word.substr(word_trust.size()), out);
		else if (word.starts_with(word_isolated))
			err = set_isolated(spec, word.substr(word_isolated.size()), out);
		else
			break;
	}
	return err;
}

int parse_scheme(std::string_view whole, std::string *scheme)
{
	constexpr std::string_view user = "vfio-user:";
	std::string_view spec;
	device_options parsed;

	if (const int err = parse_options(whole, &spec, &parsed); err < 0)
		return err;
	if (spec == "sim" || spec.starts_with("sim:"))
		*scheme = "sim";
	else if (spec.starts_with(user) && spec.size() > user.size())
		*scheme = "vfio-user";
	else if (spec.starts_with(user))
		return fail(EINVAL, "device \"%.*s\": the path of the server's socket is missing", SV(spec));
	else if (is_pci_address(spec))
		*scheme = "pci";
	else
		return fail(EINVAL,
			    "device \"%.*s\": not a device string; valid are: sim[:KEY=VALUE]..., "
			    "vfio-user:PATH[:trust=no|checked|yes], "
			    "DDDD:BB:DD.F, and :isolated=yes after each",
			    SV(whole));
	return 0;
}

static std::string_view trim(std::string_view s)
{
	while (!s.empty() && (s.front() == ' ' || s.front() == '\t'))
		s.remove_prefix(1);
	while (!s.empty() && (s.back() == ' ' || s.back() == '\t'))
		s.remove_suffix(1);
	return s;
}

int parse_list(std::string_view list, std::vector<std::string> *out)
{
	std::vector<std::string> specs;
	std::string scheme;

	for (size_t at = 0; at <= list.size();) {
		const size_t comma = list.find(',', at), end = comma == list.npos ? list.size() : comma;
		const std::string_view spec = trim(list.substr(at, end - at));

		if (spec.empty())
			return fail(EINVAL, "device list \"%.*s\": entry %zu is empty", SV(list), specs.size() + 1);
		if (const int err = parse_scheme(spec, &scheme); err < 0)
			return err;
		specs.emplace_back(spec);
		at = end + 1;
	}
	*out = std::move(specs);
	return 0;
}

} // namespace usdma::dma
