/* SPDX-License-Identifier: BSD-3-Clause */
/* usdmactl sim and share: send a line to the control socket of usdma-sim and print the reply. */
#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace usdma::ctl {

static constexpr u64 reply_ms = 5000;
static constexpr size_t reply_max = 64 * KiB;

/* Returns "" or the error. */
static std::string connect_to(const std::string &path, unique_fd *out)
{
	sockaddr_un addr = {};

	if (path.empty() || path.size() >= sizeof(addr.sun_path))
		return fmt::format("{}: a socket's path has 1 to {} bytes", path, sizeof(addr.sun_path) - 1);
	addr.sun_family = AF_UNIX;
	memcpy(addr.sun_path, path.data(), path.size());
	out->reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (!out->valid() || connect(out->get(), reinterpret_cast<const sockaddr *>(&addr), sizeof(addr)))
		return fmt::format("{}: {}: is usdma-sim running, with --control {}?", path, strerror(errno), path);
	return "";
}

/* *line: the reply without its newline. Returns "" or the error. */
static std::string read_reply(int fd, std::string *line)
{
	const deadline until = deadline::in_ms(reply_ms);
	char buf[1024];

	while (line->find('\n') == line->npos) {
		pollfd p = {fd, POLLIN, 0};

		if (until.passed() || line->size() > reply_max)
			return "no complete reply";
		if (poll(&p, 1, int(until.left_ns() / ns_per_ms) + 1) <= 0)
			continue;
		const ssize_t n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			return "the connection was closed before the reply (only the user of usdma-sim and root may "
			       "connect)";
		line->append(buf, size_t(n));
	}
	line->erase(line->find('\n'));
	return "";
}

static void print_state(const json &j)
{
	print_line(fmt::format("client: {}, {} so far{}", j.value("serving", false) ? "there" : "none",
			       j.value("clients", u64(0)),
			       j.value("away", false) ? "; the device has vanished (usdmactl sim … return)" : ""));
	if (!j.contains("faults") || j["faults"].empty())
		print_line("faults: none");
	else
		for (const json &f : j["faults"])
			print_line(fmt::format("{:<28} struck {} of {}", f.value("rule", ""), f.value("struck", u64(0)),
					       f.value("seen", u64(0))));
}

/* A line for the server; *line: its reply. Returns "" or the error. */
static std::string request(const std::string &socket, const std::string &text, std::string *line)
{
	unique_fd fd;

	if (text.find('\n') != text.npos)
		return "a command is one line";
	const std::string whole = text + "\n";
	const std::string wrong = connect_to(socket, &fd);
	if (!wrong.empty())
		return wrong;
	if (send(fd.get(), whole.data(), whole.size(), MSG_NOSIGNAL) != ssize_t(whole.size()))
		return fmt::format("{}: {}", socket, strerror(errno));
	const std::string broken = read_reply(fd.get(), line);
	return broken.empty() ? "" : socket + ": " + broken;
}

/* exit_ok, or what was reported. */
static int parse_reply(const context &ctx, const std::string &line, json *out)
{
	*out = json::parse(line, nullptr, false);
	if (!out->is_object() || !out->contains("ok") || !(*out)["ok"].is_boolean())
		return report(ctx, "the reply is not from usdma-sim: is this its --control socket?");
	return (*out)["ok"].get<bool>() ? int(exit_ok) : report(ctx, out->value("error", "refused"));
}

static int send_line(const context &ctx, const std::string &socket, const std::string &text, json *out)
{
	std::string line;
	const std::string wrong = request(socket, text, &line);

	return wrong.empty() ? parse_reply(ctx, line, out) : report(ctx, wrong);
}

static void show(const context &ctx, const json &j, void (*print)(const json &j))
{
	if (ctx.json)
		print_json(j);
	else if (j.contains("help"))
		print_lines(j.value("help", ""));
	else
		print(j);
}

int run_sim(const context &ctx, const sim_options &opt)
{
	json j;
	const int err = send_line(ctx, opt.socket, opt.command + (opt.argument.empty() ? "" : " " + opt.argument), &j);

	if (!err)
		show(ctx, j, print_state);
	return err;
}

/* ---- usdmactl share: a device that several clients use ----------------------------------------------- */

static void print_client(const json &c)
{
	auto mib = [&](const char *name) { return double(c.value(name, u64(0))) / double(MiB); };

	print_line(fmt::format("{:>6} {:>8} {:>6} {:>6} {:>8} {:>8.1f} {:>9} {:>8.1f} {:>12} {:>10.0f} {:>9.1f} {:>7}",
			       c.value("client", u64(0)), c.value("pid", u64(0)), c.value("user", u64(0)),
			       c.value("weight", u64(0)), c.value("channels", u64(0)), mib("mapped"),
			       c.value("in_flight", u64(0)), mib("in_flight_bytes"), c.value("copies", u64(0)),
			       mib("bytes"), mib("bytes_a_second"), c.value("failed", u64(0))));
}

