/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings from a fake environment and the test's own files. */
#include "tests/support/test.h"

#include "driver/base/words.h"
#include "driver/dma/registry.h"
#include "lib/core/config/setting.h"
#include "lib/core/config/default_devices.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using core::config;

using environment = std::map<std::string, std::string>;

static std::string dir;

static const char *get_variable(const char *name, void *arg)
{
	const auto &env = *static_cast<environment *>(arg);
	const auto it = env.find(name);

	return it == env.end() ? nullptr : it->second.c_str();
}

static std::string write_file(const std::string &name, const std::string &text)
{
	const std::string path = dir + "/" + name;
	FILE *f = fopen(path.c_str(), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text.data(), 1, text.size(), f), text.size());
	assert_int_equal(fclose(f), 0);
	return path;
}

/* Parses without a file, unless the environment names one. */
static config parse(environment env)
{
	env.try_emplace("USDMA_CONFIG", "/dev/null");
	env.try_emplace("USDMA_DEVICES", "sim");
	return core::config_parse({get_variable, &env, "/dev/null"});
}

static void assert_names(const config &c, const char *what)
{
	if (c.error.find(what) != std::string::npos)
		return;
	print_error("\"%s\" does not name \"%s\"\n", c.error.c_str(), what);
	assert_true(false);
}

static void defaults(void **)
{
	const config c = parse({}), fresh;

	assert_string_equal(c.error.c_str(), "");
	assert_int_equal(c.devices.size(), 1);
	assert_true(c.wait == fresh.wait && c.wait == core::wait_mode::hybrid);
	assert_int_equal(c.host_arena, 32 * MiB);
	assert_true(c.huge_pages == core::huge_mode::automatic);
	assert_true(c.io_uring);
}

static void checks(void **)
{
	static constexpr const char *good[][2] = {
		{"late", "sim:timing=late"},           {"early", "sim:timing=early"},
		{"shuffle:9", "sim:timing=shuffle@9"}, {"race", "sim:timing=late"},
		{"race,early", "sim:timing=early"},    {"shuffle:9,race", "sim:timing=shuffle@9"},
		{"race,unwritten", "sim:timing=late"}, {"unwritten,early,race", "sim:timing=early"},
		{"race,guard", "sim:timing=late"},     {"early,strict", "sim:timing=early"}};

	for (const auto &[value, device] : good) {
		const config c = parse({{"USDMA_CHECK", value}});

		assert_string_equal(c.error.c_str(), "");
		assert_string_equal(c.devices[0].c_str(), device);
		assert_true(core::check_timing_of(device) == c.checks.timing);
		assert_int_equal(c.checks.race, strstr(value, "race") != nullptr);
		assert_int_equal(c.checks.unwritten, strstr(value, "unwritten") != nullptr);
		assert_int_equal(c.checks.guard, strstr(value, "guard") != nullptr);
		assert_int_equal(c.checks.strict, strstr(value, "strict") != nullptr);
	}
	const config more = parse({{"USDMA_CHECK", "race,report=/a/b=c,exit=0,suppressions=x y"}});
	assert_string_equal(more.error.c_str(), "");
	assert_string_equal((more.checks.report + "|" + more.checks.suppressions).c_str(), "/a/b=c|x y");
	assert_int_equal(more.checks.exit, 0);
	assert_int_equal(parse({{"USDMA_CHECK", "race"}}).checks.exit, 66);
	for (const char *bad : {"race,report=", "race,exit=256", "race,exit=", "exit", "race,suppressions", "lat",
				"late,early", "late,", "shuffle:", "shuffle:x", "shuffle9", "guards", "race,race",
				"race,", "races", "race,unwritten,unwritten", "strict,strict"})
		assert_names(parse({{"USDMA_CHECK", bad}}), "there are race, unwritten and guard with race,");
	for (const char *alone : {"unwritten", "late,unwritten"})
		assert_names(parse({{"USDMA_CHECK", alone}}), "unwritten needs race");
	assert_names(parse({{"USDMA_CHECK", "guard,early"}}), "guard needs race, as in race,guard");
	const config drawn = parse({{"USDMA_CHECK", "shuffle"}});
	assert_non_null(strstr(drawn.warning.c_str(), ("shuffle:" + std::to_string(drawn.checks.seed)).c_str()));
	/* The device's own option has precedence. */
	assert_string_equal(parse({{"USDMA_CHECK", "late"}, {"USDMA_DEVICES", "sim:timing=early"}}).devices[0].c_str(),
			    "sim:timing=early");
	assert_names(parse({{"USDMA_CHECK", "late"}, {"USDMA_DEVICES", "0000:01:00.0"}}), "no software device");
	/* The timing that race implies is for devices that have it. */
	for (const char *other : {"sim:model=ioat", "sim:model=dsa", "sim:model=hisi", "0000:01:00.0"}) {
		const config c = parse({{"USDMA_CHECK", "race"}, {"USDMA_DEVICES", other}});

		assert_string_equal(c.devices[0].c_str(), other);
		assert_int_equal(core::check_allows(c.checks, other), 0);
	}
	assert_string_equal(parse({{"USDMA_CHECK", "race"}, {"USDMA_DEVICES", "sim:model=sdma"}}).devices[0].c_str(),
			    "sim:model=sdma:timing=late");
	for (const char *any : {"early", "race"})
		assert_string_equal(parse({{"USDMA_CHECK", any}, {"USDMA_DEVICES", "0000:01:00.0"}}).error.c_str(), "");
}

