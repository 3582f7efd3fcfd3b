/* SPDX-License-Identifier: BSD-3-Clause */
/* usdmactl net: starts usdma-net, on two machines, and shows what it says of the link between them. */
#include "driver/base/unique_fd.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"
#include "lib/share/fabric.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fcntl.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace usdma::ctl {

namespace {

std::string program()
{
	std::error_code ec;
	const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();

	for (const auto &path :
	     {here / "../../net/usdma-net", std::filesystem::path(USDMA_PREFIX "/libexec/usdma/usdma-net")})
		if (access(path.c_str(), X_OK) == 0)
			return path;
	return "";
}

std::string host_digits()
{
	u8 id[16];
	std::string out;

	core::fabric_boot_id(id);
	for (const u8 byte : id)
		out += fmt::format("{:02x}", byte);
	return out;
}

std::vector<std::string> words_for(const core::config &c, const net_options &opt)
{
	std::vector<std::string> words = {program(),    "--net",        c.net,
					  "--key-file", c.net_key_file, "--tls",
					  c.net_tls,    "--lost-ms",    std::to_string(c.net_lost_ms),
					  "--host-id",  host_digits()};

	if (opt.port)
		words.insert(words.end(), {"--port", std::to_string(opt.port)});
	if (opt.listen)
		words.push_back("--listen");
	else
		words.insert(words.end(), {"--to", opt.address, "--each-ms", std::to_string(u64(opt.seconds * 1000)),
					   "--largest", std::to_string(opt.largest)});
	return words;
}

/* The program, its output, and the pipe whose end it takes for the end of this one. */
struct helper {
	pid_t pid = -1;
	unique_fd out, life;

	bool start(const std::vector<std::string> &words);
	int end();
};

bool helper::start(const std::vector<std::string> &words)
{
	std::vector<char *> argv;
	int from[2], to[2];

	for (const std::string &w : words)
		argv.push_back(const_cast<char *>(w.c_str()));
	argv.push_back(nullptr);
	if (pipe2(from, O_CLOEXEC))
		return false;
	out.reset(from[0]);
	const unique_fd theirs(from[1]);
	if (pipe2(to, O_CLOEXEC))
		return false;
	life.reset(to[1]);
	const unique_fd end(to[0]);
	pid = fork();
	if (!pid) {
		dup2(end.get(), STDIN_FILENO);
		dup2(theirs.get(), STDOUT_FILENO);
		if (tool::default_interrupts())
			execv(argv[0], argv.data());
		_exit(127);
	}
	return pid > 0;
}

int helper::end()
{
	int status = 0;

	life.reset();
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return status;
}

/* What to check, by the kind of an error (net/main.cpp). */
std::string advice(const std::string &kind, const std::string &ports)
{
	if (kind == "address")
		return "is the address right, and does usdmactl net --listen run there?";
	if (kind == "firewall")
		return "is that machine up, does usdmactl net --listen run there, and do firewalls let TCP ports " +
		       ports + " through?";
	if (kind == "data")
		return "the control connection works, and the ports for data do not: firewalls of both machines must "
		       "let TCP ports " +
		       ports + " through, in both directions";
	return "";
}

class session {
public:
	session(const context &ctx, const std::string &ports) : ctx_(ctx), ports_(ports) {}

	void take(const std::string &line);
	int end(int status, bool listened);

private:
	void row(const std::string &text);
	void latency(std::istringstream &in);
	void bandwidth(std::istringstream &in);
	void peer(const std::string &what, std::istringstream &in);
	void error(std::istringstream &in);

