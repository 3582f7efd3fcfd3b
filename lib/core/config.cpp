/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: one table of names, filled from the configuration file and then from the environment. */
#include "lib/core/config.h"

#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "lib/core/default_devices.h"
#include "lib/core/memory.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace usdma::core {

static constexpr const char *default_file = "/etc/usdma/usdma.conf";

/* What is read before it is put together. */
struct draft {
	config c;
	std::string devices, cpus, faults;
};

static void add_error(config &c, const std::string &text)
{
	if (!c.error.empty())
		c.error += "; ";
	c.error += text;
}

/* ---- values ------------------------------------------------------------------------------------------ */

static bool parse_number(const char *text, u64 min, u64 max, u64 *out, const char **rest = nullptr)
{
	char *end;

	if (!isdigit(static_cast<unsigned char>(*text)))
		return false;
	errno = 0;
	const u64 v = strtoull(text, &end, 0);
	if (errno || (!rest && *end) || v < min || v > max)
		return false;
	if (rest)
		*rest = end;
	*out = v;
	return true;
}

/* A number of bytes: 4096, 64K, 32M, 1G. */
static bool parse_size(const char *text, u64 min, u64 max, u64 *out)
{
	const char *unit;
	u64 v;

	if (!parse_number(text, 0, ~u64(0), &v, &unit))
		return false;
	const char *found = *unit ? strchr("KMG", toupper(static_cast<unsigned char>(*unit))) : nullptr;
	const unsigned shift = found ? 10 * unsigned(found - "KMG" + 1) : 0;
	if ((*unit && (!found || unit[1])) || v > ~u64(0) >> shift)
		return false;
	v <<= shift;
	*out = v;
	return v >= min && v <= max;
}

template <class T> static bool set_number(T *out, const char *text, u64 min, u64 max)
{
	u64 v;

	if (!parse_number(text, min, max, &v))
		return false;
	*out = T(v);
	return true;
}

static bool set_size(u64 *out, const char *text, u64 min, u64 max)
{
	u64 v;

	if (!parse_size(text, min, max, &v))
		return false;
	*out = v;
	return true;
}

static int parse_choice(const char *text, std::initializer_list<const char *> words)
{
	int i = 0;

	for (const char *w : words) {
		if (!strcmp(text, w))
			return i;
		i++;
	}
	return -1;
}

/* "2,3" or "2-5,8" → "2+3", "2+3+4+5+8", as a sim's cpus= option wants it. */
static bool set_cpus(std::string *out, const char *text)
{
	std::string list;
	u64 first, last;

	for (;; text++) {
		if (!parse_number(text, 0, 4095, &first, &text))
			return false;
		last = first;
		if (*text == '-' && !parse_number(text + 1, first, 4095, &last, &text))
			return false;
		for (u64 cpu = first; cpu <= last; cpu++)
			list += (list.empty() ? "" : "+") + std::to_string(cpu);
		if (*text != ',')
			break;
	}
	*out = list;
	return *text == '\0';
}

static bool set_wait(draft &d, const char *v)
{
	const int i = parse_choice(v, {"poll", "interrupt", "hybrid"});

	if (i >= 0)
		d.c.wait = wait_mode(i);
	return i >= 0;
}

static bool set_log(draft &d, const char *v)
{
	const int i = parse_choice(v, {"none", "error", "warn", "info", "debug"});

	if (i >= 0)
		d.c.log = log_level(i);
	return i >= 0;
}

/* ---- names ------------------------------------------------------------------------------------------- */

struct rule {
	const char *name;
	const char *wants; /* what a good value is */
	bool (*set)(draft &d, const char *value);
};

