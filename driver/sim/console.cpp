/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/console.h"
#include "driver/sim/models.h"

#include "driver/base/await_fds.h"
#include "driver/base/grow.h"
#include "driver/base/words.h"

#include <climits>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace usdma::sim {

using std::string_view;

/* An idle peer is disconnected after this time. */
static constexpr u64 idle_timeout_ns = 60 * ns_per_s;
static constexpr u64 max_pause_ms = 24 * 3600 * 1000;
static_assert(std::size(console_words) == size_t(console_word::count));

/* ---- parsing --------------------------------------------------------------------------------------- */

static string_view next_word(string_view *text)
{
	const size_t begin = std::min(text->find_first_not_of(" \t\r"), text->size());
	const size_t end = std::min(text->find_first_of(" \t\r", begin), text->size());
	const string_view word = text->substr(begin, end - begin);

	text->remove_prefix(end);
	return word;
}

static int parse_ms(string_view word, u64 *out)
{
	if (!number_parse(word, out, 1, max_pause_ms))
		return fail(EINVAL, "vanish takes milliseconds from 1 to %llu, or nothing: until \"return\"",
			    static_cast<unsigned long long>(max_pause_ms));
	return 0;
}

static int parse_word(string_view word, console_word *out)
{
	for (size_t i = 0; i < std::size(console_words); i++)
		if (console_words[i] == word) {
			*out = console_word(i);
			return 0;
		}
	return fail(EINVAL, "no such command; there are: state, faults [RULES], clear, vanish [MS], return, help");
}

int parse_console(string_view line, console_command *out)
{
	*out = {};
	if (line.size() > console_line)
		return fail(EINVAL, "a command has at most %zu bytes", console_line);
	if (const int err = parse_word(next_word(&line), &out->what))
		return err;
	const string_view more = next_word(&line);
	const bool takes = out->what == console_word::faults || out->what == console_word::vanish;

	if (!next_word(&line).empty() || (!more.empty() && !takes))
		return fail(EINVAL, "too many words: rules are joined by \"+\", without blanks");
	if (out->what == console_word::faults) {
		out->rules = more;
		out->has_rules = !more.empty();
	}
	return out->what == console_word::vanish && !more.empty() ? parse_ms(more, &out->ms) : 0;
}

std::string json_text(string_view text)
{
	std::string out = "\"";

	for (char c : text) {
		if (c == '"' || c == '\\')
			out += '\\';
		out += c >= ' ' && c <= '~' ? c : '?';
	}
	return out + "\"";
}

static std::string error_reply()
{
	return "{\"ok\": false, \"error\": " + json_text(error_text()) + "}\n";
}

std::string console::state()
{
	const std::string lines = plan_.report();
	std::string rules;

	/* "RULE seen N struck M" */
	for (size_t at = 0, end; (end = lines.find('\n', at)) != lines.npos; at = end + 1) {
		string_view line = string_view(lines).substr(at, end - at);
		const string_view rule = next_word(&line);
		next_word(&line);
		const string_view seen = next_word(&line);
		next_word(&line);

		rules += (rules.empty() ? "" : ", ") + ("{\"rule\": " + json_text(rule)) +
			 ", \"seen\": " + std::string(seen) + ", \"struck\": " + std::string(next_word(&line)) + "}";
	}
	return std::string("{\"ok\": true, \"serving\": ") + (serving_ ? "true" : "false") +
	       ", \"away\": " + (paused() ? "true" : "false") + ", \"clients\": " + std::to_string(clients_) +
	       ", \"faults\": [" + rules + "]}\n";
}

std::string console::execute(const console_command &c)
{
	int err = 0;

	switch (c.what) {
	case console_word::faults:
		err = c.has_rules ? plan_.set(c.rules) : 0;
		if (c.has_rules && !err)
			rules_set_ = true;
		break;
	case console_word::clear:
		plan_.set("");
		rules_set_ = true;
		break;
	case console_word::vanish:
		vanish(c.ms);
		break;
	case console_word::come_back:
		paused_until_ = 0;
		break;
	case console_word::help:
		return "{\"ok\": true, \"help\": \"state, faults [RULES], clear, vanish [MS], return, help\"}\n";
	default:
		break;
	}
	return err ? error_reply() : state();
}

