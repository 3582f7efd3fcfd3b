/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/config.h"

#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "driver/base/words.h"
#include "driver/dma/registry.h"
#include "driver/hw/sdma_regs.h"
#include "driver/sim/fault_plan.h"
#include "driver/sim/models.h"
#include "driver/sim/recording.h"

#include <sched.h>

namespace usdma::sim {

using std::string_view;

static int set_mem(config &c, string_view v)
{
	return size_parse(v, &c.mem, min_mem, max_mem) && c.mem % 4096 == 0 ? 0 : -EINVAL;
}

static int set_u32(u32 *field, string_view v, u64 low, u64 high)
{
	u64 n;

	if (!number_parse(v, &n, low, high))
		return -EINVAL;
	*field = u32(n);
	return 0;
}

static int set_model(config &c, string_view v)
{
	const model_info *m = find_model(v);

	if (!m)
		return -EINVAL;
	c.model = m;
	return 0;
}

static int read_replay(const std::string &path, config *out)
{
	auto what = std::make_shared<recording>();

	if (const int err = recording_read(path, what.get()))
		return err;
	/* Of a driver with several models another one may have been named. */
	if (out->model->driver != what->driver && set_model(*out, what->driver))
		return fail(EINVAL, "%s: the report is of the driver %s, and there is no model for it", path.c_str(),
			    what->driver.c_str());
	out->replay = std::move(what);
	return 0;
}

int set_replay(const std::string &path, config *out)
{
	return within_memory("a report", [&] { return read_replay(path, out); });
}

static int set_channels(config &c, string_view v)
{
	c.channels_set = true;
	return set_u32(&c.channels, v, 1, sdma::max_channels);
}

static int set_engines(config &c, string_view v)
{
	c.engines_set = true;
	return set_u32(&c.engines, v, 1, max_engines);
}

static int set_nomem(config &c, string_view v)
{
	if (v != "0" && v != "1")
		return -EINVAL;
	c.has_mem = v == "0";
	return 0;
}

static int set_stale(config &c, string_view v)
{
	if (v != "0" && v != "1")
		return -EINVAL;
	c.stale = v == "1";
	return 0;
}

static int set_huge(config &c, string_view v)
{
	if (v != "off" && v != "advise" && v != "require")
		return -EINVAL;
	c.huge = v == "off" ? huge_pages::off : v == "advise" ? huge_pages::advise : huge_pages::require;
	return 0;
}

static int set_copy_rows(config &c, string_view v)
{
	static constexpr string_view words[] = {"auto", "1", "2", "4"};

	for (size_t i = 0; i < std::size(words); i++)
		if (v == words[i]) {
			c.copy_rows = usdma::copy_rows(i);
			return 0;
		}
	return -EINVAL;
}

static int set_files(config &c, string_view v)
{
	if (v != "memory" && v != "any")
		return -EINVAL;
	c.any_file = v == "any";
	return 0;
}

static int set_cpus(config &c, string_view v)
{
	std::vector<int> cpus;

	for (bool more = true; more;) {
		const size_t end = v.find_first_of("+,");
		u64 cpu;

		if (!number_parse(v.substr(0, end), &cpu, 0, CPU_SETSIZE - 1))
			return -EINVAL;
		cpus.push_back(int(cpu));
		more = end != string_view::npos;
		v.remove_prefix(more ? end + 1 : v.size());
	}
	c.cpus = std::move(cpus);
	return 0;
}

static int set_timing(config &c, string_view v)
{
	const size_t mark = v.find(timing_seed_mark);
	timing_kind kind;

	if (!timing_named(v.substr(0, mark), &kind) || (kind == timing_kind::shuffle) != (mark != string_view::npos))
		return -EINVAL;
	if (mark != string_view::npos && !number_parse(v.substr(mark + 1), &c.timing_seed))
		return -EINVAL;
	c.timing = kind;
	return 0;
}

static int set_faults(config &c, string_view v)
{
	/* Whether "die" is allowed is checked later; the rest of the grammar is checked here. */
	fault_plan check(true);
	const int err = check.set(v);

	if (!err) {
		c.faulty = true;
		c.faults = v;
	}
	return err;
}

struct key {
	string_view name;
	const char *takes; /* nullptr: the names of models */
	int (*set)(config &c, string_view v);
	bool size = false; /* the value is in bytes */
};

static constexpr key keys[] = {
	{"model", nullptr, set_model},
	{"mem", "a size from 64K to 16T in pages of 4K", set_mem, true},
	{"engines", "a number from 1 to 64", set_engines},
	{"channels", "a number from 1 to 1024", set_channels},
	{"spin", "microseconds from 0 to 10000000",
	 [](config &c, string_view v) { return set_u32(&c.spin_us, v, 0, max_spin_us); }},
	{"latency", "microseconds from 0 to 10000000",
	 [](config &c, string_view v) { return set_u32(&c.latency_us, v, 0, max_latency_us); }},
	{"rate", "bytes a second; 0 for no limit",
	 [](config &c, string_view v) { return size_parse(v, &c.rate) ? 0 : -EINVAL; }, true},
	{"timing", "plain, early, late or shuffle@SEED, see docs/checking.md", set_timing},
	{"cpus", "CPU numbers joined by +, such as 2+3", set_cpus},
	{"nomem", "0 or 1", set_nomem},
	{"stale", "0 or 1", set_stale},
	{"copy_rows", "auto, 1, 2 or 4", set_copy_rows},
	{"huge", "off, advise or require", set_huge},
	{"share", "a size from 4K",
	 [](config &c, string_view v) { return size_parse(v, &c.share, 4096) ? 0 : -EINVAL; }, true},
	{"files", "memory (memfds, tmpfs, hugetlbfs) or any", set_files},
	{"faults", "rules such as fail@3+drop-irq%2, see docs/reliability.md", set_faults},
};

/* "sdma, ioat … or NAME". */
static std::string model_names()
{
	const std::vector<std::string> names = model_list();
	std::string text;

	for (size_t i = 0; i < names.size(); i++)
		text += (!i ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
	return text;
}

static int bad(const key &k, string_view value)
{
	return fail(EINVAL, "sim: %.*s=%.*s is invalid: it takes %s%s%s", int(k.name.size()), k.name.data(),
		    int(value.size()), value.data(), k.takes ? k.takes : model_names().c_str(), k.size ? ": " : "",
		    k.size ? size_rule : "");
}

int parse_setting(string_view setting, config *out)
{
	const size_t eq = setting.find('=');
	const string_view name = setting.substr(0, eq);
	const string_view value = eq == string_view::npos ? string_view() : setting.substr(eq + 1);

	for (const key &k : keys)
		if (k.name == name) {
			const int err = k.set(*out, value);

			return err && err != -ENOMEM ? bad(k, value) : err;
		}
	return fail(EINVAL,
		    "sim: there is no setting \"%.*s\"; there are model, mem, engines, channels, spin, latency, "
		    "rate, timing, cpus, nomem, stale, copy_rows, huge, share, files, faults",
		    int(name.size()), name.data());
}

u32 channels_of(const config &cfg)
{
	return cfg.channels_set ? cfg.channels : cfg.model->channels;
}

/* Of a model whose registers act on access. */
static int check_plain(const config &cfg)
{
	const model_info &m = *cfg.model;
	const int len = int(m.name.size());

	if (cfg.timing != timing_kind::plain)
		return fail(EINVAL, "sim: timing= is for model=sdma; model=%.*s does not have it", len, m.name.data());
	if (cfg.channels_set && !m.max_channels)
		return fail(EINVAL, "sim: model=%.*s has the queues of the hardware: channels= is for other models",
			    len, m.name.data());
	if (cfg.channels_set && cfg.channels > m.max_channels)
		return fail(EINVAL, "sim: model=%.*s has at most %u channels", len, m.name.data(), m.max_channels);
	return 0;
}

int check_config(const config &cfg)
{
	return cfg.model->check ? cfg.model->check(cfg) : check_plain(cfg);
}

int parse_config(string_view spec, config *out)
{
	config cfg;

	if (spec != "sim" && !spec.starts_with("sim:"))
		return fail(EINVAL, "\"%.*s\" is not a software device (sim[:key=value]...)", int(spec.size()),
			    spec.data());
	for (spec.remove_prefix(3); !spec.empty();) {
		spec.remove_prefix(1);
		const size_t end = spec.find(':');
		const int err = parse_setting(spec.substr(0, end), &cfg);

		if (err)
			return err;
		spec.remove_prefix(end == string_view::npos ? spec.size() : end);
	}
	const int err = check_config(cfg);

	if (!err)
		*out = std::move(cfg);
	return err;
}

int check_device(string_view spec)
{
	dma::device_options options;
	std::string scheme;
	string_view bare;
	config cfg;
	int err = dma::parse_scheme(spec, &scheme);

	if (!err)
		err = dma::parse_options(spec, &bare, &options);
	return !err && scheme == "sim" ? parse_config(bare, &cfg) : err;
}

} // namespace usdma::sim