static void every_variable(void **)
{
	const config c = parse({{"USDMA_WAIT", "poll"},
				{"USDMA_SPIN_US", "7"},
				{"USDMA_DIRECT_STORE", "0"},
				{"USDMA_TEST_HOST_ARENA", "1G"},
				{"USDMA_HUGE_PAGES", "require"},
				{"USDMA_NUMA_NODE", "3"},
				{"USDMA_POOL_SIZE", "16M"},
				{"USDMA_HANG_MS", "123"},
				{"USDMA_TEST_FIRST_SEQ", "0xfffffff0"},
				{"USDMA_TEST_IO_URING", "0"},
				{"USDMA_CLEAR_MEMORY", "open"},
				{"USDMA_LOG", "debug"},
				{"USDMA_REPLY_MS", "250"},
				{"USDMA_PIN_LIMIT", "3G"},
				{"USDMA_PROFILE", "910C-25.5"},
				{"USDMA_NET", "eth1:18600-18699"},
				{"USDMA_NET_KEY_FILE", "/etc/usdma/key"},
				{"USDMA_NET_LOST_MS", "900"},
				{"USDMA_HOST_ID", "000102030405060708090a0b0c0d0eFF"},
				{"USDMA_REFUSE", "aclrtA,aclrtB"}});

	assert_string_equal(c.error.c_str(), "");
	assert_true(c.wait == core::wait_mode::poll && c.log == log_level::debug && !c.io_uring);
	assert_true(c.clear_memory == core::clear_mode::open);
	assert_int_equal(c.spin_us, 7);
	assert_int_equal(c.direct_store_max, 0);
	assert_int_equal(c.host_arena, GiB);
	assert_true(c.huge_pages == core::huge_mode::require);
	assert_int_equal(c.numa_node, 3);
	assert_int_equal(c.pool_size, 16 * MiB);
	assert_int_equal(c.hang_ms, 123);
	assert_int_equal(c.reply_ms, 250);
	assert_int_equal(c.first_seq, 0xfffffff0);
	assert_int_equal(c.pin_limit, 3 * GiB);
	assert_true(c.profile == core::product::ascend_910c_25);
	assert_string_equal(c.refuse.c_str(), "aclrtA,aclrtB");
	assert_string_equal(c.net.c_str(), "eth1:18600-18699");
	assert_string_equal(c.net_key_file.c_str(), "/etc/usdma/key");
	assert_string_equal(c.net_tls.c_str(), "tcp");
	assert_int_equal(c.net_lost_ms, 900);
}

