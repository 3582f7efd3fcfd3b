/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings. */
#include "lib/core/config/setting.h"

#include "driver/base/words.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace usdma::core {

template <auto member> static void put(config &c, s64 value, const std::string &)
{
	using field = std::remove_reference_t<decltype(c.*member)>;

	c.*member = static_cast<field>(value);
}

template <auto member> static s64 value(const config &c)
{
	return static_cast<s64>(c.*member);
}

template <auto member> static void put_text(config &c, s64, const std::string &text)
{
	c.*member = text;
}

template <auto member> static const std::string &text(const config &c)
{
	return c.*member;
}

/* Rows by type: name, range, unit, meaning. */
template <auto member>
static constexpr setting number(const char *name, s64 min, s64 max, const char *unit, const char *meaning)
{
	return {name, setting_type::number, min, max, nullptr, unit, meaning, put<member>, value<member>, nullptr};
}
template <auto member> static constexpr setting size(const char *name, u64 min, u64 max, const char *meaning)
{
	return {name,    setting_type::size, s64(min),      s64(max), nullptr, "bytes",
		meaning, put<member>,        value<member>, nullptr};
}
template <auto member> static constexpr setting choice(const char *name, const char *words, const char *meaning)
{
	return {name, setting_type::choice, 0, 0, words, "", meaning, put<member>, value<member>, nullptr};
}
template <auto member> static constexpr setting words(const char *name, setting_type type, const char *meaning)
{
	return {name, type, 0, 0, nullptr, "", meaning, put_text<member>, nullptr, text<member>};
}

static constexpr s64 day_ms = 86400000;