	const context &ctx_;
	const std::string ports_;
	json all_ = json::object();
	bool failed_ = false;
	std::string header_;
};

void session::row(const std::string &text)
{
	if (ctx_.json)
		return;
	print_line(text);
	tool::flush_output();
}

void session::latency(std::istringstream &in)
{
	u64 bytes = 0, rounds = 0, least = 0, p50 = 0, p99 = 0;

	in >> bytes >> rounds >> least >> p50 >> p99;
	if (!all_.contains("latency"))
		row(fmt::format("{:>10} {:>10} {:>10} {:>10} {:>10}   and its answer", "message", "rounds", "least us",
				"p50 us", "p99 us"));
	all_["latency"].push_back({{"bytes", bytes},
				   {"rounds", rounds},
				   {"least_us", double(least) / 1000},
				   {"p50_us", double(p50) / 1000},
				   {"p99_us", double(p99) / 1000}});
	row(fmt::format("{:>10} {:>10} {:>10.1f} {:>10.1f} {:>10.1f}", human_size(bytes), rounds, double(least) / 1000,
			double(p50) / 1000, double(p99) / 1000));
}

void session::bandwidth(std::istringstream &in)
{
	u64 bytes = 0, messages = 0, ns = 0;

	in >> bytes >> messages >> ns;
	const double rate = ns ? double(bytes) * double(messages) / double(ns) : 0;
	if (!all_.contains("bandwidth"))
		row(fmt::format("{:>10} {:>10} {:>10}   32 at a time, 8 above 1 MiB", "message", "number", "GB/s"));
	all_["bandwidth"].push_back({{"bytes", bytes}, {"messages", messages}, {"gb_per_s", rate}});
	row(fmt::format("{:>10} {:>10} {:>10.3f}", human_size(bytes), messages, rate));
}

void session::peer(const std::string &what, std::istringstream &in)
{
	std::string address, rest;

	in >> address;
	std::getline(in >> std::ws, rest);
	if (what == "peer")
		all_["peers"].push_back({{"address", address}, {"host", rest}});
	row(what == "peer" ? fmt::format("{} is connected (host {})", address, rest) :
			     fmt::format("{} has left: {}", address, rest));
}

void session::error(std::istringstream &in)
{
	std::string kind, text;

	in >> kind;
	std::getline(in >> std::ws, text);
	const std::string more = advice(kind, ports_);
	failed_ = true;
	all_["error"] = text;
	all_["kind"] = kind;
	if (!more.empty())
		all_["advice"] = more;
	if (!ctx_.json)
		print_error(text + (more.empty() ? "" : ": " + more));
}

void session::take(const std::string &line)
{
	std::istringstream in(line);
	std::string what;

	in >> what;
	if (what == "latency")
		latency(in);
	else if (what == "bandwidth")
		bandwidth(in);
	else if (what == "peer" || what == "left")
		peer(what, in);
	else if (what == "error")
		error(in);
	else if (what == "listening") {
		std::string address, port, first, last;

		in >> address >> port >> first >> last;
		all_["listening"] = {{"address", address}, {"port", port}, {"data_ports", first + "-" + last}};
		row(fmt::format("listening at {} port {}; data comes at ports {} to {}", address, port, first, last));
	}
}

int session::end(int status, bool listened)
{
	if (!failed_ && !tool::interrupted() && (status || (!listened && !all_.contains("bandwidth")))) {
		failed_ = true;
		all_["error"] = fmt::format("usdma-net has ended ({} {})", WIFSIGNALED(status) ? "signal" : "status",
					    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		if (!ctx_.json)
			print_error(all_["error"]);
	}
	if (ctx_.json)
		print_json(all_);
	return failed_ ? exit_failed : exit_ok;
}

void read_lines(int fd, session *to)
{
	std::string pending;
	char buf[4096];

	for (;;) {
		const ssize_t n = read(fd, buf, sizeof(buf));

		if (n < 0 && errno == EINTR && !tool::interrupted())
			continue;
		if (n <= 0)
			return;
		pending.append(buf, size_t(n));
		for (size_t end; (end = pending.find('\n')) != pending.npos; pending.erase(0, end + 1))
			to->take(pending.substr(0, end));
	}
}

/* "" or what is missing. */
std::string missing(const core::config &c)
{
	if (!c.error.empty())
		return c.error;
	if (c.net.empty())
		return "the setting net is empty: it names the interface to other machines, as in USDMA_NET=eth1";
	if (c.net_key_file.empty())
		return "the setting net_key_file is empty: it names the file with the key that both machines share "
		       "(head -c 32 /dev/urandom > job.key; chmod 600 job.key; USDMA_NET_KEY_FILE=job.key)";
	return program().empty() ? "usdma-net is not installed: install the package usdma-net, or build with UCX 1.13 "
				   "or later and nettle (libucx-dev, nettle-dev)" :
				   "";
}

} // namespace

int run_net(const context &ctx, const net_options &opt)
{
	const core::config &c = core::config_get();
	const std::string wrong = missing(c);
	helper h;

	if (!wrong.empty())
		return report(ctx, wrong);
	tool::catch_interrupts();
	if (!h.start(words_for(c, opt)))
		return report(ctx, fmt::format("usdma-net cannot be started: {}", strerror(errno)));
	store_seq_cst(&tool::interrupt_too, h.pid);
	const size_t colon = c.net.rfind(':');
	session s(ctx, c.net.find('-') != c.net.npos && colon != c.net.npos ? c.net.substr(colon + 1) : "18600-18699");
	read_lines(h.out.get(), &s);
	store_seq_cst(&tool::interrupt_too, 0);
	return s.end(h.end(), opt.listen);
}

} // namespace usdma::ctl
