/* SPDX-License-Identifier: BSD-3-Clause */
/* The result of each pair, and the table of docs/reliability.md. */
#include "tests/integration/pairs.h"

namespace usdma::test::pairs {

/* ---- what is right ---------------------------------------------------------------------------------- */

using word = const char *;

static constexpr word returned = "- has returned", no_memory = "- has no such memory", own = "- frees it itself",
		      no_handle = "- has no handle";
static constexpr word done = "done", dropped = "dropped", some = "done, dropped", aborted = "later ECANCELED",
		      failed = "later EIO", lost = "later ENODEV", lost_too = "ENODEV, later ENODEV", ended = "EBADF",
		      ended_too = "done, EBADF", refused = "ECANCELED", refused_too = "done, ECANCELED",
		      nodev = "ENODEV", nodev_too = "done, ENODEV", broken = "EIO", freed = "done, EFAULT",
		      unpinned = "done, later EFAULT", late_too = "done, later ECANCELED";

struct row {
	sort is;
	point at;
	/* close, destroy, by force, abort, abort of device, loss, reset, cancellation, memory freed, others' calls */
	const char *results[10];
};

using enum sort;
using enum point;

static const row rows[] = {
	{work, gate, {dropped, done, dropped, aborted, aborted, lost, failed, returned, done, done}},
	{work, engine, {done, done, some, aborted, aborted, lost, failed, returned, done, done}},
	{slots, full, {ended, ended, refused, refused, refused, lost_too, failed, done, freed, done}},
	{batch, gate, {dropped, done, dropped, aborted, aborted, lost, failed, returned, unpinned, done}},
	{batch, full, {ended, ended, refused, refused, refused, lost_too, failed, done, freed, done}},
	{batch, page, {ended_too, ended_too, refused, refused, refused_too, lost_too, failed, done, freed, done}},
	{in, gate, {ended, ended, refused, refused, refused, nodev, broken, done, "EFAULT", done}},
	{in, engine, {done, done, done, aborted, done, nodev, broken, done, freed, done}},
	{in, page, {done, done, done, aborted, done, nodev, broken, done, freed, done}},
	{out, gate, {ended, ended, refused, refused, refused, nodev, broken, done, "EFAULT", done}},
	{out, engine, {done, done, done, aborted, done, nodev, broken, done, done, done}},
	{out, page, {done, done, done, aborted, done, done, done, done, done, done}},
	{sort::sync, engine, {done, done, done, done, done, nodev, broken, done, freed, done}},
	{sort::sync, page, {done, done, done, done, done, nodev, broken, done, freed, done}},
	{sort::file, gate, {dropped, done, dropped, aborted, aborted, lost, done, returned, done, done}},
	{sort::file, page, {some, done, some, aborted, aborted, lost, done, returned, done, done}},
	{file_sync, page, {done, done, done, done, done, done, done, done, done, done}},
	{wait, gate, {ended, done, refused, refused, refused, nodev, broken, done, done, done}},
	{wait, engine, {done, done, refused, refused, refused, nodev, broken, done, done, done}},
	{wait_device, gate, {ended, done, dropped, aborted, aborted, nodev, failed, done, done, done}},
	{wait_device, engine, {done, done, some, aborted, aborted, nodev, failed, done, done, done}},
	{wait_event, gate, {dropped, done, dropped, refused, refused, nodev, broken, done, done, done}},
	{wait_event, engine, {done, done, some, refused, refused, nodev, broken, done, done, done}},
	{host_func, gate, {done, done, dropped, aborted, aborted, lost, done, returned, done, done}},
	{host_func, page, {done, done, done, aborted, aborted, lost, done, returned, done, done}},
	{sort::signal, gate, {done, done, done, aborted, aborted, lost, done, returned, no_memory, done}},
	{sort::signal, engine, {done, done, done, aborted, done, done, done, returned, no_memory, done}},
	{completion, gate, {aborted, done, aborted, aborted, aborted, lost, failed, returned, done, done}},
	{completion, engine, {done, done, late_too, aborted, aborted, lost, failed, returned, done, done}},
	{memory, engine, {done, done, done, done, done, done, done, done, no_memory, done}},
	{memory, page, {ended_too, done, done, done, done, nodev_too, done, done, no_memory, done}},
	{unpin, gate, {dropped, done, dropped, aborted, aborted, lost, failed, done, own, unpinned}},
	{unpin, engine, {done, done, some, aborted, aborted, lost, failed, done, own, done}},
	{sort::destroy, gate, {ended, done, done, done, done, nodev, broken, done, done, done}},
	{sort::destroy, engine, {done, done, done, done, done, nodev, broken, done, done, done}},
	{sort::close, engine, {done, done, done, done, done, done, no_handle, done, no_memory, done}},
};

/* Cells that differ from their row, and those that fail: the defect's number in the review. */
struct exception {
	const char *call;
	point at;
	const char *disturbance, *results, *finding;
};

static const exception exceptions[] = {
	{"usdma_stream_call", page, "close", nullptr, "usdma_close does not wait for functions"},
	{"usdma_host_register", page, "memory freed", no_memory, nullptr},
	{"usdma_host_register", engine, "memory freed", no_memory, nullptr},
};

static size_t number_of(const disturbance &d)
{
	return size_t(&d - disturbances.data());
}

static const char *in_row(const call &c, point at, const disturbance &d)
{
	for (const row &r : rows)
		if (r.is == c.is && r.at == at)
			return r.results[number_of(d)];
	return "?";
}

static bool is_named(const disturbance &d, const char *name)
{
	return !strcmp(d.name, name);
}

bool returns_at_once(const call &c, point at)
{
	static constexpr size_t cancellation = 7;

	for (const row &r : rows)
		if (r.is == c.is && r.at == at)
			return r.results[cancellation] == returned;
	return false;
}

/* What this run cannot make, whatever the row says; nullptr: it can. */
static const char *not_here(const call &c, point at, const disturbance &d)
{
	const bool faults = has_faults();

	if (is_named(d, "stopped server") && !is_process())
		return "- the device is in the same process";
	if (!is_process() && device_string(0).find("engines=1:") == std::string::npos && (at == engine || at == full))
		return "- another engine goes on";
	if (is_named(d, "full eventfd") && strcmp(c.name, "usdma_stream_signal_fd"))
		return "- signals no eventfd";
	if ((is_named(d, "loss") || is_named(d, "reset") || is_named(d, "earlier failure")) && !faults)
		return "- the device has no faults on demand";
	if ((is_named(d, "loss") || is_named(d, "reset")) && is_process() && (at == engine || at == full))
		return "- a stopped process takes no rules";
	return nullptr;
}

/* An earlier failure is that of the stream: it is returned by its next wait, and once. */
static const char *after_failure(sort is)
{
	const bool no_stream_of_its_own = is == sort::sync || is == file_sync || is == memory;

	if (is == wait || is == wait_event || is == sort::destroy || is == sort::close)
		return broken;
	return no_stream_of_its_own ? done : failed;
}

static const char *results_of(const call &c, point at, const disturbance &d)
{
	if (!d.is(before))
		return in_row(c, at, d);
	return is_named(d, "earlier failure") ? after_failure(c.is) : done;
}

expected expected_of(const call &c, point at, const disturbance &d)
{
	const char *const no = not_here(c, at, d), *results = no ? no : results_of(c, at, d);

	for (const exception &e : exceptions)
		if (!no && !strcmp(e.call, c.name) && e.at == at && is_named(d, e.disturbance))
			return {e.results ? e.results : results, e.finding};
	return {results};
}

/* ---- the page --------------------------------------------------------------------------------------- */

static std::string replaced(std::string text, const std::string &what, const std::string &by)
{
	for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
		text.replace(at, what.size(), by);
	return text;
}

static std::string names_of(const row &r)
{
	std::string out;

	for (const call &c : calls)
		if (c.is == r.is && std::count(c.points.begin(), c.points.end(), r.at))
			out += (out.empty() ? "" : "; ") + replaced("`" + std::string(c.name), ", ", "`, ") +
			       (strstr(c.name, ", ") ? "" : "`");
	return out;
}

static std::string text_of(const char *results)
{
	return *results == '-' ? std::string("\u2013") : replaced(results, ", ", " or ");
}

static std::string line_of(const row &r)
{
	std::string out = "| " + names_of(r) + " | " + point_names[int(r.at)] + " |";

	for (const char *results : r.results)
		out += " " + text_of(results) + " |";
	return out + "\n";
}

/* Cells that are not as their row. */
static std::string other_cells()
{
	std::string out;

	for (const exception &e : exceptions)
		if (e.results && *e.results != '-')
			out += std::string("- ") + e.call + ", " + point_names[int(e.at)] + ", " + e.disturbance +
			       ": " + text_of(e.results) + "\n";
	return out;
}

std::string results_page()
{
	std::string head = "| calls | held by |", line = "|---|---|", all;

	for (const disturbance &d : disturbances)
		if (!d.is(before)) {
			head += std::string(" ") + d.name + " |";
			line += "---|";
		}
	for (const row &r : rows)
		all += line_of(r);
	return head + "\n" + line + "\n" + all + "\n" + other_cells();
}

} // namespace usdma::test::pairs
