/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/recording.h"

#include "driver/base/bits.h"
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/unique_fd.h"
#include "driver/base/words.h"
#include "driver/vfio/device.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace usdma::sim {

using json = nlohmann::json;
using std::string_view;

static constexpr size_t most_steps = 64, most_accesses = 65536, most_name = 32;
/* As BARs are. */
static constexpr u64 most_offset = u64(1) << 40;

static bool is_name(string_view s)
{
	return !s.empty() && s.size() <= most_name &&
	       s.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == s.npos;
}

/* The next of some words with a blank between. */
static string_view take_word(string_view *text)
{
	const size_t end = std::min(text->find(' '), text->size());
	const string_view word = text->substr(0, end);

	text->remove_prefix(std::min(end + 1, text->size()));
	return word;
}

/* "r REGION OFFSET WIDTH VALUE [COUNT]" */
static bool parse_access(string_view text, recorded_access *out)
{
	const string_view kind = take_word(&text);
	u64 region, width, count = 1;

	if (kind != "r" && kind != "w")
		return false;
	out->is_write = kind == "w";
	if (!number_parse(take_word(&text), &region, 0, vfio::region_config) ||
	    !number_parse(take_word(&text), &out->offset, 0, most_offset) ||
	    !number_parse(take_word(&text), &width, 1, sizeof(u64)) || !number_parse(take_word(&text), &out->value))
		return false;
	if (!text.empty() && (out->is_write || !number_parse(take_word(&text), &count, 2, ~u32(0))))
		return false;
	out->region = u8(region);
	out->width = u8(width);
	out->count = u32(count);
	return text.empty() && is_pow2(width) && out->offset % width == 0 &&
	       (width == sizeof(u64) || !(out->value >> 8 * width));
}

static int parse_trace(const json &list, recorded_step *out)
{
	if (list.size() > most_accesses)
		return fail(EINVAL, "step %s has %zu accesses, and at most %zu are read", out->name.c_str(),
			    list.size(), most_accesses);
	for (const json &j : list) {
		recorded_access a;

		if (!j.is_string() || !parse_access(j.get_ref<const std::string &>(), &a))
			return fail(
				EINVAL,
				"step %s, access %zu is not \"r|w REGION OFFSET WIDTH VALUE [COUNT]\" of a register",
				out->name.c_str(), out->list.size() + 1);
		out->list.push_back(a);
	}
	return 0;
}

/* nullptr: there is none of this type. */
static const json *member(const json &j, const char *name, json::value_t type)
{
	const auto at = j.is_object() ? j.find(name) : j.end();

	return j.is_object() && at != j.end() && at->type() == type ? &*at : nullptr;
}

/* One that was left out is no step. */
static int parse_step(const json &j, recording *out)
{
	const json *name = member(j, "step", json::value_t::string), *ok = member(j, "ok", json::value_t::boolean);
	const json *list = member(j, "trace", json::value_t::array);
	const json *total = member(j, "accesses", json::value_t::number_unsigned);
	const json *in_flight = member(j, "in_flight", json::value_t::boolean);
	recorded_step step;
	u64 found = 0;

	if (!name || !is_name(name->get_ref<const std::string &>()))
		return fail(EINVAL, "step %zu has no name", out->steps.size() + 1);
	step.name = name->get<std::string>();
	if (member(j, "skipped", json::value_t::boolean))
		return 0;
	if (!ok || !list || !total || !in_flight)
		return fail(EINVAL, "step %s has no \"ok\", \"in_flight\", \"accesses\" or \"trace\"",
			    step.name.c_str());
	step.ok = ok->get<bool>();
	step.in_flight = in_flight->get<bool>();
	if (const int err = parse_trace(*list, &step))
		return err;
	for (const recorded_access &a : step.list) {
		found += a.count;
		out->regions |= 1u << a.region;
	}
	/* What the driver does after a failure is not recorded. */
	step.is_partial = !step.ok || found < total->get<u64>();
	out->steps.push_back(std::move(step));
	return 0;
}

static int parse_report(const json &j, recording *out)
{
	const json *format = member(j, "format", json::value_t::string);
	const json *version = member(j, "version", json::value_t::number_unsigned);
	const json *driver = member(j, "driver", json::value_t::string);
	const json *steps = member(j, "steps", json::value_t::array);

	if (!format || *format != "usdma-bringup" || !version || *version != 1)
		return fail(EINVAL, "it is no report of usdmactl bringup, version 1");
	if (!driver || !is_name(driver->get_ref<const std::string &>()))
		return fail(EINVAL, "it does not name a driver");
	if (!steps || steps->empty() || steps->size() > most_steps)
		return fail(EINVAL, "it has no steps, or more than %zu", most_steps);
	out->driver = driver->get<std::string>();
	for (const json &s : *steps)
		if (const int err = parse_step(s, out))
			return err;
	return out->steps.empty() ? fail(EINVAL, "all of its steps were left out") : 0;
}

int recording_parse(string_view text, recording *out)
{
	recording made;
	const json j = json::parse(text.begin(), text.end(), nullptr, false);

	if (j.is_discarded())
		return fail(EINVAL, "it is no JSON");
	const int err = parse_report(j, &made);
	if (!err)
		*out = std::move(made);
	return err;
}

static int read_all(int fd, std::string *out)
{
	struct stat st;

	if (fstat(fd, &st))
		return fail_errno("it cannot be read");
	if (!S_ISREG(st.st_mode) || u64(st.st_size) > most_recording)
		return fail(EINVAL, "it is no regular file of at most %zu MiB", most_recording >> 20);
	out->resize(size_t(st.st_size));
	for (size_t at = 0; at < out->size();) {
		const ssize_t n = read(fd, out->data() + at, out->size() - at);

		if (n < 0)
			return fail_errno("it cannot be read");
		if (!n)
			out->resize(at);
		at += size_t(n);
	}
	return 0;
}

int recording_read(const std::string &path, recording *out)
{
	/* A pipe without a writer must not block. */
	unique_fd fd(fd_above_stdio(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
	std::string text;
	int err = fd.valid() ? 0 : fail_errno("it cannot be opened");

	if (!err)
		err = read_all(fd.get(), &text);
	if (!err)
		err = recording_parse(text, out);
	return err ? fail_in(err, "%s", path.c_str()) : 0;
}

} // namespace usdma::sim
