/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket of usdma-sim: a line of words in, a line of JSON out.
 *
 *   state               whether a client is there, how many came, the rules and what they did
 *   faults [RULES]      sets the rules (fault_plan.h), which count from now on; without RULES: as state
 *   clear               no rules
 *   vanish [MS]         the client loses the device; others are turned away until "return", or for MS milliseconds
 *   return              clients may come again
 *   help                these words
 *
 * Answers: {"ok": true, …} or {"ok": false, "error": "…"}.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/mapping.h"
#include "driver/sim/unix_listener.h"
#include "driver/sim/fault_plan.h"

#include <atomic>
#include <poll.h>
#include <pthread.h>
#include <string>
#include <string_view>

namespace usdma::sim {

enum class console_word : u8 { state, faults, clear, vanish, come_back, help, count };

struct console_command {
	console_word what = console_word::state;
	std::string_view rules; /* faults */
	bool has_rules = false;
	u64 ms = 0; /* vanish: 0, until told */
};

/* A line without its end, of any bytes. -EINVAL with a text that says what there is. */
int parse_console(std::string_view line, console_command *out);
/* The text as a JSON string, quotes included; what is not printable ASCII becomes '?'. */
std::string json_text(std::string_view text);

inline constexpr size_t console_line = 4096; /* of a command, at most */
inline constexpr unsigned console_peers = 8; /* at a time */

class console {
public:
	console() = default;
	~console();
	console(const console &) = delete;
	console &operator=(const console &) = delete;

	/* The rules to begin with; the socket, as door::open makes it. */
	int open(const std::string &path, std::string_view rules);
	void remove_path() { socket_.remove_path(); }
	void leave_path() { socket_.leave_path(); }
	/*
	 * A thread of its own, until the destructor; or whoever has a loop calls these two: what to poll for,
	 * and then.
	 */
	int start();
	static constexpr unsigned most_watched = console_peers + 1;
	static constexpr int watch_ms = 1000; /* at the latest */
	unsigned watch(pollfd *out) const;
	void attend(const pollfd *in);

	/* For the listener. */
	fault_plan &plan() { return plan_; }
	/* Where clients have processes of their own: what those obey; -ENOMEM. */
	int share();
	fault_board *board() const { return reinterpret_cast<fault_board *>(board_.data()); }
	int drop_fd() const { return drop_.get(); }
	/* False: the device is away just now. */
	bool client_comes();
	void client_left();

	/* The answer to a line, with its end. */
	std::string answer(std::string_view line);

private:
	struct peer {
		unique_fd sock;
		std::string text; /* what came of a line so far */
		u64 until = 0;    /* ns: then it is closed */
	};

	static void *thread_main(void *arg);
	void run();
	void let_in();
	bool read_some(peer &p);
	bool take(peer &p, std::string_view more);
	bool send_all(const peer &p, const std::string &text);
	std::string state();
	std::string obey(const console_command &c);
	void vanish(u64 ms);
	bool away() const;

	fault_plan plan_{true};
	std::atomic<bool> told_{false}; /* rules came over the socket: those count on, whoever comes */
	mapping board_;
	peer peers_[console_peers];
	unix_listener socket_;
	unique_fd quit_, drop_;
	pthread_t thread_ = {};
	bool running_ = false;
	std::atomic<u64> away_until_{0}; /* ns; ~0: until told */
	std::atomic<u64> clients_{0};
	std::atomic<bool> serving_{false};
};

/*
 * Waits for one of n things, and does meanwhile what a console is asked for; p has room for its most_watched as
 * well.
 */
int wait_any(pollfd *p, unsigned n, console *desk, deadline until);

} // namespace usdma::sim
