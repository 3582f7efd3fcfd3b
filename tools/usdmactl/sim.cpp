/* SPDX-License-Identifier: BSD-3-Clause */
/* usdmactl sim: sends a line to the control socket of usdma-sim and prints the reply. */
#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <cstring>
#include <fmt/format.h>
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

static int show(const context &ctx, const std::string &line)
{
	const json j = json::parse(line, nullptr, false);

	if (!j.is_object() || !j.contains("ok") || !j["ok"].is_boolean())
		return report(ctx, "the reply is not from usdma-sim: is this its --control socket?");
	if (!j["ok"].get<bool>())
		return report(ctx, j.value("error", "refused"));
	if (ctx.json)
		print_json(j);
	else if (j.contains("help"))
		print_lines(j.value("help", ""));
	else
		print_state(j);
	return exit_ok;
}

int run_sim(const context &ctx, const sim_options &opt)
{
	std::string request = opt.command + (opt.argument.empty() ? "" : " " + opt.argument), line;
	unique_fd fd;

	if (request.find('\n') != request.npos)
		return report(ctx, "a command is one line");
	request += "\n";
	std::string wrong = connect_to(opt.socket, &fd);
	if (wrong.empty() && send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) != ssize_t(request.size()))
		wrong = fmt::format("{}: {}", opt.socket, strerror(errno));
	if (wrong.empty() && !(wrong = read_reply(fd.get(), &line)).empty())
		wrong = opt.socket + ": " + wrong;
	return wrong.empty() ? show(ctx, line) : report(ctx, wrong);
}

} // namespace usdma::ctl