static constexpr setting all_settings[] = {
	words<&config::device_list>("devices", setting_type::text,
				    "devices, separated by commas; empty: those bound to vfio-pci, or else sim,sim"),
	words<&config::sim_cpus>("sim_cpus", setting_type::cpus,
				 "CPUs of the engines of software devices, such as 2,3 or 2-5; empty: any"),
	words<&config::faults>("faults", setting_type::text,
			       "faults to inject in software devices, such as fail@3+drop-irq%2"),
	words<&config::check>(
		"check", setting_type::text,
		"race: accesses without an order are reported; unwritten, with race: also reads of device memory that "
		"nothing wrote; guard, with race: also accesses by the CPU to pages that a copy uses; strict: what the "
		"documents of ACL forbid and the interface accepts; late, early or shuffle[:SEED]: hostile but legal "
		"timing of software devices, late with race; empty: none"),
	words<&config::check_report>("check_report", setting_type::text,
				     "file to which reports of check are appended as lines of JSON; empty: none"),
	words<&config::check_suppressions>(
		"check_suppressions", setting_type::text,
		"file with a text a line: reports of check that contain one are left out; empty: none"),
	number<&config::check_exit>("check_exit", 0, 255, "",
				    "exit status of a program of which check has reported something; 0: its own"),
	choice<&config::wait>("wait", "poll interrupt hybrid",
			      "wait mode: spin, sleep at once, or spin for an adaptive time, then sleep"),
	number<&config::spin_us>("spin_us", 0, 1000000, "us", "longest time that a hybrid wait spins before it sleeps"),
	number<&config::coalesce_count>("coalesce_count", 1, 65535, "",
					"callbacks and signals of a stream: completions for each interrupt"),
	number<&config::coalesce_us>(
		"coalesce_us", 0, 65535, "us",
		"callbacks and signals of a stream: longest time that coalesce_count delays an interrupt; 0: until "
		"the ring is empty"),
	size<&config::stripe>(
		"stripe", 0, u64(1) << 40,
		"copies between pinned and device memory from this size on are spread over a device's engines; 0: "
		"none"),
	choice<&config::pageable>(
		"pageable", "auto staging",
		"pageable copies longer than direct_store: by the CPU where the device says that its memory is the "
		"CPU's, or always through staging buffers"),
	size<&config::bounce_chunk>("bounce_chunk", 4 * KiB, GiB, "size of a staging buffer of a pageable copy"),
	number<&config::bounce_count>("bounce_count", 2, 64, "", "staging buffers of a pageable copy"),
	choice<&config::bounce_stores>(
		"bounce_stores", "auto cached nontemporal",
		"stores to staging buffers: non-temporal for copies longer than all of them, always cached, "
		"or always non-temporal"),
	choice<&config::copy_rows>("copy_rows", "auto 1 2 4",
				   "pages that a long CPU copy accesses in parallel: chosen by CPU, or this number"),
	size<&config::direct_store_max>(
		"direct_store", 0, GiB,
		"pageable copies up to this size are made by the CPU, through the device's BAR; 0: none"),
	size<&config::host_arena>("host_arena", 64 * KiB, 64 * GiB,
				  "size of the pieces in which pinned host memory is taken from the system"),
	choice<&config::huge_pages>(
		"huge_pages", "auto off advise require",
		"pages of 2 MiB for pinned memory and that of software devices: reserved or else transparent ones, "
		"none, transparent ones, or reserved ones only"),
	number<&config::numa_node>("numa_node", -1, 1023, "", "NUMA node of pinned memory; -1: the device's"),
	size<&config::pool_size>("pool_size", 4 * KiB, window_slot,
				 "host memory provided to a device without memory of its own"),
	number<&config::lend_memory>("lend_memory", 0, 1, "",
				     "1: provide host memory also to devices with memory of their own"),
	number<&config::dump_memory>("dump_memory", 0, 1, "",
				     "1: core dumps include allocated device memory that the CPU can access"),
	choice<&config::clear_memory>(
		"clear_memory", "never alloc open close",
		"device memory that may hold another user's data is cleared: never, when it is first allocated, all "
		"of it before the first allocation, or as first allocated and again when the device is closed"),
	size<&config::pin_limit>(
		"pin_limit", 0, u64(1) << 50,
		"most host memory that the program may pin at a time, allocated or registered; 0: as much as there is"),
	choice<&config::profile>("profile", "none 910B 910C 910B-25.5 910C-25.5",
				 "ACL calls that the product, or its driver 25.5, lacks answer 207000"),
	words<&config::refuse>("refuse", setting_type::text,
			       "ACL calls that answer 207000, such as aclrtMemcpyBatch,aclrtMemcpyBatchAsync"),
	number<&config::hang_ms>(
		"hang_ms", 1, day_ms, "ms",
		"a channel with work but without progress for this time is reset, then its device, which is lost if "
		"that fails, too"),
	number<&config::reply_ms>("reply_ms", 10, 600000, "ms",
				  "time limit for a reply of a device's server; after it the call fails, or the device "
				  "is lost"),
	choice<&config::trust>(
		"trust", "no checked yes",
		"memory shared with the servers of vfio-user devices: none, only memory that neither side can "
		"revoke, or any; a device string may override this"),
	number<&config::io_uring>("io_uring", 0, 1, "", "0: sleep in ppoll instead of io_uring"),
	number<&config::first_seq>("first_seq", 0, ~u64(0) >> 1, "", "first sequence number of channels, for tests"),
	choice<&config::log>("log", "none error warn info debug",
			     "what the library logs: nothing, or messages of this severity and above"),
};

std::span<const setting> settings()
{
	return all_settings;
}

const setting *setting_find(std::string_view name)
{
	for (const setting &s : all_settings)
		if (name.size() == strlen(s.name) && !strncasecmp(name.data(), s.name, name.size()))
			return &s;
	return nullptr;
}

const char *setting_nearest(const std::string &name)
{
	static constexpr size_t enough = 64; /* bound on the compared length */
	std::string start = name.substr(0, enough);

	for (char &ch : start)
		ch = char(tolower(static_cast<unsigned char>(ch)));
	return std::min_element(std::begin(all_settings), std::end(all_settings),
				[&](const setting &a, const setting &b) {
					return unlikeness(start, a.name) < unlikeness(start, b.name);
				})
		->name;
}

std::string setting_variable(const setting &s)
{
	std::string name = "USDMA_";

	for (const char *p = s.name; *p; p++)
		name += char(toupper(static_cast<unsigned char>(*p)));
	return name;
}

} // namespace usdma::core
