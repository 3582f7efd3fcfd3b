/* SPDX-License-Identifier: BSD-3-Clause */
/* Merges settings: files, environment, the program's choices. */
#include "lib/core/config/config.h"

#include "driver/base/barrier.h"
#include "driver/base/cancel.h"
#include "driver/base/clock.h"
#include "driver/base/grow.h"
#include "driver/base/wakes.h"
#include "driver/base/words.h"
#include "driver/dma/registry.h"
#include "lib/core/config/config_file.h"
#include "lib/core/config/default_devices.h"
#include "lib/core/config/race.h"
#include "lib/core/base/slab.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace usdma::core {

/* Settings made by the program before the first use. */
struct choices {
	std::mutex lock;
	/* The settings in use; atomic; never freed, as threads may read them while the process exits. */
	config *in_use = nullptr;
	std::vector<std::pair<const setting *, std::string>> made;
};
static constinit no_destructor<choices> program;

void config_add_error(config *c, const std::string &text)
{
	if (!c->error.empty())
		c->error += "; ";
	c->error += text;
}

void config_add_warning(config *c, const std::string &text)
{
	c->warning += (c->warning.empty() ? "" : "; ") + text;
}

void config_note_lack(config *c, int err)
{
	if (err == EMFILE || err == ENFILE || err == ENOMEM)
		c->lacks = err;
}

/* ---- files ------------------------------------------------------------------------------------------- */

static std::string variable(const config_source &from, const char *name)
{
	const char *value = from.lookup(name, from.arg);

	return value ? value : "";
}

std::string config_user_file(const config_source &from)
{
	const std::string xdg = variable(from, "XDG_CONFIG_HOME"), home = variable(from, "HOME");

	/* The XDG base directory specification says to ignore relative paths. */
	if (xdg.starts_with('/'))
		return xdg + "/usdma/usdma.conf";
	return home.starts_with('/') ? home + "/.config/usdma/usdma.conf" : "";
}

static void read_files(config *c, const config_source &from)
{
	const std::string named = variable(from, "USDMA_CONFIG"), mine = config_user_file(from);

	if (!named.empty())
		return config_read_file(c, named, file_policy::must);
	config_read_file(c, from.system_file, file_policy::system);
	if (!mine.empty())
		config_read_file(c, mine, file_policy::home);
}

static void read_environment(config *c, const config_source &from)
{
	for (const setting &s : settings()) {
		const std::string name = setting_variable(s), value = variable(from, name.c_str());

		if (!value.empty() && !config_put(c, s, value, setting_from::environment, name))
			config_add_error(c, name + "=" + value + ": it takes " + setting_expects(s));
	}
	for (const setting &s : settings_of_tests()) {
		const std::string name = setting_variable(s), value = variable(from, name.c_str());

		if (!value.empty() && !setting_read(s, value, c))
			config_add_error(c, name + "=" + value + ": it takes " + setting_expects(s));
	}
	for (const auto &[old, instead] : settings_removed()) {
		const std::string name = environment_name(old);

		if (!variable(from, name.c_str()).empty())
			config_add_warning(c, name + " is ignored: there is no such setting any more: " + instead);
	}
}

/* ---- devices ----------------------------------------------------------------------------------------- */

/* Unless the string sets it by itself. */
static void add_option(std::string *spec, const char *key, const std::string &value)
{
	const std::string option = std::string(":") + key + "=";

	if (!value.empty() && spec->find(option) == std::string::npos)
		*spec += option + value;
}

std::string config_device(const config &c, std::string spec)
{
	dma::device_options options;
	std::string_view bare;
	std::string cpus;

	if (dma::parse_options(spec, &bare, &options))
		return spec; /* the error is that of its opening */
	const std::string behind = spec.substr(bare.size());
	spec.resize(bare.size());
	if (spec == "sim" || spec.starts_with("sim:")) {
		if (cpus_expand(c.sim_cpus, &cpus))
			add_option(&spec, "cpus", cpus);
		if (c.huge_pages != huge_mode::automatic)
			add_option(&spec, "huge", setting_show(*setting_find("huge_pages"), c));
	}
	return check_device(c.checks, spec) + behind;
}

static void check_devices(config *c)
{
	for (const std::string &spec : c->devices)
		if (check_allows(c->checks, spec))
			config_add_error(c, error_text());
}

static void choose_timing(config *c)
{
	if (check_parse(c->check, &c->checks))
		return config_add_error(c, std::string("check (USDMA_CHECK): ") + error_text());
	if (!c->checks.implied && c->checks.timing >= check_timing::late)
		check_devices(c);
	if (c->checks.drawn)
		config_add_warning(c, "USDMA_CHECK=shuffle:" + std::to_string(c->checks.seed) + " repeats this order");
}

static void choose_devices(config *c)
{
	if (c->device_list.empty())
		config_note_lack(c, default_devices(&c->devices));
	else if (dma::parse_list(c->device_list, &c->devices))
		config_add_error(c, "devices (USDMA_DEVICES) " + c->device_list + ": " + error_text());
	if (c->devices.size() > max_devices)
		config_add_error(c, "devices (USDMA_DEVICES): at most " + std::to_string(max_devices) + " devices");
	choose_timing(c);
	for (std::string &spec : c->devices)
		spec = config_device(*c, spec);
}

