/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes into the control socket of usdma-sim, by the socket itself.  The input is
 * a row of records: a control byte, a length, so many bytes.  Bits 0-1: which of
 * four peers says them; bit 2: a line's end behind them; bit 3: 40 times over;
 * bit 4: that peer leaves then; bits 5-7: what the device does meanwhile.
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

/* One for all inputs, each of which begins by clearing it. */
struct served {
	served()
	{
		char name[] = "/tmp/usdma-fuzz-XXXXXX";

		must_hold(mkdtemp(name));
		folder = name;
		path = folder + "/ctl";
		must_hold(!desk.open(path, sim::config()));
	}
	~served()
	{
		unlink(path.c_str());
		rmdir(folder.c_str());
	}

	std::string folder, path;
	sim::console desk;
};

struct peer {
	void connect(served *to);
	bool open() const { return sock.valid(); }
	void say(const std::string &text);
	void wait();
	std::string hear();
	bool hears_end();
	void leave() { *this = {}; }

	unique_fd sock;
	served *server = nullptr;
	std::string pending; /* of a line that has no end yet */
};

void peer::connect(served *to)
{
	sockaddr_un a = {};

	server = to;
	sock.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	a.sun_family = AF_UNIX;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", to->path.c_str());
	must_hold(!::connect(sock.get(), reinterpret_cast<sockaddr *>(&a), sizeof(a)));
}

void peer::say(const std::string &text)
{
	must_hold(send(sock.get(), text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size()));
}

/* The console serves until there is something to hear; an answer that does not come is a finding. */
void peer::wait()
{
	const deadline until = deadline::in_ms(20000);
	pollfd p[1 + sim::console::poll_fds] = {{sock.get(), POLLIN, 0}};

	do
		must_hold(!until.passed() && !sim::wait_any(p, 1, &server->desk, until));
	while (!p[0].revents);
}

/* One line, without its end. */
std::string peer::hear()
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

/* The server may have left bytes unread, which the kernel tells as a reset. */
bool peer::hears_end()
{
	char c;

	wait();
	const ssize_t n = recv(sock.get(), &c, 1, 0);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* ---- what must be answered ---------------------------------------------------------------------------- */

struct expectation {
	std::string rules;
	bool away = false;
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

static void obey(const std::string &line, expectation *e)
{
	sim::console_command c;

	must_hold(!sim::parse_console(line, &c)); /* refused by the one, taken by the other */
	if (c.what == sim::console_word::faults && c.has_rules)
		e->rules = c.rules;
	if (c.what == sim::console_word::clear)
		e->rules.clear();
	if (c.what == sim::console_word::vanish && !c.ms) /* for a while: it may be over when it is asked */
		e->away = true;
	if (c.what == sim::console_word::come_back)
		e->away = false;
}

/* One line of JSON that says no with a reason, or what the state is. */
static void check_answer(const std::string &line, const std::string &answer, expectation *e)
{
	const json j = json::parse(answer, nullptr, false);

	must_hold(j.is_object() && j["ok"].is_boolean());
	if (!j["ok"]) {
		must_hold(!j["error"].get<std::string>().empty());
		return;
	}
	must_hold(line.size() <= sim::console_line);
	obey(line, e);
	if (j.contains("help"))
		return;
	must_hold(joined(j["faults"]) == e->rules);
	must_hold(!e->away || j["away"]);
}

/* Says it, and hears what is due: an answer for each line; the end, where a line is too long. */
static void exchange(peer *p, const std::string &text, expectation *e)
{
	p->say(text);
	p->pending += text;
	for (size_t end; (end = p->pending.find('\n')) != p->pending.npos; p->pending.erase(0, end + 1)) {
		const std::string line = p->pending.substr(0, end);

		check_answer(line, p->hear(), e);
		if (line.size() > sim::console_line) /* it may have been too long before its end came */
			return p->leave();
	}
	if (p->pending.size() <= sim::console_line)
		return;
	check_answer(p->pending, p->hear(), e);
	must_hold(p->hears_end());
	p->leave();
}

/* Some lines at a time: who says hundreds and hears none of the answers is turned away. */
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

static void meanwhile(sim::console &desk, u8 what)
{
	switch (what) {
	case 1:
		desk.client_comes();
		break;
	case 2:
		desk.client_left();
		break;
	case 3:
		desk.plan().refuse_map(0x1000, 0x1000);
		break;
	case 4:
		desk.plan().drop_interrupt(0);
		break;
	case 5:
		desk.plan().reply();
		break;
	case 6:
		desk.plan().drop_record(0, 1);
		break;
	default:
		break;
	}
}

/* Not before all that it said was read: else it lingers there as one of eight. */
static void part(peer *p, expectation *e)
{
	if (p->open())
		talk(p, "\n", e);
	p->leave();
}

static void record(served *s, peer *p, u8 control, const std::string &piece, expectation *e)
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
	meanwhile(s->desk, control >> 5);
	if (control & 16)
		part(p, e);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static served s;
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

		record(&s, &all[control & 3], control, std::string(reinterpret_cast<const char *>(piece), len), &e);
	}
	for (peer &p : all)
		part(&p, &e);
	return 0;
}