static void identity_of_the_host(void **)
{
	const u8 bytes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255};
	u8 id[16];

	assert_true(host_id_parse("000102030405060708090a0b0c0d0eFF", id));
	assert_memory_equal(id, bytes, sizeof(id));
	for (const char *bad : {"1", "000102030405060708090a0b0c0d0eFg", "000102030405060708090a0b0c0d0e0f0",
				"00000000000000000000000000000000", "-00102030405060708090a0b0c0d0e0f"}) {
		assert_false(host_id_parse(bad, id));
		assert_names(parse({{"USDMA_HOST_ID", bad}}), "host_id (USDMA_HOST_ID)");
	}
}

static void bad_values_are_named(void **)
{
	const std::pair<const char *, const char *> bad[] = {
		{"USDMA_WAIT", "sometimes"},
		{"USDMA_PROFILE", "910A"},
		{"USDMA_PIN_LIMIT", "all"},
		{"USDMA_SPIN_US", "-1"},
		{"USDMA_SPIN_US", "1000001"},
		{"USDMA_SPIN_US", "5 "},
		{"USDMA_SPIN_US", "x"},
		{"USDMA_POOL_SIZE", "4KK"},
		{"USDMA_POOL_SIZE", "1"},
		{"USDMA_POOL_SIZE", "4X"},
		{"USDMA_TEST_HOST_ARENA", "99999999999999999999"},
		{"USDMA_TEST_HOST_ARENA", "18014398509481984K"},
		{"USDMA_HUGE_PAGES", "2"},
		{"USDMA_NUMA_NODE", "-2"},
		{"USDMA_LOG", ""},
		{"USDMA_SIM_CPUS", "2,"},
		{"USDMA_SIM_CPUS", "3-2"},
		{"USDMA_SIM_CPUS", "a"},
		{"USDMA_DEVICES", "sim,,sim"},
		{"USDMA_DEVICES", "gpu0"},
		{"USDMA_CONFIG", "/nonexistent/usdma.conf"},
		{"USDMA_REPLY_MS", "9"},
		{"USDMA_REPLY_MS", "600001"},
	};

	for (const auto &[name, value] : bad) {
		const config c = parse({{name, value}});

		if (!*value) { /* empty is unset */
			assert_string_equal(c.error.c_str(), "");
			continue;
		}
		assert_names(c, value);
	}
	const config two = parse({{"USDMA_WAIT", "x"}, {"USDMA_LOG", "y"}});
	assert_names(two, "USDMA_WAIT=x");
	assert_names(two, "USDMA_LOG=y");
	const config late = parse({{"USDMA_WAIT", "x"}, {"USDMA_SPIN_US", "9"}});
	assert_int_equal(late.spin_us, 9);
}

static void file_and_environment(void **)
{
	const std::string path = write_file("a.conf",
					    "# a comment\n\n  wait = poll   # here too\nspin_us=11\npool_size = 1M\n"
					    "devices = sim:mem=1G,sim\n");
	environment env = {{"USDMA_CONFIG", path}, {"USDMA_SPIN_US", "12"}};
	const config c = core::config_parse({get_variable, &env, "/dev/null"});

	assert_string_equal(c.error.c_str(), "");
	assert_true(c.wait == core::wait_mode::poll);
	assert_int_equal(c.spin_us, 12);
	assert_int_equal(c.pool_size, MiB);
	assert_int_equal(c.devices.size(), 2);
	assert_string_equal(c.devices[0].c_str(), "sim:mem=1G");
}

static void bad_file(void **)
{
	const std::string path = write_file("b.conf", "wait = poll\nnonsense\nspeed = high\nspin_us = no\n");
	const config c = parse({{"USDMA_CONFIG", path}});

	assert_names(c, "b.conf:2:");
	assert_names(c, "b.conf:3: no such setting: \"speed\"");
	assert_names(c, "b.conf:4: spin_us = \"no\"");
	assert_true(c.wait == core::wait_mode::poll);
	assert_names(parse({{"USDMA_CONFIG", dir}}), "cannot be read");
}