/* ---- hosts ------------------------------------------------------------------------------------------- */

static void check_host(config *c)
{
	u8 id[16];

	if (!c->host_id.empty() && !host_id_parse(c->host_id, id))
		config_add_error(c, "host_id (USDMA_HOST_ID) " + c->host_id +
					    ": it takes 32 hexadecimal digits, not all of them 0");
}

/* ---- together ---------------------------------------------------------------------------------------- */

static config fresh()
{
	config c;

	c.origins.resize(settings().size());
	return c;
}

/* own: the program's choices, with its lock held; nullptr: none. */
static config parse(const config_source &from, const choices *own)
{
	config c = fresh();

	read_files(&c, from);
	read_environment(&c, from);
	if (own)
		for (const auto &[s, value] : own->made)
			config_put(&c, *s, value, setting_from::program, "");
	check_host(&c);
	choose_devices(&c);
	return c;
}

config config_parse(const config_source &from)
{
	return parse(from, nullptr);
}

config config_parse_text(const std::string &path, const std::string &text)
{
	config c = fresh();

	config_read_text(&c, path, text);
	check_host(&c);
	choose_devices(&c);
	return c;
}

/* Setuid programs must ignore the caller's environment. */
const char *config_env(const char *name)
{
	return secure_getenv(name);
}

/* Without the detector the program opens no device: that nothing was reported would mean nothing. */
static void load_checks(config *c)
{
	if (!c->checks.race && !c->checks.strict)
		return;
	if (const int err = race_detector(&c->hooks)) {
		config_note_lack(c, -err);
		config_add_error(c, std::string("check (USDMA_CHECK): ") + error_text());
		c->checks.race = c->checks.strict = false;
	}
}

/* 0: read; else what is lacking. */
static int read_anew(config *made)
{
	if (!fits([&] {
		    *made = parse({}, &*program);
		    load_checks(made);
	    }))
		return ENOMEM;
	return made->lacks;
}

/* Reads and publishes the settings. 0, or the errno of what is lacking now: then none are published. */
[[gnu::cold]] static int take_into_use()
{
	const no_cancel scope;
	std::lock_guard guard(program->lock);

	if (program->in_use)
		return 0;
	std::unique_ptr<config> made = try_unique<config>();
	if (const int lacks = made ? read_anew(made.get()) : ENOMEM)
		return lacks;
	log_set_level(made->log);
	store_relaxed(&wake_late_ns, made->wake_late_ms * ns_per_ms);
	if (!made->warning.empty())
		log_warn("%s", made->warning.c_str());
	/* Release: readers see them initialized. */
	store_release(&program->in_use, made.release());
	return 0;
}

int config_ready()
{
	const int lacks = load_acquire(&program->in_use) ? 0 : take_into_use();

	if (lacks == ENOMEM)
		return no_memory("the settings");
	errno = lacks;
	return lacks ? fail_errno("the settings cannot be read") : 0;
}

/* nullptr: not now. */
[[gnu::cold]] static const config *taken_now()
{
	const saved_error before;

	take_into_use();
	before.again(0);
	return load_acquire(&program->in_use);
}

const config &config_get()
{
	static no_destructor<config> standard;
	const config *c = load_acquire(&program->in_use);

	if (unlikely(!c))
		c = taken_now();
	return likely(c) ? *c : *standard;
}

config setting_preview()
{
	const no_cancel scope;
	std::unique_lock guard(program->lock);

	if (!program->in_use)
		return parse({}, &*program);
	guard.unlock();
	return *program->in_use;
}

static int set(const char *name, const char *value)
{
	const setting *s = setting_find(name);
	config scratch;

	if (const char *const instead = s ? nullptr : setting_removed(name))
		return fail(ENOENT, "there is no setting \"%.60s\" any more: %s", name, instead);
	if (!s)
		return fail(ENOENT, "there is no setting \"%.60s\"; the most similar is %s (usdmactl info lists them)",
			    name, setting_nearest(name));
	if (!setting_read(*s, value, &scratch))
		return fail(EINVAL, "%s = \"%.60s\": it takes %s", s->name, value, setting_expects(*s).c_str());
	check_host(&scratch);
	scratch.device_list.empty() ? choose_timing(&scratch) : choose_devices(&scratch);
	if (!scratch.error.empty())
		return fail(EINVAL, "%s", scratch.error.c_str());
	std::lock_guard guard(program->lock);
	if (program->in_use)
		return fail(EBUSY,
			    "%s cannot be set any more: settings are fixed by the first call that counts or opens "
			    "devices, or of ACL; set it before that, or by %s",
			    s->name, setting_variable(*s).c_str());
	program->made.emplace_back(s, value);
	return 0;
}

int setting_set(const char *name, const char *value)
{
	return within_memory("a setting", [=] { return set(name, value); });
}

int setting_save_log(log_level level)
{
	const setting *s = setting_find("log");
	const int err = within_memory("a setting", [=] {
		config c;

		c.log = level;
		std::lock_guard guard(program->lock);
		if (!program->in_use)
			program->made.emplace_back(s, setting_show(*s, c));
		return 0;
	});

	if (!err)
		log_set_level(level);
	return err;
}

} // namespace usdma::core
