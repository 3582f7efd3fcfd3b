/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/options.h"

#include "tools/choice.h"
#include "tools/complete.h"
#include "tools/help.h"
#include "tools/perf/tcp.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

namespace usdma::perf {

std::string size_text(u64 bytes)
{
	for (const auto &[factor, name] : {std::pair{GiB, "G"}, {MiB, "M"}, {KiB, "K"}})
		if (bytes >= factor && bytes % factor == 0)
			return fmt::format("{}{}", bytes / factor, name);
	return std::to_string(bytes);
}

/* On another CPU a thread is not pinned, and the figures mean nothing. */
static CLI::Validator usable_cpu()
{
	std::vector<std::string> names;

	for (int cpu : usable_cpus())
		names.push_back(std::to_string(cpu));
	return tool::word_of(names);
}

/* Copies a second, or percent with %. */
static CLI::Validator offered_rate()
{
	return CLI::Validator(
		[](std::string &text) -> std::string {
			const bool percent = is_percent(text);
			const double most = percent ? 1000 : 1e9;
			char *end = nullptr;
			const double value = strtod(text.c_str(), &end);

			if (isdigit(text[0]) && end == text.c_str() + text.size() - percent && value > 0 &&
			    value <= most)
				return "";
			return "\"" + text + "\": it takes copies a second up to 1e9, or percent up to 1000%";
		},
		"", "rate");
}

static const char sweep_group[] = "What to measure (each takes a list, and every combination is a row)";

static void describe_sweep(CLI::App &app, options &o)
{
	const std::vector<std::pair<std::string, copy_kind>> kinds = {
		{"h2d", copy_kind::h2d},           {"d2h", copy_kind::d2h},           {"d2d", copy_kind::d2d},
		{"page-h2d", copy_kind::page_h2d}, {"page-d2h", copy_kind::page_d2h}, {"2d", copy_kind::rect},
		{"batch", copy_kind::batch},       {"desc", copy_kind::desc},         {"sync", copy_kind::sync}};

	app.add_option("-w,--way", o.kinds,
		       "h2d d2h d2d page-h2d page-d2h 2d batch desc sync (h2d by the synchronous call)")
		->delimiter(',')
		->transform(tool::word_of(kinds))
		->type_name("WAY")
		->group(sweep_group);
	app.add_option("-s,--size", o.sizes, "Bytes of a copy: 64, 4K, 1M")
		->delimiter(',')
		->transform(tool::size_in("1", "4G"))
		->type_name("SIZE")
		->group(sweep_group);
	app.add_option("-d,--depth", o.depths, "Copies in flight")
		->delimiter(',')
		->check(tool::number_in(1, 65536))
		->type_name("N")
		->group(sweep_group);
	app.add_option("-b,--batch", o.batches, "Copies in one batch call (default 32)")
		->delimiter(',')
		->check(tool::number_in(1, 4096))
		->type_name("N")
		->group(sweep_group);
	app.add_option("-t,--threads", o.threads, "Threads that submit")
		->delimiter(',')
		->check(tool::number_in(1, 256))
		->type_name("N")
		->group(sweep_group);
	app.add_option("--streams", o.streams, "Streams of each thread")
		->delimiter(',')
		->check(tool::number_in(1, 60000))
		->type_name("N")
		->group(sweep_group);
}

static void describe_sweep_of_load(CLI::App &app, options &o)
{
	const std::vector<std::pair<std::string, wait>> waits = {
		{"default", wait::any}, {"poll", wait::poll}, {"interrupt", wait::interrupt}, {"hybrid", wait::hybrid}};

	app.add_option("--rate", o.rates,
		       "Copies a second at scheduled times (an open loop), or percent of the rate without a schedule: "
		       "100000, 50%; latency counts from the scheduled time")
		->delimiter(',')
		->check(offered_rate())
		->type_name("RATE")
		->excludes("--streams")
		->group(sweep_group);
	app.add_option("--processes", o.processes, "Processes at the same time, each with a device of its own")
		->delimiter(',')
		->check(tool::number_in(1, 256))
		->type_name("N")
		->group(sweep_group);
	app.add_option("--wait", o.waits, "default poll interrupt hybrid")
		->delimiter(',')
		->transform(tool::word_of(waits))
		->type_name("MODE")
		->excludes("--rate")
		->group(sweep_group);
	app.add_option("--client-cpu", o.client_cpus, "CPU of the first thread (default: nearest to the engine)")
		->delimiter(',')
		->check(usable_cpu())
		->type_name("CPU")
		->excludes("--processes")
		->group(sweep_group);
	app.add_option("--numa", o.numa,
		       "NUMA nodes of client and host memory, and of the engines of its software devices: "
		       "0:0,0:1; or all pairs")
		->type_name("CLIENT:ENGINE")
		->excludes("--processes")
		->group(sweep_group);
}

static void describe_how(CLI::App &app, options &o)
{
	const std::vector<std::pair<std::string, api>> apis = {{"native", api::native}, {"acl", api::acl}};

	app.add_option("--api", o.through, "native or acl")->transform(tool::word_of(apis))->type_name("API");
	app.add_flag("--cold", o.cold, "Over an area larger than the caches (default: small and hot)");
	app.add_option("--cold-bytes", o.cold_bytes, "That area's size (default 512M)")
		->transform(tool::size_in("4M", "64G"))
		->type_name("SIZE");
	app.add_flag("--verify", o.verify, "Compare every byte that was copied");
	app.add_option("--seconds", o.seconds, "Of each repeat (default 0.2)")
		->check(tool::number_in(0.001, 3600.0))
		->type_name("S");
	app.add_option("--repeats", o.repeats, "Timed repeats after a warm-up (default 3)")
		->check(tool::number_in(1, 1000))
		->type_name("N");
	app.add_option("--device", o.device, "A device string (default: an embedded software device)")
		->type_name("DEVICE");
	app.add_option("--engines", o.engines, "Engines of that software device (default 1)")
		->check(tool::number_in(1, 64))
		->type_name("N");
	app.add_option("--engine-cpu", o.engine_cpus, "CPUs of the engines")
		->delimiter(',')
		->check(usable_cpu())
		->type_name("CPU")
		->excludes("--processes");
	app.add_flag("-q,--quiet", o.quiet, "Do not print progress");
}

static void describe_output(CLI::App &app, options &o)
{
	app.add_option("--json", o.json, "Write everything as JSON (-: to standard output, instead of the table)")
		->type_name("FILE");
	app.add_option("--csv", o.csv, "Write the rows as CSV")->type_name("FILE");
	app.add_option("--plot", o.plot, "Draw bandwidth and latency over size (.svg or .png; needs gnuplot)")
		->type_name("FILE");
	app.add_option("--against", o.against, "Compare with a result of --json: what changed beyond the spread")
		->check(CLI::ExistingFile)
		->type_name("FILE");
	app.add_flag("--limits", o.limits, "Also measure the machine's limits, and print each figure's ratio to them");
}

static CLI::Validator address()
{
	return CLI::Validator(
		[](std::string &text) -> std::string {
			std::string host, port;

			return split_address(text, &host, &port) ?
				       "" :
				       "\"" + text +
					       "\": it takes an address, as 10.0.0.2, host2:18599, [fd00::2]:18599";
		},
		"", "address");
}

/* Copies with a size and a number of seconds each. */
static void describe_net(CLI::App &app, options &o)
{
	for (CLI::Option *const net :
	     {app.add_option("--net", o.net,
			     "Copies to and from memory of another machine, where usdma-perf --net-listen runs "
			     "(docs/hosts.md), beside plain TCP")
		      ->check(address())
		      ->type_name("ADDRESS"),
	      app.add_option("--net-listen", o.net_listen,
			     "Have memory for --net of another machine; listens at this address of this machine, "
			     "port 18599, without a key")
		      ->check(address())
		      ->type_name("ADDRESS")})
		for (const char *other :
		     {"-w", "--depth", "--batch", "--threads", "--streams", "--rate", "--processes", "--numa", "--api",
		      "--limits", "--csv", "--plot", "--against", "--verify", "--cold", "--matrix"})
			net->excludes(other);
}

static void describe_modes(CLI::App &app, options &o)
{
	CLI::Option *const matrix = app.add_flag(
		"--matrix", o.matrix, "Bandwidth between host and devices, and among devices: each alone, and at once");
	for (const char *other : {"-w", "--batch", "--threads", "--streams", "--rate", "--processes", "--client-cpu",
				  "--engine-cpu", "--numa", "--api", "--limits", "--csv", "--plot"})
		matrix->excludes(other);
	app.add_option("--workload", o.workload,
		       "kv-cache: swapping requests of an LLM's cache in and out; kv-file: to a file and back; "
		       "weights: a file into device memory")
		->check(tool::word_of({"kv-cache", "kv-file", "weights"}))
		->type_name("NAME");
	app.add_option("--model", o.kv.model, "8b or 70b")->check(tool::word_of({"8b", "70b"}))->type_name("MODEL");
	app.add_option("--layers", o.kv.layers, "Instead of the model's")
		->check(tool::number_in(1, 1000))
		->type_name("N");
	app.add_option("--heads", o.kv.heads, "Key/value heads")->check(tool::number_in(1, 1024))->type_name("N");
	app.add_option("--head-size", o.kv.head_size, "Elements of a head")
		->check(tool::number_in(1, 4096))
		->type_name("N");
	app.add_option("--element", o.kv.element, "Bytes of an element (default 2)")
		->check(tool::number_in(1, 8))
		->type_name("N");
	app.add_option("--block-tokens", o.kv.block_tokens, "Tokens of a block (default 16)")
		->check(tool::number_in(1, 4096))
		->type_name("N");
	app.add_option("--tokens", o.kv.tokens, "Tokens of a request (default 1024)")
		->check(tool::number_in(1, 1 << 20))
		->type_name("N");
	app.add_option("--requests", o.kv.requests, "Requests in each direction (default 4)")
		->check(tool::number_in(1, 10000))
		->type_name("N");
	app.add_option("--folder", o.folder, "Where kv-file and weights make their file (default /tmp)")
		->check(CLI::ExistingDirectory)
		->type_name("FOLDER");
	app.add_option("--file-size", o.file_size, "Of weights (default 256M)")
		->transform(tool::size_in("4K", "64G"))
		->type_name("SIZE");
	app.add_option("--file", o.file, "Measure weights with this file, which is only read")
		->check(CLI::ExistingFile)
		->type_name("FILE");
	app.add_flag("--curves", o.curves,
		     "Cost by the number of copies in flight, streams, registrations and threads");
	app.add_flag("--calibrate", o.calibrate, "Measure which settings suit this machine");
	app.add_option("--write", o.write_to, "Write the proposals of --calibrate as a configuration file")
		->type_name("FILE");
}

/* Before anything is measured: what cannot be written in the end. "": nothing. */
static std::string unwritable(const options &o)
{
	for (const auto &[option, path] :
	     {std::pair("--json", o.json), {"--csv", o.csv}, {"--plot", o.plot}, {"--write", o.write_to}}) {
		const std::string folder = std::filesystem::path(path).parent_path();
		const char *const target = access(path.c_str(), F_OK) == 0 ? path.c_str() :
					   folder.empty()                  ? "." :
									     folder.c_str();

		if (!path.empty() && path != "-" && access(target, W_OK))
			return fmt::format("{}: {} cannot be written: {}", option, path, strerror(errno));
	}
	return "";
}

/* Other measurements than the sweep and the matrix. */
static unsigned modes_of(const options &o)
{
	return unsigned(o.curves) + unsigned(o.calibrate) + unsigned(!o.workload.empty()) + unsigned(!o.net.empty()) +
	       unsigned(!o.net_listen.empty());
}

struct need {
	std::initializer_list<const char *> options;
	bool met;
	const char *what;
};

/* "": each option that was given has an effect. */
static std::string without_effect(const CLI::App &app, const options &o)
{
	const bool weights = o.workload == "weights", kv = !o.workload.empty() && !weights;
	const bool batch = std::find(o.kinds.begin(), o.kinds.end(), copy_kind::batch) != o.kinds.end();
	const bool sweep = o.workload.empty() && !o.curves && !o.calibrate;
	const need all[] = {
		{{"--model", "--layers", "--heads", "--head-size", "--element", "--block-tokens", "--tokens",
		  "--requests"},
		 kv,
		 " needs --workload kv-cache or kv-file"},
		{{"--folder"}, weights || o.workload == "kv-file", " needs --workload kv-file or weights"},
		{{"--file-size"}, weights, " needs --workload weights"},
		{{"-w", "--size", "--depth", "--batch", "--threads", "--streams", "--rate"},
		 sweep,
		 " excludes --workload, --curves and --calibrate"},
		{{"--batch"}, batch, " needs -w batch"},
		{{"--engines"}, o.device.empty(), " is for the embedded software device: it excludes --device"}};

	for (const need &n : all)
		for (const char *option : n.options)
			if (!n.met && app.count(option))
				return std::string(option) + n.what;
	return "";
}

static std::string problem(const CLI::App &app, const options &o)
{
	if (const std::string idle = without_effect(app, o); !idle.empty())
		return idle;
	if (app.count("--device") && o.device.empty())
		return "--device: it takes a device string";
	if (o.csv == "-")
		return "--csv: - is for --json: it takes a file";
	if (!o.write_to.empty() && !o.calibrate)
		return "--write needs --calibrate";
	if (!o.plot.empty() && !o.plot.ends_with(".svg") && !o.plot.ends_with(".png"))
		return "--plot: the file's name must end in .svg or .png";
	if (!o.file.empty() && (o.workload != "weights" || !o.file_size || o.file_size > 64 * GiB))
		return "--file needs --workload weights, and a file of 1 byte to 64G";
	if (modes_of(o) + unsigned(o.matrix) > 1)
		return "--matrix, --workload, --curves, --calibrate, --net and --net-listen exclude each other";
	if (modes_of(o) && !o.against.empty())
		return "--against excludes --workload, --curves and --calibrate";
	if (modes_of(o) && !o.processes.empty())
		return "--processes excludes --workload, --curves and --calibrate";
	if (o.through == api::acl && !have_acl())
		return "--api acl: this usdma-perf was built without libascendcl";
	if (o.through != api::acl && std::find(o.kinds.begin(), o.kinds.end(), copy_kind::desc) != o.kinds.end())
		return "-w desc: descriptors are ACL's: add --api acl";
	if (!o.numa.empty() && (!o.client_cpus.empty() || !o.engine_cpus.empty() || !o.device.empty()))
		return "--numa chooses CPUs and devices: it excludes --client-cpu, --engine-cpu and --device";
	if (!o.numa.empty() && modes_of(o))
		return "--numa excludes --workload, --curves and --calibrate";
	return unwritable(o);
}

/* Addresses of the PCI devices that are bound to vfio-pci. */
static std::vector<std::string> device_addresses()
{
	std::vector<std::string> out;
	std::error_code none;

	for (const auto &entry : std::filesystem::directory_iterator("/sys/bus/pci/drivers/vfio-pci", none))
		if (entry.path().filename().string().find('.') != std::string::npos)
			out.push_back(entry.path().filename());
	return out;
}

/* What the command line left open, and is not the same for all measurements. */
static void choose_defaults(const CLI::App &app, options &o)
{
	std::error_code none;

	if (!o.file.empty())
		o.file_size = std::filesystem::file_size(o.file, none);
	if (!app.count("--depth") && (o.matrix || !o.rates.empty()))
		o.depths = {o.matrix ? 4u : 256u};
	if (!app.count("--size") && o.matrix)
		o.sizes = {16 * MiB};
	if (!app.count("--wait") && o.matrix)
		o.waits = {wait::any};
}

int parse(int argc, char **argv, options *out)
{
	CLI::App app("Measures copies by DMA engines: latency, rate and CPU use, compared with the machine's limits.",
		     "usdma-perf");

	help_in_80_columns(app);
	app.set_version_flag("--version", USDMA_VERSION_TEXT);
	describe_sweep(app, *out);
	describe_sweep_of_load(app, *out);
	describe_how(app, *out);
	describe_output(app, *out);
	describe_modes(app, *out);
	describe_net(app, *out);
	if (tool::complete(&app, argc, argv, device_addresses))
		return tool::end_output("usdma-perf", 0) ? 2 : -1;
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &e) {
		return leave(app, e) ? 2 : -1;
	}
	choose_defaults(app, *out);
	const std::string wrong = problem(app, *out);
	if (!wrong.empty())
		fmt::print(stderr, "usdma-perf: {}\n", wrong);
	return wrong.empty() ? 0 : 2;
}

