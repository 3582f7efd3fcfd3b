/* SPDX-License-Identifier: BSD-3-Clause */
/* usdma-sim: the software device as a process of its own, on a vfio-user socket. */
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/log.h"
#include "driver/dma/registry.h"
#include "driver/sim/backend.h"
#include "driver/sim/bus_error.h"
#include "driver/sim/console.h"
#include "driver/sim/interrupting.h"
#include "driver/sim/models.h"
#include "tools/complete.h"
#include "tools/help.h"
#include "tools/output.h"
#include "tools/sim_clients.h"
#include "tools/sim_sandbox.h"
#include "tools/sim_shared.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

using namespace usdma;

namespace {

struct options {
	std::string socket, control, replay, backend;
	sim::config device;
	bool once = false, verbose = false, has_mem = false;
	int ready_fd = -1, listen_fd = -1;
	tool::share_settings shared;
};

int fail_usage()
{
	fprintf(stderr, "usdma-sim: %s (usdma-sim --help)\n", error_text());
	return 2;
}

/* key=value, as in a device string. */
void set(options &opt, const char *option, const char *key, const std::string &value)
{
	static constexpr std::string_view start = "sim: ";

	opt.has_mem |= !strcmp(key, "mem");
	if (!sim::parse_setting(std::string(key) + "=" + value, &opt.device))
		return;
	const std::string_view text = error_text();
	throw CLI::ValidationError(option, std::string(text.substr(text.starts_with(start) ? start.size() : 0)));
}

/* An option that sets a key of the device string. */
CLI::Option *add_setting(CLI::App &app, options &opt, const char *name, const char *key, const char *help)
{
	return app
		.add_option_function<std::string>(
			name, [&opt, name, key](const std::string &v) { set(opt, name, key, v); }, help)
		->type_name("N");
}

/* An option of a shared device. */
CLI::Option *add_shared(CLI::App &app, options &opt, const std::string &name, const char *help)
{
	const auto set = [&opt, name](const std::vector<std::string> &all) {
		for (const std::string &value : all)
			if (opt.shared.set(name, value))
				throw CLI::ValidationError("--" + name, error_text());
	};

	return app.add_option_function<std::vector<std::string>>("--" + name, set, help)
		->needs("--backend")
		->type_name("N");
}

void describe(CLI::App &app, options &opt)
{
	app.set_version_flag("--version", USDMA_VERSION_TEXT);
	CLI::Option_group *where = app.add_option_group("where", "One of these two");
	CLI::Option *path = where->add_option("--socket", opt.socket,
					      "Path of the UNIX socket to serve (made with mode 0600)")
				    ->type_name("PATH");
	where->add_option("--listen-fd", opt.listen_fd, "Descriptor of a socket that listens, as systemd passes it (3)")
		->check(tool::number_in(0, INT_MAX))
		->type_name("N")
		->excludes(path);
	add_setting(app, opt, "--model", "model",
		    ("The device, by default sdma: " + tool::joined(sim::model_list()) + " (docs/engines.md)").c_str())
		->type_name("NAME")
		->check(tool::word_of(sim::model_list()));
	app.add_option(
		   "--backend", opt.backend,
		   "Share this device (a device string, as in USDMA_DEVICES) among the clients: it runs their copies "
		   "and fills (docs/devices.md)")
		->type_name("DEVICE");
	add_shared(app, opt, "hang-ms",
		   "With --backend: a channel of the device that makes no progress for this time is reset (10000)");
	add_shared(app, opt, "weight",
		   "With --backend: what the clients of a user (a number) have in flight, as a multiple of others' (1)")
		->type_name("USER:N");
	add_shared(
		app, opt, "user-share",
		"With --backend: memory that the clients of a user may map at a time, together (default: a quarter of "
		"the machine's)");
	add_shared(app, opt, "user-clients", "With --backend: clients of a user at a time (32; all: 64)");
	add_setting(app, opt, "--mem", "mem", "Device memory, such as 512M or 1G (default 1G; with --backend none)");
	add_setting(app, opt, "--engines", "engines", "Engines that copy at the same time, a thread each (default 2)");
	add_setting(app, opt, "--channels", "channels", "Channels (default 64, at most 1024)");
	add_setting(app, opt, "--spin-us,--spin", "spin",
		    "Microseconds that an idle engine polls before it sleeps (default 50)");
	add_setting(app, opt, "--latency-us,--latency", "latency",
		    "Each descriptor takes at least so many microseconds");
	add_setting(app, opt, "--rate", "rate", "Bytes a second of each engine, such as 500M");
	add_setting(app, opt, "--timing", "timing",
		    "When descriptors run: plain (default), early, late or shuffle@SEED (docs/checking.md)")
		->type_name("HOW");
	add_setting(app, opt, "--cpus", "cpus", "CPUs of the engines, such as 2+3")->type_name("LIST");
	add_setting(app, opt, "--share", "share",
		    "Memory of its own that a client may map at a time (default: a quarter of the machine's)");
	add_setting(app, opt, "--copy-rows,--copy_rows", "copy_rows",
		    "Pages that a long copy goes over at a time: auto (by the CPU; default), 1, 2 or 4")
		->check(tool::word_of({"auto", "1", "2", "4"}));
	add_setting(app, opt, "--huge", "huge", "Pages of 2 MiB for its memory: off, advise (default) or require")
		->type_name("HOW")
		->check(tool::word_of({"off", "advise", "require"}));
	app.add_option_function<std::string>(
		   "--nomem", [&opt](const std::string &v) { set(opt, "--nomem", "nomem", v.empty() ? "1" : v); },
		   "A device without memory of its own")
		->expected(0, 1)
		->trigger_on_parse()
		->type_name("");
	app.add_flag_callback(
		"--any-file", [&opt] { set(opt, "--any-file", "files", "any"); },
		"Map what is no memfd and not of tmpfs or hugetlbfs, too");
	app.add_option_function<std::string>(
		   "--faults", [&opt](const std::string &v) { set(opt, "--faults", "faults", v); },
		   "Faults on demand, such as fail@3+drop-irq%2 (docs/reliability.md)")
		->type_name("RULES");
	app.add_option("--control", opt.control,
		       "Path of a socket to command it while it runs: usdmactl sim PATH state")
		->type_name("PATH");
	app.add_option("--replay", opt.replay,
		       "Answer reads of registers as the device of this report did (usdmactl bringup)")
		->type_name("REPORT");
	app.add_flag("--once", opt.once, "End when the first client has left");
	app.add_option("--ready-fd", opt.ready_fd, "Descriptor to write a line to once clients may come")
		->check(tool::number_in(0, INT_MAX))
		->type_name("N");
	app.add_flag("-v,--verbose", opt.verbose, "Say what clients do wrong");
	app.footer("Clients: USDMA_DEVICES=vfio-user:PATH, or QEMU, best with shared memory (docs/devices.md) and\n"
		   "-device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"PATH\"}}'.\n"
		   "SIGTERM and SIGINT end it and remove the socket.");
}

int report(int err)
{
	fprintf(stderr, "usdma-sim: %s\n", *error_text() ? error_text() : strerror(-err));
	return 1;
}

/* This process allocates the pages that a client has the device write. */
u64 quarter_of_memory()
{
	return align_down(u64(sysconf(_SC_PHYS_PAGES)) * u64(sysconf(_SC_PAGESIZE)) / 4, u64(4096));
}

tool::share_settings shared_defaults()
{
	const u64 most = quarter_of_memory();

	return {.limits = {.client_bytes = most, .user_bytes = most, .all_bytes = 2 * most}};
}

/* Checked at start: an engine thread that cannot be pinned would end the server at the first client. */
int check_cpus(const sim::config &cfg)
{
	cpu_set_t before, set;
	int err = sched_getaffinity(0, sizeof(before), &before) ? -errno : 0;

	for (size_t i = 0; !err && i < cfg.cpus.size(); i++) {
		CPU_ZERO(&set);
		CPU_SET(cfg.cpus[i], &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			return fail_errno("--cpus: CPU %d does not exist, or this process may not use it", cfg.cpus[i]);
		sched_setaffinity(0, sizeof(before), &before);
	}
	return err;
}

/* The device behind it has its own speed and faults. */
int check_shared(options &opt)
{
	const sim::config own, &cfg = opt.device;

	if (const int err = sim::check_device(opt.backend))
		return fail_in(err, "--backend");
	if (cfg.model != own.model || cfg.faulty || cfg.latency_us || cfg.rate || cfg.any_file ||
	    cfg.timing != own.timing || cfg.stale || !opt.replay.empty())
		return fail(EINVAL, "--backend excludes --model, --faults, --latency, --rate, --timing, "
				    "--any-file and --replay");
	opt.device.has_mem &= opt.has_mem;
	if (cfg.channels_set)
		opt.shared.channels = cfg.channels;
	opt.device.channels = opt.shared.channels;
	opt.shared.limits.client_bytes = cfg.share;
	if (opt.shared.limits.user_bytes == shared_defaults().limits.user_bytes)
		opt.shared.limits.user_bytes = std::max(cfg.share, opt.shared.limits.user_bytes);
	if (!cfg.engines_set)
		opt.device.engines = 1;
	return 0;
}

/* Of options that would have no effect. */
int check_device(const options &opt)
{
	const sim::config &d = opt.device;
	const bool own_memory = d.model == sim::default_model();

	if (opt.has_mem && !d.has_mem)
		return fail(EINVAL, "--mem and --nomem exclude each other");
	if (!own_memory && (opt.has_mem || d.engines_set))
		return fail(EINVAL,
			    "--model %s excludes --mem and --engines: it has no memory of its own and one engine",
			    std::string(d.model->name).c_str());
	return 0;
}

int check_options(options &opt)
{
	if (const int err = check_device(opt))
		return err;
	if (opt.socket.empty() && opt.listen_fd < 0)
		return fail(EINVAL, "where to listen is missing: give --socket PATH or --listen-fd N");
	if (!opt.control.empty() && opt.control == opt.socket)
		return fail(EINVAL, "--socket and --control are the same path");
	if (const int err = check_cpus(opt.device))
		return err;
	if (const int err = opt.backend.empty() ? 0 : check_shared(opt))
		return err;
	if (const int err = opt.replay.empty() ? 0 : sim::set_replay(opt.replay, &opt.device))
		return err;
	return sim::check_config(opt.device);
}

/* Before any thread starts, so that none of them takes the signal. */
int signals_by_fd()
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, nullptr);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int report_ready(const options &opt)
{
	const std::string where = opt.listen_fd < 0 ? opt.socket : "fd " + std::to_string(opt.listen_fd);
	const std::string line = "ready " + where + "\n";

	if (opt.ready_fd >= 0 && write(opt.ready_fd, line.data(), line.size()) != ssize_t(line.size()))
		return fail_errno("--ready-fd %d", opt.ready_fd);
	if (opt.ready_fd >= 0)
		close(opt.ready_fd);
	/* Closed in a service, which needs no line. */
	return (printf("%s", line.c_str()) < 0 || fflush(stdout)) && errno != EBADF ? fail_errno("standard output") : 0;
}

int open_sockets(const options &opt, sim::listener *socket, sim::console *control)
{
	if (const int err = opt.listen_fd < 0 ? socket->open(opt.socket) : socket->adopt(unique_fd(opt.listen_fd)))
		return err;
	return opt.control.empty() ? 0 : control->open(opt.control, opt.device);
}

/* For each client files, and interrupts of its channels. */
void allow_most_files()
{
	rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &most))
		return;
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
}

