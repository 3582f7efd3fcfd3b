/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes for the control socket of usdma-sim, sent through the socket.  The input
 * is a sequence of records: a control byte, a length, that many bytes.  Bits 0-1:
 * which of four peers sends them; bit 2: with a newline; bit 3: 40 times; bit 4:
 * the peer then disconnects; bits 5-7: what the device does meanwhile.
 */
#include "tests/fuzz/fuzz.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/sim/console.h"

#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::fuzz;
using nlohmann::json;

static constexpr unsigned peers = 4;

/* One for all inputs; each input begins by resetting it. */
struct console_server {
	console_server()
	{
		char name[] = "/tmp/usdma-fuzz-XXXXXX";

		must_hold(mkdtemp(name));
		folder = name;
		path = folder + "/ctl";
		must_hold(!console.open(path, sim::config()));
	}
	~console_server()
	{
		unlink(path.c_str());
		rmdir(folder.c_str());
	}

	std::string folder, path;
	sim::console console;
};

struct peer {
	void connect(console_server *to);
	bool open() const { return sock.valid(); }
	void send_text(const std::string &text);
	void wait();
	std::string recv_line();
	bool is_closed();
	void disconnect() { *this = {}; }

	unique_fd sock;
	console_server *server = nullptr;
	std::string pending; /* an incomplete line */
};

void peer::connect(console_server *to)
{
	sockaddr_un a = {};

	server = to;
	sock.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	a.sun_family = AF_UNIX;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", to->path.c_str());
	must_hold(!::connect(sock.get(), reinterpret_cast<sockaddr *>(&a), sizeof(a)));
}

void peer::send_text(const std::string &text)
{
	must_hold(send(sock.get(), text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size()));
}

/* Runs the console until there is something to receive; a missing answer is a finding. */
void peer::wait()
{
	const deadline until = deadline::in_ms(20000);
	pollfd p[1 + sim::console::poll_fds] = {{sock.get(), POLLIN, 0}};

	do
		must_hold(!until.passed() && !sim::wait_any(p, 1, &server->console, until));
	while (!p[0].revents);
}

/* One line, without the newline. */
std::string peer::recv_line()
{
	std::string out;
	char buf[4096];

	while (!out.ends_with('\n')) {
		wait();
		ssize_t n = recv(sock.get(), buf, sizeof(buf), MSG_PEEK);
		must_hold(n > 0);
		const void *end = memchr(buf, '\n', size_t(n));
		n = recv(sock.get(), buf, end ? size_t(static_cast<const char *>(end) - buf) + 1 : size_t(n), 0);
		out.append(buf, size_t(n));
	}
	out.pop_back();
	return out;
}

/* The server may have left bytes unread, which the kernel reports as a reset. */
bool peer::is_closed()
{
	char c;

	wait();
	const ssize_t n = recv(sock.get(), &c, 1, 0);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* ---- the expected answers ----------------------------------------------------------------------------- */

struct expectation {
	std::string rules;
	bool absent = false;
};

static std::string joined(const json &faults)
{
	std::string out;

	for (const json &one : faults) {
		must_hold(one["seen"].is_number_unsigned() && one["struck"].is_number_unsigned());
		must_hold(one["struck"] <= one["seen"]);
		out += (out.empty() ? "" : "+") + one["rule"].get<std::string>();
	}
	return out;
}

static void apply(const std::string &line, expectation *e)
{
	sim::console_command c;

	must_hold(!sim::parse_console(line, &c)); /* the console accepted it, so the parser must, too */
	if (c.what == sim::console_word::faults && c.has_rules)
		e->rules = c.rules;
	if (c.what == sim::console_word::clear)
		e->rules.clear();
	if (c.what == sim::console_word::vanish && !c.ms) /* with a time: it may be over before the answer */
		e->absent = true;
	if (c.what == sim::console_word::come_back)
		e->absent = false;
}

/* One line of JSON: an error with a text, or the state. */
static void check_answer(const std::string &line, const std::string &answer, expectation *e)
{
	const json j = json::parse(answer, nullptr, false);

	must_hold(j.is_object() && j["ok"].is_boolean());
	if (!j["ok"]) {
		must_hold(!j["error"].get<std::string>().empty());
		return;
	}
	must_hold(line.size() <= sim::console_line);
	apply(line, e);
	if (j.contains("help"))
		return;
	must_hold(joined(j["faults"]) == e->rules);
	must_hold(!e->absent || j["away"]);
}

/* Sends text and receives an answer for each line; after a line that is too long, the end of file. */
static void exchange(peer *p, const std::string &text, expectation *e)
{
	p->send_text(text);
	p->pending += text;
	for (size_t end; (end = p->pending.find('\n')) != p->pending.npos; p->pending.erase(0, end + 1)) {
		const std::string line = p->pending.substr(0, end);

		check_answer(line, p->recv_line(), e);
		if (line.size() > sim::console_line) /* it may have been too long before its newline was read */
			return p->disconnect();
	}
	if (p->pending.size() <= sim::console_line)
		return;
	check_answer(p->pending, p->recv_line(), e);
	must_hold(p->is_closed());
	p->disconnect();
}

/* Some lines at a time: the server disconnects a peer that sends hundreds and reads no answer. */
static void talk(peer *p, const std::string &text, expectation *e)
{
	constexpr unsigned lines = 8;

	for (size_t at = 0; at < text.size() && p->open();) {
		size_t end = at;

		for (unsigned i = 0; i < lines && end < text.size(); i++)
			end = std::min(text.find('\n', end), text.size() - 1) + 1;
		exchange(p, text.substr(at, end - at), e);
		at = end;
	}
}

static void device_event(sim::console &console, u8 what)
{
	switch (what) {
	case 1:
		console.client_comes();
		break;
	case 2:
		console.client_left();
		break;
	case 3:
		console.plan().refuse_map(0x1000, 0x1000);
		break;
	case 4:
		console.plan().drop_interrupt(0);
		break;
	case 5:
		console.plan().reply();
		break;
	case 6:
		console.plan().drop_record(0, 1);
		break;
	default:
		break;
	}
}

/* Waits until all its bytes are read: otherwise the server still counts it as one of eight peers. */
static void disconnect(peer *p, expectation *e)
{
	if (p->open())
		talk(p, "\n", e);
	p->disconnect();
}

static void run_record(console_server *s, peer *p, u8 control, const std::string &piece, expectation *e)
{
	std::string text;

	for (unsigned i = control & 8 ? 40 : 1; i--;)
		text += piece;
	if (control & 4)
		text += '\n';
	if (!p->open())
		p->connect(s);
	if (!text.empty())
		talk(p, text, e);
	device_event(s->console, control >> 5);
	if (control & 16)
		disconnect(p, e);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static console_server s;
	input in(data, size);
	peer all[peers];
	expectation e;

	if (size > 4096)
		return 0;
	log_set_level(log_level::none);
	all[0].connect(&s);
	talk(&all[0], "clear\nreturn\n", &e);
	while (!in.empty()) {
		const u8 control = in.get<u8>();
		const size_t want = in.get<u8>();
		size_t len;
		const u8 *piece = in.run(want, &len);

		run_record(&s, &all[control & 3], control, std::string(reinterpret_cast<const char *>(piece), len), &e);
	}
	for (peer &p : all)
		disconnect(&p, &e);
	return 0;
}