/* Settings of earlier versions: a warning that names the line, and what decides instead. */
static void removed_settings(void **)
{
	const std::string path = write_file("old.conf", "wait = poll\nStripe = 1M\ntrust = no\n");
	const config c = parse({{"USDMA_CONFIG", path}, {"USDMA_BOUNCE_CHUNK", "1M"}});

	assert_string_equal(c.error.c_str(), "");
	for (const char *part : {"old.conf:2: Stripe is ignored", "old.conf:3: trust is ignored",
				 "trust= in the device string", "USDMA_BOUNCE_CHUNK is ignored"})
		assert_non_null(strstr(c.warning.c_str(), part));
	assert_int_equal(core::settings().size(), 21);
	for (const auto &[name, instead] : core::settings_removed()) {
		assert_null(core::setting_find(name));
		assert_string_equal(core::setting_removed(name), instead);
	}
	assert_int_equal(core::setting_set("stripe", "1M"), -ENOENT);
	assert_non_null(strstr(error_text(), "one engine"));
}

static config parse_text(const std::string &text)
{
	return core::config_parse_text("t.conf", text);
}

static void lines_of_a_file(void **)
{
	const std::pair<std::string, const char *> bad[] = {
		{"wait poll", "t.conf:1: \"wait poll\" has no \"=\""},
		{"\n\n= 5", "t.conf:3: no such setting: \"\""},
		{"spin_us =", "spin_us = \"\": it takes microseconds, 0 to 1000000"},
		{"wait = sleep", "it takes poll, interrupt or hybrid"},
		{"direct_store = 2G", "it takes a size from 0 to 1G"},
		{"sim_cpus = 3-", "it takes a list of CPUs"},
		{"pool_sizes = 1M", "did you mean pool_size?"},
		{"USDMA_WAIT = poll", "did you mean wait?"},
		{"wait = poll\nlog = info\nWAIT = hybrid", "t.conf:3: wait is set in line 1 already"},
		{"devices = " + std::string(5000, 'x'), "longer than 4096"},
		{std::string("refuse = a\0b", 12), "refuse = \"a?b\""},
		{"devices = gpu0", "devices (USDMA_DEVICES) gpu0"},
		{std::string(1000, '\x1b') + "=1", "no such setting: \"????"},
	};

	for (const auto &[text, what] : bad)
		assert_names(parse_text(text), what);
	for (const char *good :
	     {"", "\n", "# only a comment", "wait = poll", "\twait\t=\tpoll\r\n", "wait=poll # why", "sim_cpus ="})
		assert_string_equal(parse_text(good).error.c_str(), "");
	/* The number of reported errors is limited. */
	std::string many;
	for (int i = 0; i < 1000; i++)
		many += "nonsense\n";
	assert_names(parse_text(many), "t.conf:10:");
	assert_names(parse_text(many), "the rest was not parsed");
	assert_null(strstr(parse_text(many).error.c_str(), "t.conf:11:"));
}

static void unreadable_files(void **)
{
	const std::string big = write_file("big.conf", std::string(300 * KiB, '#')), fifo = dir + "/fifo";

	assert_names(parse({{"USDMA_CONFIG", big}}), "larger than 256 KiB");
	assert_names(parse({{"USDMA_CONFIG", "/dev/zero"}}), "larger than 256 KiB");
	assert_names(parse({{"USDMA_CONFIG", dir}}), "Is a directory");
	/* A FIFO without a writer: a blocking read would wait forever. */
	assert_int_equal(mkfifo(fifo.c_str(), 0600), 0);
	assert_names(parse({{"USDMA_CONFIG", fifo}}), "cannot be read: Connection timed out");
}