int open_device(const options &opt, std::unique_ptr<sim::backend> *out)
{
	allow_most_files();
	/* The engines of clients, which are threads of this process, nap. */
	prctl(PR_SET_TIMERSLACK, 1000);
	const int err = sim::backend::open(opt.backend, opt.shared.hang_ms, out);
	if (!err)
		log_info("%s, driver %s, is shared", (*out)->name(), (*out)->driver());
	return err;
}

/* No file access from here on: a child that does nothing else removes the sockets. */
int enter(const options &opt, tool::keeper *keeper, sim::listener *socket, sim::console *control,
	  std::unique_ptr<sim::backend> *device)
{
	if (opt.listen_fd < 0 || !opt.control.empty()) {
		if (const int err = keeper->start([socket, control] {
			    socket->remove_path();
			    control->remove_path();
		    }))
			return err;
		socket->leave_path();
		control->leave_path();
	}
	/* After the child was made: it would inherit the device. */
	if (const int err = opt.backend.empty() ? 0 : open_device(opt, device))
		return err;
	if (const int err = opt.backend.empty() ? tool::sandbox_enter() : tool::sandbox_enter_with_device())
		return err;
	if (!tool::sandbox_filters())
		log_info("built without a list of system calls");
	return 0;
}

/* Readable when either is. */
int either_of(int a, int b)
{
	const int both = epoll_create1(EPOLL_CLOEXEC);
	epoll_event in = {};

	in.events = EPOLLIN;
	if (both < 0 || epoll_ctl(both, EPOLL_CTL_ADD, a, &in) || epoll_ctl(both, EPOLL_CTL_ADD, b, &in))
		return fail_errno("epoll");
	return both;
}