static void print_share(const json &j)
{
	auto n = [&](const char *name) { return j.value(name, u64(0)); };

	print_line(fmt::format("{}, driver {}: {} clients, {} so far, {} refused{}", j.value("device", ""),
			       j.value("driver", ""), j["shared"].size(), n("clients"), n("refused"),
			       j.value("draining", false) ? "; new ones are refused (return)" : ""));
	print_line(fmt::format("limits: mapped {} MiB a client, {} a user, {} in all; {} clients a user; {} channels a "
			       "client; {} ms without progress",
			       n("most_mapped") / MiB, n("most_mapped_by_user") / MiB, n("most_mapped_by_all") / MiB,
			       n("most_clients_of_user"), n("most_channels"), n("hang_ms")));
	print_line(fmt::format(
		"device: {} channels, used by {} of clients; {} MiB mapped; {} copies, {} MiB, {:.1f} MiB/s; "
		"{} failed; {} faults, {} channel and {} device resets",
		n("device_channels"), n("used_channels"), n("all_mapped") / MiB, n("all_copies"), n("all_bytes") / MiB,
		double(n("bytes_a_second")) / double(MiB), n("all_failed"), n("faults"), n("channel_resets"),
		n("device_resets")));
	for (const json &u : j.value("users", json::array()))
		print_line(fmt::format("user {}: weight {}, {} clients, {} MiB mapped", u.value("user", u64(0)),
				       u.value("weight", u64(0)), u.value("clients", u64(0)),
				       u.value("mapped", u64(0)) / MiB));
	if (j.contains("need_restart"))
		print_line(fmt::format("these need a restart: {}", j.value("need_restart", "")));
	if (j["shared"].empty())
		return;
	print_line(fmt::format("{:>6} {:>8} {:>6} {:>6} {:>8} {:>8} {:>9} {:>8} {:>12} {:>10} {:>9} {:>7}", "client",
			       "pid", "user", "weight", "channels", "mapped/M", "in flight", "of/M", "copies",
			       "copied/M", "M/s", "failed"));
	for (const json &c : j["shared"])
		print_client(c);
}

/* Since an earlier reply. */
static void add_rates(const json &before, json *now)
{
	if (const u64 ms = now->value("ms", u64(0)) - before.value("ms", u64(0)))
		(*now)["bytes_a_second"] = (now->value("all_bytes", u64(0)) - before.value("all_bytes", u64(0))) *
					   1000 / ms;
	for (json &c : (*now)["shared"])
		for (const json &was : before["shared"]) {
			const u64 ms = c.value("ms", u64(0)) - was.value("ms", u64(0));

			if (was.value("client", u64(0)) == c.value("client", u64(0)) && ms)
				c["bytes_a_second"] = (c.value("bytes", u64(0)) - was.value("bytes", u64(0))) * 1000 /
						      ms;
		}
}

static bool has_clients(const json &j)
{
	return j.contains("shared") && j["shared"].is_array();
}

/* What OPTIONS= of a file of systemd's has, "" without one. Returns "" or the error. */
static std::string options_of(const std::string &file, std::string *out)
{
	static constexpr std::string_view key = "OPTIONS=";
	std::ifstream in(file);

	for (std::string line; std::getline(in, line);)
		if (line.starts_with(key))
			*out = line.substr(key.size());
	std::erase_if(*out, [](char c) { return c == '"' || c == '\''; });
	return in.eof() ? "" : fmt::format("{}: {}", file, strerror(errno));
}

/* Returns "" or the error. */
static std::string line_of(const share_options &opt, std::string *out)
{
	std::string options;

	*out = opt.words.empty() ? "state" : fmt::format("{}", fmt::join(opt.words, " "));
	if (opt.words.size() != 2 || opt.words[0] != "reload" || opt.words[1].starts_with("-"))
		return "";
	const std::string wrong = options_of(opt.words[1], &options);
	*out = "reload " + options;
	return wrong;
}

int run_share(const context &ctx, const share_options &opt)
{
	static constexpr timespec second = {1, 0};
	std::string text;
	json j, before;
	const std::string wrong = line_of(opt, &text);
	int err = wrong.empty() ? send_line(ctx, opt.socket, text, &j) : report(ctx, wrong);

	if (err)
		return err;
	if (!j.contains("help") && !has_clients(j))
		return report(ctx, "this usdma-sim shares no device (usdma-sim --backend)");
	if (text == "state" && !j["shared"].empty()) {
		before = std::move(j);
		nanosleep(&second, nullptr);
		err = send_line(ctx, opt.socket, text, &j);
		if (err || !has_clients(j))
			return err ? err : report(ctx, "the reply lists no clients");
		add_rates(before, &j);
	}
	show(ctx, j, print_share);
	return exit_ok;
}

} // namespace usdma::ctl
