/* SPDX-License-Identifier: BSD-3-Clause */
/* usdmactl: devices from the command line. */
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/dma/registry.h"
#include "driver/pci/address.h"
#include "driver/sim/config.h"
#include "driver/sim/console.h"
#include "lib/core/config/check_words.h"
#include "tools/choice.h"
#include "tools/complete.h"
#include "tools/help.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>

using namespace usdma::ctl;

namespace {

struct arguments {
	context ctx;
	bool all = false;
	std::string device;
	bind_options bind;
	selftest_options selftest;
	bringup_options bringup;
	stat_options stat;
	tune_options tune;
	sim_options sim;
	share_options share;
	check_options check;
	net_options net;
	std::string folder;
	int status = exit_ok;
};

CLI::App *command(CLI::App &app, const char *name, const char *about, const char *examples)
{
	CLI::App *sub = app.add_subcommand(name, about);

	sub->footer(std::string("Examples:\n") + examples);
	return sub;
}

/* It is not opened. */
CLI::Validator device_string()
{
	return CLI::Validator(
		[](std::string &text) -> std::string {
			return usdma::sim::check_device(text) ? usdma::error_text() : "";
		},
		"", "device");
}

CLI::Validator pci_address()
{
	return CLI::Validator(
		[](std::string &text) -> std::string {
			usdma::pci::address address;

			return usdma::pci::address_parse(text, &address) ? usdma::error_text() : "";
		},
		"", "address");
}

void add_device(CLI::App *sub, std::string &where, bool required = true)
{
	sub->add_option("DEVICE", where,
			"DDDD:BB:DD.F, vfio-user:PATH[:trust=no|checked|yes] or sim[:…], each with [:isolated=yes]")
		->required(required)
		->check(device_string())
		->type_name("");
}

void add_address(CLI::App *sub, std::string &where)
{
	sub->add_option("DEVICE", where, "DDDD:BB:DD.F")->required()->check(pci_address())->type_name("PCI");
}

void add_list(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "list", "List the usable devices and their locations",
				"  usdmactl list\n  usdmactl list --json | jq '.[].address'");

	sub->add_flag("--all", a.all, "Every PCI function");
	sub->callback([&a] { a.status = run_list(a.ctx, a.all); });
}

void add_binds(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "bind", "Bind a device to vfio-pci for programs to use",
				"  sudo usdmactl bind 0000:03:00.0\n  usdmactl bind 0000:03:00.0 --dry-run");

	add_address(sub, a.bind.device);
	sub->add_option("--driver", a.bind.driver, "Another VFIO driver than vfio-pci")->type_name("NAME");
	sub->add_flag("-n,--dry-run", a.bind.dry_run, "Check and report, change nothing");
	sub->callback([&a] { a.status = run_bind(a.ctx, a.bind); });

	sub = command(app, "unbind", "Bind a device to its former driver again", "  sudo usdmactl unbind 0000:03:00.0");
	add_address(sub, a.bind.device);
	sub->add_flag("-n,--dry-run", a.bind.dry_run, "Check and report, change nothing");
	sub->callback([&a] { a.status = run_unbind(a.ctx, a.bind); });
}

void add_info(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(
		app, "info", "Show a device's properties, or the settings in force",
		"  usdmactl info\n  usdmactl info 0000:03:00.0\n  usdmactl info vfio-user:/run/dev.sock --json");

	add_device(sub, a.device, false);
	sub->callback([&a] { a.status = run_info(a.ctx, a.device); });

	sub = command(app, "doctor", "Check the machine, and show how to fix it",
		      "  usdmactl doctor\n  usdmactl doctor --json | jq -r '.checks[].fix // empty'\n"
		      "Exit status 0: nothing failed; 1: a check failed.");
	sub->callback([&a] { a.status = run_doctor(a.ctx); });
}

void add_tests(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "reset", "Reset a device that is not in use", "  usdmactl reset 0000:03:00.0");

	add_device(sub, a.device);
	sub->callback([&a] { a.status = run_reset(a.ctx, a.device); });

	sub = command(app, "selftest", "Copy on a device by every path, and verify",
		      "  usdmactl selftest sim\n  usdmactl selftest 0000:03:00.0 --file in.bin --out back.bin");
	add_device(sub, a.selftest.device);
	sub->add_option("--size", a.selftest.size, "Bytes of one copy (64K, 1M; default: by the device's memory)")
		->transform(usdma::tool::size_in("1", "1T"))
		->type_name("SIZE");
	CLI::Option *file = sub->add_option("--file", a.selftest.file, "Also copy a file through the device")
				    ->type_name("PATH");
	CLI::Option *out = sub->add_option("--out", a.selftest.out, "Write the result of --file here")
				   ->type_name("PATH");
	file->needs(out);
	out->needs(file);
	sub->callback([&a] { a.status = run_selftest(a.ctx, a.selftest); });
}