static std::string software_device(const options &o, const std::vector<int> &cpus)
{
	const size_t area = std::max<size_t>(2 * o.cold_bytes, o.workload == "weights" ? o.file_size : 0);
	const size_t mem = std::max<size_t>(GiB, align_up<size_t>(area + 512 * MiB, GiB));

	return fmt::format("sim:mem={}:engines={}{}{}", mem, o.engines, cpus.empty() ? "" : ":cpus=",
			   fmt::join(cpus.begin(), cpus.begin() + std::min<ptrdiff_t>(o.engines, ssize(cpus)), "+"));
}

/* One device for each set of engine CPUs. Several clients at once: the kernel chooses their CPUs. */
static std::string software_devices(const options &o, const machine &m)
{
	std::string out;
	unsigned n = 0;

	if (o.matrix)
		return software_device(o, {}) + "," + software_device(o, {});
	if (!o.processes.empty())
		return software_device(o, {});
	for (const placement &p : m.placements)
		if (p.device == n) {
			out += (n ? "," : "") + software_device(o, p.engine_cpus);
			n++;
		}
	return n ? out : software_device(o, m.engines);
}

/* The library reads its environment once, at first use: set the variables before. */
machine set_up(const options &o)
{
	machine m = read_machine(o.client_cpus.empty() ? -1 : o.client_cpus[0], o.engine_cpus);

	if (!o.numa.empty())
		m.placements = choose_placements(m, parse_node_pairs(o.numa, m.cpus));
	const std::string device = o.device.empty() ? software_devices(o, m) : o.device;
	m.own_device = o.device.empty() && (!getenv("USDMA_DEVICES") || !m.placements.empty());
	if (m.own_device || !o.device.empty())
		setenv("USDMA_DEVICES", device.c_str(), 1);
	/* ACL's streams use the process's wait mode. */
	if (o.waits[0] != wait::any)
		setenv("USDMA_WAIT", name_of(o.waits[0]), 1);
	return m;
}

void progress(const options &o, const std::string &text)
{
	if (o.quiet || !isatty(STDERR_FILENO))
		return;
	fmt::print(stderr, "\r\033[K{}{}", text.substr(0, 78), text.empty() ? "" : " ...");
	fflush(stderr);
}

} // namespace usdma::perf