std::string console::answer(string_view line)
{
	console_command c;

	if (answers_)
		return answers_(answers_arg_, line);
	return parse_console(line, &c) ? error_reply() : execute(c);
}

/* ---- for the listener ------------------------------------------------------------------------------- */

bool console::paused() const
{
	return now_ns() < paused_until_;
}

/* Refuse new clients before the current one is dropped: it must not reconnect in between. */
void console::vanish(u64 ms)
{
	paused_until_ = ms ? now_ns() + ms * ns_per_ms : ~u64(0);
	dropping_ = true;
}

bool console::client_comes()
{
	if (paused())
		return false;
	dropping_ = false;
	plan_.new_client(!rules_set_);
	serving_ = true;
	clients_++;
	return true;
}

void console::client_left()
{
	serving_ = false;
}

/* ---- the socket ------------------------------------------------------------------------------------- */

int console::open(const std::string &path, const config &cfg)
{
	plan_.makes_mistakes(cfg.model->makes_mistakes);
	if (const int err = plan_.set(cfg.faults))
		return err;
	return socket_.open(path);
}

int console::share()
{
	void *page = mmap(nullptr, sizeof(fault_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return fail_errno("memory for the rules of faults");
	page_ = mapping(page, sizeof(fault_page));
	plan_.publish(this->page());
	return 0;
}

/* A connection beyond the limit is closed. */
void console::accept_peer()
{
	unique_fd sock;

	if (socket_.accept(&sock, SOCK_NONBLOCK))
		return;
	for (peer &p : peers_)
		if (!p.sock.valid()) {
			p = {std::move(sock), {}, now_ns() + idle_timeout_ns};
			return;
		}
}

/* Replies are short: one that does not fit the socket buffer means that the peer does not read. */
bool console::send_all(const peer &p, const std::string &text)
{
	return send(p.sock.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(text.size());
}

/* False: close this peer. */
bool console::read_some(peer &p)
{
	char buf[512];
	const ssize_t n = read(p.sock.get(), buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	p.until = now_ns() + idle_timeout_ns;
	return within_memory("a command", [&] { return take(p, string_view(buf, size_t(n))) ? 0 : -ECONNRESET; }) == 0;
}

/* Appends input and executes complete lines. False: close this peer. */
bool console::take(peer &p, string_view more)
{
	p.text += more;
	for (size_t end; (end = p.text.find('\n')) != p.text.npos; p.text.erase(0, end + 1))
		if (!send_all(p, answer(string_view(p.text).substr(0, end))))
			return false;
	if (p.text.size() <= console_line)
		return true;
	send_all(p, answer(p.text));
	return false;
}

unsigned console::fill_poll(pollfd *out) const
{
	for (unsigned i = 0; i < console_peers; i++)
		out[i] = {peers_[i].sock.get(), POLLIN, 0};
	out[console_peers] = {socket_.fd(), POLLIN, 0};
	return poll_fds;
}

void console::handle_poll(const pollfd *in)
{
	for (unsigned i = 0; i < console_peers; i++) {
		peer &p = peers_[i];

		if (p.sock.valid() && ((in[i].revents && !read_some(p)) || now_ns() > p.until))
			p = {};
	}
	if (in[console_peers].revents)
		accept_peer();
}

int wait_any(pollfd *p, unsigned n, console *control, deadline until)
{
	const unsigned all = n + (control ? control->fill_poll(p + n) : 0);
	const int most = control ? console::poll_ms : INT_MAX;

	if (await_fds(p, all, until.is_never() && !control ? -1 : until.left_ms(most)) < 0)
		for (unsigned i = 0; i < all; i++)
			p[i].revents = 0;
	if (control)
		control->handle_poll(p + n);
	return 0;
}

} // namespace usdma::sim