static const core::setting_origin &origin(const config &c, const char *name)
{
	return core::setting_origin_of(*core::setting_find(name), c);
}

/* Precedence: the environment, the user's file, the system's file. */
static void precedence_of_sources(void **)
{
	const std::string system = write_file("system.conf", "wait = poll\nspin_us = 1\nhang_ms = 1\n");

	assert_int_equal(mkdir((dir + "/usdma").c_str(), 0700), 0);
	const std::string user = write_file("usdma/usdma.conf", "\nspin_us = 2\nhang_ms = 2\n");
	environment env = {{"XDG_CONFIG_HOME", dir}, {"USDMA_HANG_MS", "3"}, {"USDMA_DEVICES", "sim"}};
	const config c = core::config_parse({get_variable, &env, system.c_str()});
	assert_string_equal(c.error.c_str(), "");
	assert_true(c.wait == core::wait_mode::poll && c.spin_us == 2 && c.hang_ms == 3);
	assert_string_equal(origin(c, "wait").where.c_str(), (system + ":1").c_str());
	assert_string_equal(origin(c, "spin_us").where.c_str(), (user + ":2").c_str());
	assert_string_equal(origin(c, "hang_ms").where.c_str(), "USDMA_HANG_MS");
	assert_true(origin(c, "hang_ms").from == core::setting_from::environment);
	assert_true(origin(c, "log").from == core::setting_from::standard && origin(c, "log").where.empty());
	/* USDMA_CONFIG replaces both files. */
	env["USDMA_CONFIG"] = "/dev/null";
	const config n = core::config_parse({get_variable, &env, system.c_str()});
	assert_true(n.wait == core::wait_mode::hybrid && n.spin_us == 50 && n.hang_ms == 3);
	/* Without HOME, or if it is no absolute path, there is no user's file. */
	for (const char *home : {"", "here"}) {
		environment odd = {{"XDG_CONFIG_HOME", home}, {"HOME", home}};

		assert_string_equal(core::config_user_file({get_variable, &odd}).c_str(), "");
	}
}

/* Each shown value can be parsed again; each default is in its range. */
static void table(void **)
{
	const config c = parse({});
	config again;

	assert_int_equal(c.origins.size(), core::settings().size());
	for (const core::setting &s : core::settings()) {
		const std::string text = core::setting_show(s, c);

		assert_true(core::setting_find(s.name) == &s);
		assert_string_equal(core::setting_nearest(s.name), s.name);
		if (s.type != core::setting_type::text)
			assert_true(core::setting_read(s, text, &again));
		assert_string_equal(core::setting_show(s, again).c_str(),
				    (s.text ? core::setting_standard(s) : text).c_str());
		assert_true(*s.meaning && core::setting_expects(s) != "");
	}
	assert_null(core::setting_find("wait_"));
	assert_string_equal(core::setting_nearest("hugepage"), "huge_pages");
	assert_string_equal(core::setting_expects(*core::setting_find("wait")).c_str(), "poll, interrupt or hybrid");
	assert_string_equal(core::setting_variable(*core::setting_find("sim_cpus")).c_str(), "USDMA_SIM_CPUS");
}

static void huge_pages_of_sims(void **)
{
	const config c = parse({{"USDMA_HUGE_PAGES", "off"}, {"USDMA_DEVICES", "sim,sim:huge=require,vfio-user:/a"}});

	assert_string_equal(c.devices[0].c_str(), "sim:huge=off");
	assert_string_equal(c.devices[1].c_str(), "sim:huge=require");
	assert_string_equal(c.devices[2].c_str(), "vfio-user:/a");
}