/* A step of bringup that may be left out. */
CLI::Validator skippable_step()
{
	const CLI::Validator steps = usdma::tool::word_of(bringup_step_names(false));

	return CLI::Validator(
		[steps, needed = bringup_step_names(true)](std::string &word) -> std::string {
			if (std::find(needed.begin(), needed.end(), word) == needed.end())
				return steps(word);
			return "\"" + word + "\" cannot be skipped: the steps after it use what it opens";
		},
		"", steps.get_name());
}

void add_bringup(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "bringup", "Try a device step by step, and write a report",
				"  sudo usdmactl bringup 0000:03:00.0\n"
				"  usdmactl bringup sim:model=ioat --copies 1000 --report ioat.json\n"
				"It stops at the first step that is not as expected. The report has each access to\n"
				"a register; usdma-sim --replay answers as that device did.\n"
				"Exit status 0: all is as expected; 1: something is not.");

	add_device(sub, a.bringup.device);
	sub->add_option("--copies", a.bringup.copies, "Copies of the last step (default 1000000)")
		->type_name("N")
		->check(usdma::tool::number_in(1L, LONG_MAX));
	sub->add_option("--report", a.bringup.file,
			"Write the report here, and as text to FILE.txt (default usdma-bringup.json)")
		->type_name("FILE");
	sub->add_option("--accesses", a.bringup.accesses,
			"Accesses to registers that are saved of a step (default 1024)")
		->type_name("N")
		->check(usdma::tool::number_in(1, 65536));
	sub->add_option("--seed", a.bringup.seed, "Of lengths, addresses and data (default 1)")->type_name("N");
	sub->add_option("--skip", a.bringup.skip, "Leave this step out; may be repeated")
		->type_name("STEP")
		->check(skippable_step());
	sub->callback([&a] { a.status = run_bringup(a.ctx, a.bringup); });
}

void add_stat(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "stat", "Live counters of the processes that use usdma",
				"  usdmactl stat\n  usdmactl stat --pid 4711 --interval 0.2\n"
				"  usdmactl stat --json --count 1 | jq '.processes[].bytes'");

	sub->add_option("--pid", a.stat.pid, "Only this process")
		->type_name("PID")
		->check(usdma::tool::number_in(1, INT_MAX));
	sub->add_option("--interval", a.stat.interval, "Seconds between two samples (default 1)")
		->type_name("S")
		->check(usdma::tool::number_in(0.01, 3600.0));
	sub->add_option("--count", a.stat.count, "Exit after N tables")
		->type_name("N")
		->check(usdma::tool::number_in(1, INT_MAX));
	sub->callback([&a] { a.status = run_stat(a.ctx, a.stat); });
}

void add_sim(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "sim", "Make a running usdma-sim fail or vanish",
				"  usdma-sim --socket /tmp/dev --control /tmp/ctl &\n"
				"  usdmactl sim /tmp/ctl faults 'fail@3+drop-irq%2'\n"
				"  usdmactl sim /tmp/ctl state\n"
				"  usdmactl sim /tmp/ctl vanish 500\n"
				"Commands: state, faults [RULES], clear, vanish [MS], return, help.\n"
				"The rules are in docs/reliability.md.");

	const std::vector<std::string> words(std::begin(usdma::sim::console_words),
					     std::end(usdma::sim::console_words));
	sub->add_option("CONTROL_SOCKET", a.sim.socket, "The path given to usdma-sim --control")
		->required()
		->type_name("PATH");
	sub->add_option("COMMAND", a.sim.command, "One of the commands below")
		->required()
		->type_name("")
		->check(usdma::tool::word_of(words));
	sub->add_option("ARGUMENT", a.sim.argument, "RULES or MS")->type_name("");
	sub->callback([&a] { a.status = run_sim(a.ctx, a.sim); });
}

