/* SPDX-License-Identifier: BSD-3-Clause */
/* Lengths at which the library switches its copy routine: set by the CPU's features or by settings. */
#include "driver/copy/copy.h"
#include "lib/core/config/config.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <fmt/format.h>

namespace usdma::ctl {

/* null: never. */
static json length_json(u64 len)
{
	return len == ~u64(0) ? json() : json(len);
}

json thresholds_json()
{
	const core::config &c = core::config_get();
	const copy_tuning &t = copy_for_cpu();

	return {{"memmove_max", t.small_max},
		{"probe_from", length_json(t.probe_min)},
		{"stream_from", length_json(t.stream_min)},
		{"cached_below_ticks", t.hot_ticks},
		{"cached", t.medium_name},
		{"uncached", t.stream_name},
		{"uncached_to_staging", t.fetch_name},
		{"direct_store_max", c.direct_store_max},
		{"pageable", c.pageable == core::pageable_mode::automatic ? "auto" : "staging"}};
}

static void print_lengths(const std::string &lengths, const std::string &how)
{
	print_line(fmt::format("  {:<24} {}", lengths, how));
}

static void print_cpu(const json &j)
{
	const std::string cached = j["cached"], stream = j["uncached"];

	print_line("Copies by the CPU, by its features:");
	print_lengths("up to " + human_size(j["memmove_max"]), "memmove");
	if (j["probe_from"].is_null())
		return print_lengths("longer", cached);
	print_lengths("below " + human_size(j["probe_from"]), cached);
	print_lengths("up to " + human_size(j["stream_from"].get<u64>() - 1),
		      cached + " if the source is cached (probing some of");
	print_lengths(
		"", fmt::format("its lines takes below {} ticks), else as below", j["cached_below_ticks"].get<u64>()));
	print_lengths("longer", stream);
	print_lengths("uncached, to staging", j["uncached_to_staging"]);
}

void print_thresholds(const json &j)
{
	const u64 direct = j["direct_store_max"];
	const char *const longer = j["pageable"] == "auto" ? "by the CPU, or staged, as the device says" :
							     "through staging buffers";

	print_cpu(j);
	print_line("With the settings in force:");
	if (direct) {
		print_lengths("pageable, up to " + human_size(direct), "the CPU's own stores and loads (direct_store)");
		print_lengths("pageable, longer", longer);
	} else {
		print_lengths("pageable, any length", longer);
	}
	print_line("");
}

} // namespace usdma::ctl