/* The program's settings have precedence over the environment, until the settings are in use. */
static void settings_of_the_program(void **)
{
	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_DEVICES", "sim", 1);
	setenv("USDMA_SPIN_US", "5", 1);
	assert_int_equal(core::setting_preview().spin_us, 5);
	assert_int_equal(core::setting_set("spin_us", "6"), 0);
	assert_int_equal(core::setting_set("Spin_US", "7"), 0);
	assert_int_equal(core::setting_set("spinus", "7"), -ENOENT);
	assert_int_equal(core::setting_set("spin_us", "x"), -EINVAL);
	core::setting_save_log(log_level::error);
	assert_int_equal(core::setting_preview().spin_us, 7);
	assert_true(origin(core::setting_preview(), "spin_us").from == core::setting_from::program);
	assert_int_equal(core::config_get().spin_us, 7);
	assert_true(core::config_get().log == log_level::error);
	assert_int_equal(core::setting_set("spin_us", "8"), -EBUSY);
	assert_int_equal(core::setting_preview().spin_us, 7);
}

static void sim_cpus(void **)
{
	const config c = parse({{"USDMA_SIM_CPUS", "2,5-7"},
				{"USDMA_CHECK", "early"},
				{"USDMA_DEVICES", "sim,sim:cpus=9,vfio-user:/a,sim:mem=1G:isolated=yes"}});

	assert_string_equal(c.error.c_str(), "");
	assert_int_equal(c.devices.size(), 4);
	assert_string_equal(c.devices[0].c_str(), "sim:cpus=2+5+6+7:timing=early");
	assert_string_equal(c.devices[1].c_str(), "sim:cpus=9:timing=early");
	assert_string_equal(c.devices[2].c_str(), "vfio-user:/a");
	assert_string_equal(c.devices[3].c_str(), "sim:mem=1G:cpus=2+5+6+7:timing=early:isolated=yes");
}

/* A device that is opened by its name has the settings that those of the list have: its whole string is the same. */
static void device_by_name(void **)
{
	const config c = parse({{"USDMA_SIM_CPUS", "1"},
				{"USDMA_HUGE_PAGES", "off"},
				{"USDMA_CHECK", "late"},
				{"USDMA_DEVICES", "sim:mem=1G,vfio-user:/a"}});
	const char *whole = "sim:mem=1G:cpus=1:huge=off:timing=late";

	assert_string_equal(c.devices[0].c_str(), whole);
	assert_string_equal(core::config_device(c, "sim:mem=1G").c_str(), whole);
	assert_string_equal(core::config_device(c, whole).c_str(), whole);
	assert_string_equal(core::config_device(c, "vfio-user:/a").c_str(), "vfio-user:/a");
}

static void too_many_devices(void **)
{
	std::string list = "sim";

	for (int i = 0; i < 16; i++)
		list += ",sim";
	assert_names(parse({{"USDMA_DEVICES", list}}), "at most 16");
}

static void make_pci(const std::string &bus, const char *address, unsigned vendor, unsigned device)
{
	char text[16];

	assert_int_equal(mkdir((bus + "/" + address).c_str(), 0700), 0);
	snprintf(text, sizeof(text), "0x%04x\n", vendor);
	write_file("bus/" + std::string(address) + "/vendor", text);
	snprintf(text, sizeof(text), "0x%04x\n", device);
	write_file("bus/" + std::string(address) + "/device", text);
}

static void devices_by_default(void **)
{
	const std::string bus = dir + "/bus";

	std::vector<std::string> found;
	assert_int_equal(core::default_devices(&found, (dir + "/none").c_str()), ENOENT);
	assert_int_equal(found.size(), 4);
	assert_int_equal(mkdir(bus.c_str(), 0700), 0);
	assert_false(dma::drivers.empty());
	const dma::pci_id ours = dma::drivers[0]->ids[0];
	make_pci(bus, "0000:00:07.0", 0xfffe, 0xfffe);
	assert_int_equal(core::default_devices(&found, bus.c_str()), 0);
	assert_int_equal(found.size(), 4);
	assert_string_equal(found[3].c_str(), "sim:mem=4G");
	make_pci(bus, "0000:00:09.0", ours.vendor, ours.device);
	make_pci(bus, "0000:00:05.0", ours.vendor, ours.device);
	assert_int_equal(core::default_devices(&found, bus.c_str()), 0);
	assert_int_equal(found.size(), 2);
	assert_string_equal(found[0].c_str(), "0000:00:05.0");
	assert_string_equal(found[1].c_str(), "0000:00:09.0");
}