int serve_shared(const options &opt, sim::listener &socket, sim::console *control, int stop_fd, sim::backend &device,
		 tool::keeper *keeper)
{
	const unique_fd stop(either_of(stop_fd, device.lost_fd()));

	if (!stop.valid())
		return -EIO;
	tool::shared_clients clients(socket, opt.device, device, opt.shared, shared_defaults(), control);
	const int err = clients.run(stop.get(), opt.once);
	/* A client's thread still uses what returning would destroy. */
	if (err == -EIO) {
		keeper->release();
		_exit(report(err));
	}
	if (err)
		return err;
	return eventfd_ready(device.lost_fd(), POLLIN) ? fail(ENODEV, "%s was lost", device.name()) : 0;
}

int serve(const options &opt)
{
	sim::listener socket;
	sim::console control;
	tool::keeper keeper;

	if (const int err = sim::guard_bus_errors())
		return report(err);
	if (const int err = sim::allow_interrupting())
		return report(err);
	unique_fd stop(signals_by_fd());
	if (!stop.valid())
		return report(fail_errno("signalfd"));
	if (const int err = open_sockets(opt, &socket, &control))
		return report(err);
	std::unique_ptr<sim::backend> device;
	int err = enter(opt, &keeper, &socket, &control, &device);
	if (!err)
		err = report_ready(opt);
	if (err) {
		report(err);
		keeper.release(); /* which removes the sockets */
		return 1;
	}
	sim::console *const commands = opt.control.empty() ? nullptr : &control;
	tool::clients clients(socket, opt.device, commands);
	err = device ? serve_shared(opt, socket, commands, stop.get(), *device, &keeper) :
		       clients.run(stop.get(), opt.once);
	keeper.release();
	return err ? report(err) : 0;
}

} // namespace

int main(int argc, char **argv)
{
	open_closed_streams();
	CLI::App app{"A software DMA device, served over vfio-user", "usdma-sim"};
	options opt;

	help_in_80_columns(app);
	opt.device.share = quarter_of_memory();
	opt.shared = shared_defaults();
	describe(app, opt);
	if (tool::complete(&app, argc, argv, [] { return tool::words(); }))
		return tool::end_output("usdma-sim", 0);
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &e) {
		return tool::end_output("usdma-sim", leave(app, e));
	}
	if (check_options(opt))
		return fail_usage();
	if (opt.verbose)
		log_set_level(log_level::info);
	return serve(opt);
}