static constexpr rule rules[] = {
	{"DEVICES", "a list of devices",
	 [](draft &d, const char *v) {
		 d.devices = v;
		 return true;
	 }},
	{"SIM_CPUS", "a list of CPUs such as 2,3", [](draft &d, const char *v) { return set_cpus(&d.cpus, v); }},
	{"FAULTS", "rules such as fail@3+drop-irq%2",
	 [](draft &d, const char *v) {
		 d.faults = v;
		 return d.faults.find_first_of(":,") == std::string::npos;
	 }},
	{"WAIT", "poll, interrupt or hybrid", set_wait},
	{"SPIN_US", "microseconds, 0 to 1000000",
	 [](draft &d, const char *v) { return set_number(&d.c.spin_us, v, 0, 1000000); }},
	{"BOUNCE_CHUNK", "a size from 4K to 1G",
	 [](draft &d, const char *v) { return set_size(&d.c.bounce_chunk, v, 4 * KiB, GiB); }},
	{"BOUNCE_COUNT", "a number from 2 to 64",
	 [](draft &d, const char *v) { return set_number(&d.c.bounce_count, v, 2, 64); }},
	{"DIRECT_STORE", "a size from 0 to 1G",
	 [](draft &d, const char *v) { return set_size(&d.c.direct_store_max, v, 0, GiB); }},
	{"HOST_ARENA", "a size from 64K to 64G",
	 [](draft &d, const char *v) { return set_size(&d.c.host_arena, v, 64 * KiB, 64 * GiB); }},
	{"HUGE_PAGES", "0 or 1", [](draft &d, const char *v) { return set_number(&d.c.huge_pages, v, 0, 1); }},
	{"NUMA_NODE", "-1 or the number of a node",
	 [](draft &d, const char *v) {
		 if (strcmp(v, "-1"))
			 return set_number(&d.c.numa_node, v, 0, 1023);
		 d.c.numa_node = -1;
		 return true;
	 }},
	{"POOL_SIZE", "a size from 4K to 128G",
	 [](draft &d, const char *v) { return set_size(&d.c.pool_size, v, 4 * KiB, window_slot); }},
	{"LEND_MEMORY", "0 or 1", [](draft &d, const char *v) { return set_number(&d.c.lend_memory, v, 0, 1); }},
	{"HANG_MS", "milliseconds, 1 to 86400000",
	 [](draft &d, const char *v) { return set_number(&d.c.hang_ms, v, 1, 86400000); }},
	{"FIRST_SEQ", "a number below 2^63",
	 [](draft &d, const char *v) { return set_number(&d.c.first_seq, v, 0, ~u64(0) >> 1); }},
	{"IO_URING", "0 or 1", [](draft &d, const char *v) { return set_number(&d.c.io_uring, v, 0, 1); }},
	{"STRIPE_MIN", "a size", [](draft &d, const char *v) { return set_size(&d.c.stripe_min, v, 0, ~u64(0)); }},
	{"LOG", "none, error, warn, info or debug", set_log},
};

/* ---- the file ---------------------------------------------------------------------------------------- */

static std::string trimmed(const std::string &s)
{
	const size_t from = s.find_first_not_of(" \t\r\n"), to = s.find_last_not_of(" \t\r\n");

	return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

/* "" or what is wrong with the line. */
static std::string read_line(draft &d, std::string line)
{
	line = trimmed(line.substr(0, line.find('#')));
	if (line.empty())
		return "";
	const size_t eq = line.find('=');
	if (eq == std::string::npos)
		return "\"" + line + "\": key = value is wanted";
	const std::string key = trimmed(line.substr(0, eq)), value = trimmed(line.substr(eq + 1));
	for (const rule &r : rules) {
		if (strcasecmp(key.c_str(), r.name))
			continue;
		return r.set(d, value.c_str()) ? "" : key + " = " + value + ": " + r.wants + " is wanted";
	}
	return "no such setting: " + key;
}

static void read_file(draft &d, const char *path, bool must_exist)
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path, "re"), fclose);
	char line[4096];

	if (!file) {
		if (must_exist || errno != ENOENT)
			add_error(d.c, std::string(path) + ": cannot be read");
		return;
	}
	for (int n = 1; fgets(line, sizeof(line), file.get()); n++) {
		const std::string wrong = read_line(d, line);

		if (!wrong.empty())
			add_error(d.c, std::string(path) + ":" + std::to_string(n) + ": " + wrong);
	}
	if (ferror(file.get()))
		add_error(d.c, std::string(path) + ": cannot be read");
}

/* ---- together ---------------------------------------------------------------------------------------- */

static void read_environment(draft &d, config_lookup lookup, void *arg)
{
	for (const rule &r : rules) {
		const std::string name = std::string("USDMA_") + r.name;
		const char *value = lookup(name.c_str(), arg);

		if (value && *value && !r.set(d, value))
			add_error(d.c, name + "=" + value + ": " + r.wants + " is wanted");
	}
}

/* A setting of every embedded device that has none of its own. */
static void add_to_sims(config &c, const char *key, const std::string &value)
{
	const std::string setting = std::string(":") + key + "=";

	for (std::string &spec : c.devices)
		if (!value.empty() && (spec == "sim" || spec.starts_with("sim:")) && spec.find(setting) == std::string::npos)
			spec += setting + value;
}

static void choose_devices(draft &d)
{
	config &c = d.c;

	if (d.devices.empty())
		c.devices = default_devices();
	else if (dma::parse_list(d.devices, &c.devices))
		add_error(c, "USDMA_DEVICES=" + d.devices + ": " + error_text());
	if (c.devices.size() > max_devices)
		add_error(c, "USDMA_DEVICES: at most " + std::to_string(max_devices) + " devices");
	add_to_sims(c, "cpus", d.cpus);
	add_to_sims(c, "faults", d.faults);
}

config config_parse(config_lookup lookup, void *arg)
{
	const char *file = lookup("USDMA_CONFIG", arg);
	const bool named = file && *file;
	draft d;

	read_file(d, named ? file : default_file, named);
	read_environment(d, lookup, arg);
	choose_devices(d);
	return std::move(d.c);
}

const char *config_env(const char *name)
{
	return getenv(name);
}

const config &config_get()
{
	/* Never destroyed: threads may still ask while the process exits. */
	static const config &c = *[] {
		auto *made = new config(config_parse([](const char *name, void *) { return config_env(name); }, nullptr));

		log_set_level(made->log);
		return made;
	}();

	return c;
}

} // namespace usdma::core