static int setup(void **)
{
	char name[] = "/tmp/usdma-config-XXXXXX";

	dir = mkdtemp(name) ? name : "";
	return dir.empty();
}

static int teardown(void **)
{
	return system(("rm -rf '" + dir + "'").c_str());
}

/* Runs in a child without privileges; 0: success. */
static int parse_without_rights(const std::string &home, const std::string &named)
{
	if (!geteuid() && (setgid(65534) || setuid(65534)))
		return 1;
	environment env = {{"USDMA_DEVICES", "sim"}, {"HOME", home}, {"USDMA_SPIN_US", "7"}};
	const config c = core::config_parse({get_variable, &env, "/dev/null"});
	if (!c.error.empty() || c.spin_us != 7)
		return 2;
	if (c.warning.find(home + "/.config/usdma/usdma.conf: cannot be read: Permission denied") == std::string::npos)
		return 3;
	/* A file named by USDMA_CONFIG is required. */
	env["USDMA_CONFIG"] = named;
	const config d = core::config_parse({get_variable, &env, "/dev/null"});
	return d.error.find("USDMA_CONFIG names it") != std::string::npos && d.warning.empty() ? 0 : 4;
}

/* After su, sudo and in daemons, HOME may be another user's. */
static void home_of_another_user(void **)
{
	const std::string home = dir + "/closed";
	int status = -1;

	assert_int_equal(mkdir(home.c_str(), 0700), 0);
	const std::string named = write_file("closed/own.conf", "wait = poll\n");
	assert_int_equal(chmod(home.c_str(), 0), 0);
	const pid_t pid = fork();
	if (!pid)
		_exit(parse_without_rights(home, named));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(chmod(home.c_str(), 0700), 0);
	assert_int_equal(unlink(named.c_str()), 0);
	assert_int_equal(rmdir(home.c_str()), 0);
	assert_int_equal(status, 0);
	/* A directory instead of the user's file is an error. */
	environment env = {{"USDMA_DEVICES", "sim"}, {"XDG_CONFIG_HOME", dir + "/xdg"}};
	assert_int_equal(mkdir((dir + "/xdg").c_str(), 0700), 0);
	assert_int_equal(mkdir((dir + "/xdg/usdma").c_str(), 0700), 0);
	assert_int_equal(mkdir((dir + "/xdg/usdma/usdma.conf").c_str(), 0700), 0);
	const config c = core::config_parse({get_variable, &env, "/dev/null"});
	assert_int_equal(rmdir((dir + "/xdg/usdma/usdma.conf").c_str()), 0);
	assert_int_equal(rmdir((dir + "/xdg/usdma").c_str()), 0);
	assert_int_equal(rmdir((dir + "/xdg").c_str()), 0);
	assert_names(c, "cannot be read");
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(checks),
		cmocka_unit_test(every_variable),
		cmocka_unit_test(identity_of_the_host),
		cmocka_unit_test(bad_values_are_named),
		cmocka_unit_test(file_and_environment),
		cmocka_unit_test(bad_file),
		cmocka_unit_test(removed_settings),
		cmocka_unit_test(lines_of_a_file),
		cmocka_unit_test(unreadable_files),
		cmocka_unit_test(precedence_of_sources),
		cmocka_unit_test(table),
		cmocka_unit_test(huge_pages_of_sims),
		cmocka_unit_test(settings_of_the_program),
		cmocka_unit_test(sim_cpus),
		cmocka_unit_test(device_by_name),
		cmocka_unit_test(too_many_devices),
		cmocka_unit_test(devices_by_default),
		cmocka_unit_test(home_of_another_user),
	};

	return cmocka_run_group_tests_name("config", tests, setup, teardown);
}