void add_share(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "share", "List the clients of a shared device",
				"  usdma-sim --backend 0000:01:00.0 --socket /tmp/dev --control /tmp/ctl &\n"
				"  usdmactl share /tmp/ctl\n"
				"  usdmactl share /tmp/ctl weight 1000 4\n"
				"  usdmactl share /tmp/ctl reload /etc/usdma/share-0000:01:00.0.conf\n"
				"Commands: state, drain, return, weight USER N, client NUMBER N, reload FILE, help.");

	sub->add_option("CONTROL_SOCKET", a.share.socket, "The path given to usdma-sim --control")
		->required()
		->type_name("PATH");
	sub->add_option("COMMAND", a.share.words, "One of the commands below, with its arguments (default: state)")
		->type_name("");
	sub->callback([&a] { a.status = run_share(a.ctx, a.share); });
}

CLI::Validator timing_word()
{
	return CLI::Validator(
		[](std::string &text) -> std::string {
			usdma::core::check_words w;
			const bool one = text.find(',') == text.npos && !usdma::core::check_parse(text, &w);

			if (one && !w.race && w.timing != usdma::core::check_timing::plain)
				return "";
			return "\"" + text + "\": it takes late, early or shuffle:SEED";
		},
		"", "timing");
}

/* The setting check separates its words by commas. */
CLI::Validator path_without_comma()
{
	return CLI::Validator(
		[](std::string &path) -> std::string {
			return path.find(',') == path.npos ? "" : "\"" + path + "\": the path must not have a comma";
		},
		"", "path");
}

void add_check(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "check", "Run a program, and report accesses without an order",
				"  usdmactl check -- ./kv_test --blocks 64\n"
				"  usdmactl check --timing shuffle:7 --report races.json -- python3 serve.py\n"
				"Exit status 66: something was reported; else the program's.");

	sub->add_option("--timing", a.check.timing, "late, early or shuffle:SEED (default late)")
		->check(timing_word())
		->type_name("WORD");
	sub->add_flag("--unwritten", a.check.unwritten, "Report reads of device memory that nothing wrote, too");
	sub->add_flag("--guard", a.check.guard, "Report accesses by the CPU to pages that a copy uses, too");
	sub->add_option("--report", a.check.report, "Leave the reports here, as lines of JSON")
		->check(path_without_comma())
		->type_name("FILE");
	sub->add_option("--suppressions", a.check.suppressions, "Reports that contain a line of this are left out")
		->check(CLI::ExistingFile)
		->check(path_without_comma())
		->type_name("");
	sub->add_option("PROGRAM", a.check.program, "The program and its arguments, behind --")
		->required()
		->type_name("");
	sub->callback([&a] { a.status = run_check(a.ctx, a.check); });
}

void add_tune(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(
		app, "tune", "Measure which settings suit this machine",
		"  usdmactl tune\n  sudo usdmactl tune --write\n  usdmactl tune --write my.conf && export "
		"USDMA_CONFIG=my.conf\n"
		"  usdmactl tune --json > a.json; sudo usdmactl tune --from a.json --write");
	CLI::Option *write = sub->add_option("--write", a.tune.file, "Write them to the configuration file")
				     ->type_name("[FILE]")
				     ->expected(0, 1);

	sub->add_option("--from", a.tune.from, "Use the output of an earlier --json instead of measuring")
		->type_name("FILE");
	sub->add_option("--device", a.tune.device, "Measure on this device (default: a software device)")
		->check(device_string())
		->type_name("DEVICE");
	sub->callback([&a, write] {
		a.tune.write = write->count() > 0;
		a.status = run_tune(a.ctx, a.tune);
	});
}

void add_net(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "net", "Measure the link to another machine, or say what is wrong",
				"  export USDMA_NET=eth1 USDMA_NET_KEY_FILE=job.key\n"
				"  usdmactl net --listen           # there\n"
				"  usdmactl net 10.0.0.2           # here\n"
				"  usdmactl net 10.0.0.2 --json | jq '.bandwidth[-1].gb_per_s'\n"
				"Both machines need the same key file (docs/hosts.md).");

	CLI::Option *to = sub->add_option("ADDRESS", a.net.address, "The other machine: HOST, HOST:PORT or [IPv6]:PORT")
				  ->type_name("");
	CLI::Option *listen = sub->add_flag("--listen", a.net.listen, "Be the other machine, until interrupted");
	listen->excludes(to);
	sub->add_option("--port", a.net.port, "Port of the control connection (default: the first of the setting net)")
		->type_name("N")
		->check(usdma::tool::number_in(1, 65535));
	sub->add_option("--seconds", a.net.seconds, "Of each size (default 0.3)")
		->type_name("S")
		->check(usdma::tool::number_in(0.001, 3600.0));
	sub->add_option("--largest", a.net.largest, "Bytes of the largest message (default 64M)")
		->transform(usdma::tool::size_in("64K", "64M"))
		->type_name("SIZE");
	sub->callback([&a, to] {
		if (!a.net.listen && !to->count())
			throw CLI::RequiredError("ADDRESS or --listen");
		a.status = run_net(a.ctx, a.net);
	});
}

