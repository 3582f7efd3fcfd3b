/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/config.h"

#include "driver/base/error.h"
#include "driver/base/words.h"
#include "driver/hw/hisi_regs.h"
#include "driver/hw/ioat_regs.h"
#include "driver/hw/sdma_regs.h"
#include "driver/sim/fault_plan.h"

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
	static constexpr struct {
		string_view name;
		model_kind kind;
	} models[] = {{"sdma", model_kind::sdma},      {"ioat", model_kind::ioat}, {"ioat-3.3", model_kind::ioat},
		      {"dsa", model_kind::dsa},        {"dsa-2", model_kind::dsa}, {"hisi", model_kind::hisi},
		      {"hisi-hip09", model_kind::hisi}};

	for (const auto &m : models)
		if (v == m.name) {
			c.model = m.kind;
			c.ioat_version = v == "ioat-3.3" ? ioat::version_3_3 : ioat::version_3_2;
			c.dsa_version = v == "dsa-2" ? 0x200 : 0x100;
			c.hisi_revision = v == "hisi-hip09" ? hisi::revision_hip09 : hisi::revision_hip08;
			return 0;
		}
	return -EINVAL;
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
	const char *takes;
	int (*set)(config &c, string_view v);
	bool size = false; /* the value is in bytes */
};

static constexpr key keys[] = {
	{"model", "sdma, ioat, ioat-3.3, dsa, dsa-2, hisi or hisi-hip09", set_model},
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
	{"share", "a size", [](config &c, string_view v) { return size_parse(v, &c.share) ? 0 : -EINVAL; }, true},
	{"files", "memory (memfds, tmpfs, hugetlbfs) or any", set_files},
	{"faults", "rules such as fail@3+drop-irq%2, see docs/reliability.md", set_faults},
};

static int bad(const key &k, string_view value)
{
	return fail(EINVAL, "sim: %.*s=%.*s is invalid: it takes %s%s%s", int(k.name.size()), k.name.data(),
		    int(value.size()), value.data(), k.takes, k.size ? ": " : "", k.size ? size_rule : "");
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

u32 ioat_channels(const config &cfg)
{
	return cfg.channels_set ? cfg.channels : 1;
}

u32 dsa_queues(const config &cfg)
{
	return cfg.channels_set ? cfg.channels : most_dsa_queues;
}

static int check_foreign(const config &cfg, const char *name, u32 channels, u32 most)
{
	if (cfg.timing != timing_kind::plain)
		return fail(EINVAL, "sim: timing= is for model=sdma; model=%s does not have it", name);
	if (channels > most)
		return fail(EINVAL, "sim: model=%s has at most %u channels", name, most);
	return 0;
}

static int check_mistakes(const config &cfg)
{
	fault_plan check(true);

	check.makes_mistakes(false);
	return check.set(cfg.faults);
}

int check_config(const config &cfg)
{
	if (cfg.model == model_kind::ioat)
		return check_foreign(cfg, "ioat", ioat_channels(cfg), ioat::max_channels);
	if (cfg.model == model_kind::dsa)
		return check_foreign(cfg, "dsa", dsa_queues(cfg), most_dsa_queues);
	if (cfg.model == model_kind::hisi && cfg.channels_set)
		return fail(EINVAL, "sim: model=hisi has the queues of the hardware: channels= is for other models");
	if (cfg.model == model_kind::hisi)
		return check_foreign(cfg, "hisi", 0, 0);
	if (const int err = check_mistakes(cfg))
		return err;
	if (cfg.huge == huge_pages::require && cfg.mem % (2 * MiB))
		return fail(EINVAL, "sim: huge=require needs mem in whole pages of 2 MiB");
	if (cfg.engines > cfg.channels)
		return fail(EINVAL, "sim: %u engines need at least as many channels, and there are %u", cfg.engines,
			    cfg.channels);
	return 0;
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

} // namespace usdma::sim
