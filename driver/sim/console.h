/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket of usdma-sim: a command line in, a line of JSON out.
 *
 *   state               whether a client is connected, how many were, the rules and their counts
 *   faults [RULES]      replaces the rules (fault_plan.h) and resets their counts; without RULES: as state
 *   clear               no rules
 *   vanish [MS]         the client loses the device; others are refused until "return", or for MS milliseconds
 *   return              clients may connect again
 *   help                these words
 *
 * Answers: {"ok": true, …} or {"ok": false, "error": "…"}.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/mapping.h"
#include "driver/sim/config.h"
#include "driver/sim/unix_listener.h"
#include "driver/sim/fault_plan.h"

#include <poll.h>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace usdma::sim {

enum class console_word : u8 { state, faults, clear, vanish, come_back, help, count };
inline constexpr std::string_view console_words[] = {"state", "faults", "clear", "vanish", "return", "help"};

struct console_command {
	console_word what = console_word::state;
	std::string_view rules; /* faults */
	bool has_rules = false;
	u64 ms = 0; /* vanish: 0: until "return" */
};

/* A line without its newline, any bytes. -EINVAL with a text that lists the commands. */
int parse_console(std::string_view line, console_command *out);
/* The text as a JSON string, quotes included; what is not printable ASCII becomes '?'. */
std::string json_text(std::string_view text);

inline constexpr size_t console_line = 4096; /* most bytes of a command */
inline constexpr unsigned console_peers = 8; /* most connections */

/* Not thread-safe, except plan(). */
class console {
public:
	console() = default;
	console(const console &) = delete;
	console &operator=(const console &) = delete;

	/* Sets the initial rules of the device; opens the socket as unix_listener::open does. */
	int open(const std::string &path, const config &cfg);
	void remove_path() { socket_.remove_path(); }
	void leave_path() { socket_.leave_path(); }
	/* For an event loop: what to poll, and after poll (wait_any()). */
	static constexpr unsigned poll_fds = console_peers + 1;
	static constexpr int poll_ms = 1000; /* longest poll timeout */
	unsigned fill_poll(pollfd *out) const;
	void handle_poll(const pollfd *in);

	/* For the listener. */
	fault_plan &plan() { return plan_; }
	/* Publishes the rules in shared memory, for clients that are served by their own processes; -ENOMEM. */
	int share();
	fault_page *page() const { return reinterpret_cast<fault_page *>(page_.data()); }
	/* True from "vanish" until the next client: the current one's connection has to end. */
	bool is_dropping() const { return dropping_; }
	/* False: the device has vanished. */
	bool client_comes();
	void client_left();

	/* The reply to a line, newline included. */
	std::string answer(std::string_view line);
	/* A server with commands of its own: replies to each line. */
	using answerer = std::string (*)(void *arg, std::string_view line);
	void answer_by(answerer f, void *arg)
	{
		answers_ = f;
		answers_arg_ = arg;
	}

private:
	struct peer {
		unique_fd sock;
		std::string text; /* incomplete line */
		u64 until = 0;    /* ns: end of the idle timeout */
	};

	void accept_peer();
	bool read_some(peer &p);
	bool take(peer &p, std::string_view more);
	bool send_all(const peer &p, const std::string &text);
	std::string state();
	std::string execute(const console_command &c);
	void vanish(u64 ms);
	bool paused() const;

	fault_plan plan_{true};
	bool rules_set_ = false; /* rules were set over the socket: their counts continue across clients */
	mapping page_;
	answerer answers_ = nullptr;
	void *answers_arg_ = nullptr;
	peer peers_[console_peers];
	unix_listener socket_;
	bool dropping_ = false;
	u64 paused_until_ = 0; /* ns; ~0: until "return" */
	u64 clients_ = 0;
	bool serving_ = false;
};

/* Polls n descriptors, and serves the console meanwhile; p needs poll_fds more entries for that. */
int wait_any(pollfd *p, unsigned n, console *control, deadline until);

} // namespace usdma::sim
#pragma GCC visibility pop