std::vector<std::string> device_addresses()
{
	std::vector<candidate> found;
	std::vector<std::string> out;

	find_candidates({}, false, &found);
	out.reserve(found.size());
	for (const candidate &c : found)
		out.push_back(usdma::pci::address_format(c.fn.addr));
	return out;
}

void add_ascend(CLI::App &app, arguments &a)
{
	CLI::App *sub = command(app, "npu-smi", "Show the devices as \"npu-smi info\" does",
				"  usdmactl npu-smi\n  usdmactl npu-smi --json | jq '.[].processes'");

	sub->callback([&a] { a.status = run_npu_smi(a.ctx); });
	sub = command(app, "ascend-home", "Make a folder laid out as a CANN installation",
		      "  usdmactl ascend-home ~/ascend && . ~/ascend/set_env.sh\n"
		      "It has include, lib64 and their like as links to this installation, set_env.sh,\n"
		      "version.cfg and bin/npu-smi. Run again, it is made anew.");
	sub->add_option("DIR", a.folder, "A new folder, or one made by this command")->required()->type_name("");
	sub->callback([&a] { a.status = run_ascend_home(a.ctx, a.folder); });
}

/* The first argument that is not an option; "": none. */
std::string first_word(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (std::string(argv[i]) == "--root")
			i++;
		else if (argv[i][0] != '-')
			return argv[i];
	return "";
}

/* The error text for an unknown or missing command; "": the command is valid, or an option is unknown. */
std::string wrong_command(const CLI::App &app, const std::string &word)
{
	std::vector<std::string> all;

	for (const CLI::App *sub : app.get_subcommands({}))
		all.push_back(sub->get_name());
	const std::string list = "the commands are " + usdma::tool::joined(all) + " (usdmactl --help)";
	if (word.empty() && app.remaining().empty())
		return "a command is missing: " + list;
	if (word.empty() || std::find(all.begin(), all.end(), word) != all.end())
		return "";
	return "there is no command \"" + word + "\"; did you mean " + usdma::tool::nearest(word, all) + "? " + list;
}

int run(CLI::App &app, int argc, char **argv, arguments &a)
{
	if (usdma::tool::complete(&app, argc, argv, device_addresses))
		return exit_ok;
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &e) {
		const std::string word = first_word(argc, argv);
		/* Help of an unknown command, too. */
		const std::string wrong = e.get_exit_code() || !word.empty() ? wrong_command(app, word) : "";

		if (wrong.empty())
			return usdma::leave(app, e);
		print_error(wrong);
		return exit_usage;
	} catch (const std::exception &e) {
		return report(a.ctx, e.what());
	}
	const int interrupted = usdma::tool::interrupt_status();
	return interrupted ? interrupted : a.status;
}

} // namespace

int main(int argc, char **argv)
{
	usdma::open_closed_streams();
	CLI::App app("Finds, binds and tests devices for usdma, and checks the machine.", "usdmactl");
	arguments a;

	usdma::help_in_80_columns(app);
	app.set_version_flag("--version", USDMA_VERSION_TEXT);
	app.add_flag("--json", a.ctx.json, "Machine-readable output, with every command");
	app.add_option("--root", a.ctx.at.root, "")->group("")->check(CLI::ExistingDirectory);
	app.require_subcommand(1);
	app.fallthrough();
	app.footer("usdmactl COMMAND --help shows examples. Start with: usdmactl doctor");
	add_list(app, a);
	add_binds(app, a);
	add_info(app, a);
	add_tests(app, a);
	add_bringup(app, a);
	add_stat(app, a);
	add_tune(app, a);
	add_sim(app, a);
	add_share(app, a);
	add_check(app, a);
	add_net(app, a);
	add_ascend(app, a);
	return usdma::tool::end_output("usdmactl", run(app, argc, argv, a));
}
