/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings. */
#include "lib/core/config/setting.h"

#include "driver/base/words.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

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
	words<&config::device_list>(
		"devices", setting_type::text,
		"devices, separated by commas; empty: those bound to vfio-pci, or else four of sim:mem=4G"),
	words<&config::sim_cpus>("sim_cpus", setting_type::cpus,
				 "CPUs of the engines of software devices, such as 2,3 or 2-5; empty: any"),
	words<&config::check>(
		"check", setting_type::text,
		"race: accesses without an order are reported; unwritten, with race: also reads of device memory that "
		"nothing wrote; guard, with race: also accesses by the CPU to pages that a copy uses; strict: what the "
		"documents of ACL forbid and the interface accepts; late, early or shuffle[:SEED]: hostile but legal "
		"timing of software devices, late with race; empty: none; report=FILE: reports are also appended there "
		"as lines of JSON; suppressions=FILE: reports that contain a line of it are left out; exit=N: exit "
		"status of a program of which something was reported (66), 0: its own"),
	choice<&config::wait>("wait", "poll interrupt hybrid",
			      "wait mode: spin, sleep at once, or spin for an adaptive time, then sleep"),
	number<&config::spin_us>("spin_us", 0, 1000000, "us", "longest time that a hybrid wait spins before it sleeps"),
	size<&config::direct_store_max>(
		"direct_store", 0, GiB,
		"pageable copies up to this size are made by the CPU, through the device's BAR; 0: none"),
	choice<&config::huge_pages>(
		"huge_pages", "auto off advise require",
		"pages of 2 MiB for pinned memory and that of software devices: reserved or else transparent ones, "
		"none, transparent ones, or reserved ones only"),
	number<&config::numa_node>("numa_node", -1, 1023, "", "NUMA node of pinned memory; -1: the device's"),
	size<&config::pool_size>("pool_size", 4 * KiB, window_slot,
				 "host memory provided to a device without memory of its own"),
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
	words<&config::net>("net", setting_type::text,
			    "interface or address by which this machine reaches others, and the ports: eth1, 10.0.0.1 "
			    "or eth1:18600-18699; empty: no other machine is reached, and nothing listens"),
	words<&config::net_key_file>(
		"net_key_file", setting_type::text,
		"file with the key that the programs of a job on several machines share: 32 bytes or more, "
		"readable by its owner alone"),
	words<&config::net_tls>("net_tls", setting_type::text, "transports that UCX may use between machines"),
	number<&config::net_lost_ms>("net_lost_ms", 300, day_ms, "ms",
				     "another machine that does not answer for this time is lost"),
	words<&config::host_id>("host_id", setting_type::text,
				"identity of this machine, 32 hexadecimal digits, the same in all programs that share "
				"its memory; empty: the kernel's, new with each boot"),
	choice<&config::log>("log", "none error warn info debug",
			     "what the library logs: nothing, or messages of this severity and above"),
};

/* For tests and developers: USDMA_TEST_NAME in the environment. Not in files, nor listed; the defaults are right. */
static constexpr setting test_settings[] = {
	choice<&config::pageable>(
		"pageable", "auto staging",
		"pageable copies longer than direct_store: by the CPU where the device says that its memory is the "
		"CPU's, or always through staging buffers"),
	size<&config::host_arena>("host_arena", 64 * KiB, 64 * GiB,
				  "size of the pieces in which pinned host memory is taken from the system"),
	number<&config::provide_memory>("lend_memory", 0, 1, "",
					"1: provide host memory also to devices with memory of their own"),
	number<&config::dump_memory>("dump_memory", 0, 1, "",
				     "1: core dumps include allocated device memory that the CPU can access"),
	number<&config::io_uring>("io_uring", 0, 1, "", "0: sleep in ppoll instead of io_uring"),
	number<&config::coalesce_count>("coalesce_count", 1, 65535, "",
					"callbacks and signals of a stream: completions for each interrupt"),
	number<&config::coalesce_us>(
		"coalesce_us", 0, 65535, "us",
		"callbacks and signals of a stream: longest time that coalesce_count delays an interrupt; 0: until "
		"the ring is empty"),
	number<&config::first_seq>("first_seq", 0, ~u64(0) >> 1, "", "first sequence number of channels, for tests"),
	number<&config::wake_late_ms>("wake_late_ms", 0, 60000, "ms",
				      "how late a signal may be until it counts as lost"),
};

/* Settings of earlier versions, and what decides instead. */
static constexpr std::pair<const char *, const char *> removed[] = {
	{"faults", "faults= in the device string"},
	{"check_report", "report=FILE in check"},
	{"check_suppressions", "suppressions=FILE in check"},
	{"check_exit", "exit=N in check"},
	{"trust", "trust= in the device string"},
	{"stripe", "a copy is made by one engine"},
	{"coalesce_count", "each callback has an interrupt"},
	{"coalesce_us", "each callback has an interrupt"},
	{"pageable", "the device says whether the CPU copies"},
	{"bounce_chunk", "the library chooses"},
	{"bounce_count", "the library chooses"},
	{"bounce_stores", "the length of the copy"},
	{"copy_rows", "the kind of CPU"},
	{"host_arena", "the library chooses"},
	{"lend_memory", "whether the device has memory"},
	{"dump_memory", "device memory is never dumped"},
	{"io_uring", "whether the kernel has it"},
	{"first_seq", "it was for tests"},
};

std::span<const setting> settings()
{
	return all_settings;
}

std::span<const setting> settings_of_tests()
{
	return test_settings;
}

static bool is_same(std::string_view name, const char *other)
{
	return name.size() == strlen(other) && !strncasecmp(name.data(), other, name.size());
}

const setting *setting_find(std::string_view name)
{
	for (const setting &s : all_settings)
		if (is_same(name, s.name))
			return &s;
	return nullptr;
}

const char *setting_removed(std::string_view name)
{
	for (const auto &[old, instead] : removed)
		if (is_same(name, old))
			return instead;
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

std::span<const std::pair<const char *, const char *>> settings_removed()
{
	return removed;
}

static std::string prefixed(const char *prefix, const char *setting)
{
	std::string name = prefix;

	for (const char *p = setting; *p; p++)
		name += char(toupper(static_cast<unsigned char>(*p)));
	return name;
}

std::string environment_name(const char *setting)
{
	return prefixed("USDMA_", setting);
}

std::string setting_variable(const setting &s)
{
	const bool for_tests = &s >= std::begin(test_settings) && &s < std::end(test_settings);

	return prefixed(for_tests ? "USDMA_TEST_" : "USDMA_", s.name);
}

} // namespace usdma::core
