/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/config/check_words.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/words.h"

#include <utility>

namespace usdma::core {

using std::string_view;

static constexpr string_view shuffle = "shuffle", key = ":timing=";

static bool parse_seed(string_view text, check_words *out)
{
	out->timing = check_timing::shuffle;
	out->drawn = text.empty();
	if (!out->drawn)
		return text.front() == ':' && number_parse(text.substr(1), &out->seed);
	/* Few digits, as people copy them. */
	out->seed = now_ns() / 1000 % 1000000;
	return true;
}

/* "report=FILE" and the like; false: it is another word, or malformed. */
static bool parse_value(string_view word, check_words *out)
{
	const size_t eq = word.find('=');
	const string_view name = word.substr(0, eq), value = eq == string_view::npos ? "" : word.substr(eq + 1);
	u64 status;

	if (name == "report" && !value.empty())
		out->report = value;
	else if (name == "suppressions" && !value.empty())
		out->suppressions = value;
	else if (name == "exit" && number_parse(value, &status, 0, 255))
		out->exit = u32(status);
	else
		return false;
	return true;
}

static bool parse_word(string_view word, check_words *out)
{
	if (parse_value(word, out))
		return true;
	if (word == "race")
		return !std::exchange(out->race, true);
	if (word == "unwritten")
		return !std::exchange(out->unwritten, true);
	if (word == "strict")
		return !std::exchange(out->strict, true);
	if (word == "guard")
		return !std::exchange(out->guard, true);
	if (out->timing != check_timing::plain)
		return false;
	if (word.starts_with(shuffle))
		return parse_seed(word.substr(shuffle.size()), out);
	out->timing = word == "late" ? check_timing::late : check_timing::early;
	return word == "late" || word == "early";
}

int check_parse(string_view text, check_words *out)
{
	check_words c;
	bool good = true;

	for (string_view rest = text; good && rest.data() && !text.empty();) {
		const size_t comma = rest.find(',');

		good = parse_word(rest.substr(0, comma), &c);
		rest = comma == string_view::npos ? string_view() : rest.substr(comma + 1);
	}
	if (!good)
		return fail(
			EINVAL,
			"\"%.*s\" is no check: there are race, unwritten and guard with race, strict, late, early "
			"or shuffle[:SEED], report=FILE, suppressions=FILE and exit=0 to 255, with a comma between two",
			int(text.size()), text.data());
	if ((c.unwritten || c.guard) && !c.race)
		return fail(EINVAL, "\"%.*s\" is no check: %s needs race, as in race,%s", int(text.size()), text.data(),
			    c.unwritten ? "unwritten" : "guard", c.unwritten ? "unwritten" : "guard");
	c.implied = c.race && c.timing == check_timing::plain;
	if (c.implied)
		c.timing = check_timing::late;
	*out = c;
	return 0;
}

std::string check_device(const check_words &c, const std::string &spec)
{
	const bool embedded = spec == "sim" || spec.starts_with("sim:");

	const size_t model = spec.find(":model=");
	const bool other = model != std::string::npos && !spec.substr(model).starts_with(":model=sdma");

	if (!embedded || (c.implied && other) || c.timing == check_timing::plain || spec.find(key) != std::string::npos)
		return spec;
	const std::string timed = spec + std::string(key) + std::string(timing_names[size_t(c.timing)]);
	return c.timing == check_timing::shuffle ? timed + timing_seed_mark + std::to_string(c.seed) : timed;
}

/* Other engines run when they do. A server has its own option. */
int check_allows(const check_words &c, string_view spec)
{
	const bool needed = c.guard || (!c.implied && c.timing >= check_timing::late);

	if (!needed || spec.starts_with("sim") || spec.starts_with("vfio-user:"))
		return 0;
	return fail(EINVAL, "check (USDMA_CHECK): device %.*s is no software device, as %s", int(spec.size()),
		    spec.data(), c.guard ? "guard needs" : "late and shuffle need");
}

check_timing check_timing_of(string_view spec)
{
	const size_t at = spec.find(key);
	const string_view value = at == string_view::npos ? "" : spec.substr(at + key.size());
	check_timing found = check_timing::plain;

	timing_named(value.substr(0, value.find_first_of(":@")), &found);
	return found;
}

} // namespace usdma::core
