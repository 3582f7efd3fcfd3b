/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What changed since a saved result. A figure changed if the range of its repeats, from the least to the most, does not
 * overlap the saved one: nothing is assumed of how figures are distributed. For n repeats then and m now, equal speeds
 * appear to differ by chance in 2 of binomial(n + m, n) cases.
 */
#include "tools/perf/against.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <fmt/core.h>
#include <fstream>
#include <map>
#include <stdexcept>
#include <vector>

namespace usdma::perf {

using nlohmann::json;

namespace {

/* What a row measured; two rows are comparable if these are equal. */
constexpr const char *key_fields[] = {"set",         "from",       "to",        "way",          "api",
				      "wait",        "size",       "depth",     "batch",        "threads",
				      "streams",     "cold",       "processes", "load_percent", "offered_per_s",
				      "client_node", "engine_node"};

struct figure {
	const char *name, *text, *in;
	bool more_is_better;
};
constexpr figure figures[] = {
	{"gbps", "bandwidth", "GB/s", true}, {"p50_ns", "p50", "ns", false}, {"p99_ns", "p99", "ns", false}};

struct range {
	explicit range(std::vector<double> v) : n(unsigned(v.size()))
	{
		std::sort(v.begin(), v.end());
		least = v.front(), most = v.back(), median = v[v.size() / 2];
	}
	unsigned n;
	double least, most, median;
};

struct change {
	std::string row;
	const figure *of;
	range then, now;
	bool differs() const { return then.most < now.least || now.most < then.least; }
	bool better() const { return (now.median > then.median) == of->more_is_better; }
	double percent() const { return then.median > 0 ? (now.median / then.median - 1) * 100 : 0; }
};

} // namespace

/* The offered rate is a result where a percentage was requested. */
static bool is_key(const json &row, const char *field)
{
	return row.contains(field) &&
	       !(std::string_view(field) == "offered_per_s" && row.value("load_percent", json(0)) != json(0.0));
}

static std::string key_of(const json &row)
{
	std::string out;

	for (const char *field : key_fields)
		if (is_key(row, field))
			out += fmt::format("{}={} ", field, row[field].dump());
	return out;
}

/* For people: without fields that are as they usually are. */
static std::string name_of_row(const json &row)
{
	std::string out;

	for (const char *field : key_fields) {
		if (!is_key(row, field))
			continue;
		const json &v = row[field];
		const bool usual = v == json(0.0) || v == json(-1) || v == json(false) ||
				   (v == json(1) && std::string_view(field) != "size") || v == json("native");
		if (!usual)
			out += fmt::format("{}{} {}", out.empty() ? "" : ", ", field,
					   v.is_string() ? v.get<std::string>() : v.dump());
	}
	return out;
}

/* Rows of the same key, in their order. */
static std::multimap<std::string, const json *> rows_by_key(const json &doc)
{
	std::multimap<std::string, const json *> out;

	for (const json &row : doc["rows"])
		out.emplace(key_of(row), &row);
	return out;
}

/* Empty: the row has none. */
static std::vector<double> values_of(const json &row, const char *name)
{
	std::vector<double> out;

	if (row.contains("repeats") && row["repeats"].contains(name))
		for (const json &v : row["repeats"][name])
			if (v.is_number())
				out.push_back(v.get<double>());
	return out;
}

static void compare_rows(const json &then, const json &now, std::vector<change> &out)
{
	for (const figure &f : figures) {
		const std::vector<double> a = values_of(then, f.name), b = values_of(now, f.name);

		if (!a.empty() && !b.empty())
			out.push_back({name_of_row(now), &f, range(a), range(b)});
	}
}

/* ---- the file --------------------------------------------------------------------------------------- */

static bool is_result(const json &doc)
{
	if (!doc.is_object() || !doc.contains("rows") || !doc["rows"].is_array() || doc["rows"].empty())
		return false;
	return std::all_of(doc["rows"].begin(), doc["rows"].end(), [](const json &row) {
		return row.is_object() && row.contains("repeats") && row["repeats"].is_object();
	});
}

baseline::baseline(const std::string &file) : file_(file)
{
	std::ifstream in(file);

	doc_ = std::make_unique<json>(json::parse(in, nullptr, false));
	if (!is_result(*doc_))
		throw std::runtime_error(fmt::format(
			"--against: {} is no result of usdma-perf --json with rows and their repeats", file));
}

baseline::~baseline() = default;

/* ---- the comparison --------------------------------------------------------------------------------- */

/* Percent of pairs of equal figures whose ranges are apart by chance. */
static double by_chance(unsigned n, unsigned m)
{
	double choices = 1;

	for (unsigned i = 1; i <= n; i++)
		choices = choices * (m + i) / i;
	return 200 / choices;
}

static std::string number(const figure &f, double v)
{
	return f.more_is_better ? fmt::format("{:.2f}", v) : fmt::format("{:.0f}", v);
}

static std::string line_of(const change &c)
{
	const figure &f = *c.of;

	return fmt::format("{}\n         {}: {} ({} to {}) -> {} ({} to {}) {}: {:+.1f} %, {}\n", c.row, f.text,
			   number(f, c.then.median), number(f, c.then.least), number(f, c.then.most),
			   number(f, c.now.median), number(f, c.now.least), number(f, c.now.most), f.in, c.percent(),
			   c.better() ? "better" : "worse");
}

static json json_of(const change &c)
{
	const auto of = [](const range &r) { return json{{"median", r.median}, {"least", r.least}, {"most", r.most}}; };

	return {{"row", c.row},     {"figure", c.of->name},          {"then", of(c.then)},
		{"now", of(c.now)}, {"change_percent", c.percent()}, {"beyond_spread", c.differs()}};
}

static std::string machines(const json &then, const json &now)
{
	std::string out;

	for (const char *field : {"cpu", "kernel", "line_ns", "load"}) {
		const json a = then.value("machine", json::object()).value(field, json());
		const json b = now.value("machine", json::object()).value(field, json());

		if (a != b && (a.is_string() || b.is_string()))
			out += fmt::format("         {}: {} -> {}\n", field, a.dump(), b.dump());
	}
	return out;
}

static std::string summary(const std::vector<change> &all, size_t rows, size_t only_now)
{
	const size_t n = size_t(std::count_if(all.begin(), all.end(), [](const change &c) { return c.differs(); }));
	const range &a = all[0].then, &b = all[0].now;
	std::string out;

	out += fmt::format(
		"         {} of {} figures of {} rows changed beyond the spread: the ranges of their repeats\n"
		"         do not overlap ({} and {} repeats: {:.2g} % of equal figures by chance)\n",
		n, all.size(), rows, a.n, b.n, by_chance(a.n, b.n));
	if (only_now)
		out += fmt::format("         {} rows are not in that file\n", only_now);
	return out;
}

std::string baseline::compare(json &doc) const
{
	auto old = rows_by_key(*doc_);
	std::vector<change> all;
	size_t rows = 0, only_now = 0;
	std::string out = fmt::format("against  {}\n{}", file_, machines(*doc_, doc)), lines;

	for (const json &row : doc["rows"]) {
		const auto then = old.find(key_of(row));

		if (then == old.end()) {
			only_now++;
			continue;
		}
		compare_rows(*then->second, row, all);
		old.erase(then);
		rows++;
	}
	json changes = json::array();
	for (const change &c : all) {
		changes.push_back(json_of(c));
		lines += c.differs() ? line_of(c) : "";
	}
	doc["against"] = {
		{"file", file_}, {"figures", changes}, {"rows_only_here", only_now}, {"rows_only_there", old.size()}};
	if (all.empty())
		return out + "         no row of this measurement is in that file\n";
	return out + summary(all, rows, only_now) + lines;
}

} // namespace usdma::perf
