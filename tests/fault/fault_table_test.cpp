/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault table: fault × path × wait mode, over the embedded device and over
 * one in a process of its own.  For each cell: what the caller hears, after how
 * long, the state after it, and what stays behind.  A copy that was accepted
 * either lands whole or is reported; nothing hangs; the same device goes on
 * afterwards, by itself or after resets (or, once lost, opens again); and no
 * descriptor and no mapping stays.
 *
 * Nearly all of a cell's time is waiting: several workers, processes of this
 * program's own, take the cells in turn.
 * Run as: fault-table (USDMA_SIM names the device program).
 */
#include "driver/vfio/device.h"
#include "tests/fault/paths.h"
#include "tests/support/core.h"
#include "tests/support/level.h"
#include "tests/support/sim_process.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using namespace usdma::test;

static const char *const mode_names[] = {"poll", "interrupt", "hybrid"};

/* ---- faults ------------------------------------------------------------------------------------------ */

/* What the caller hears, and what the device is afterwards. */
enum class after : u8 {
	whole,       /* nothing: the data is there */
	told,        /* an error; the device goes on, once the fault is over */
	recovered,   /* an error; resets have brought it back, though nobody took the fault away */
	given_up,    /* errors until it is lost; it opens again */
	gone,        /* ENODEV; it opens again */
	quiet,       /* told or whole: the reason is one that the driver may take for its own doing */
	gone_late,   /* an error, or nothing yet if the answer was of no use to anybody; lost; it opens again */
	unanswered,  /* an error, or nothing yet; lost only where nobody can tell whether it was done */
	gone_or_not, /* as gone_late, or nothing: not every answer can be spoilt in this way */
};
/* Where the fault strikes. */
enum class on : u8 {
	work,     /* the work of a path whose stream and memory are there */
	messages, /* making its stream and mapping its memory as well: a wait mode means nothing to that */
	each,     /* as messages, once for each number k in the rules */
	process,  /* the work, and the device is a process */
};
/* Which cells the fault must come to; in the others it may have nothing to strike, and the table says so. */
enum class sure : u8 { all, asleep /* who polls asks for no interrupts */, batch /* which has the most descriptors */ };
struct fault_case {
	const char *rules;
	after what;
	on where = on::work;
	sure comes = sure::all;
};
static const fault_case cases[] = {
	{"fail@1", after::told},
	{"fail@1/bad-op", after::told},
	{"fail@1/bad-length", after::told},
	{"fail@2/src-unmapped", after::told},
	{"fail@1/dst-unmapped", after::told},
	{"fail@1/src-denied", after::told},
	{"fail@2/dst-denied", after::told},
	{"fail@1/unaligned", after::told},
	{"fail@1/timeout", after::told},
	{"fail@1/bad-tag", after::told},
	{"fail@1/transfer", after::told},
	{"fail@2/stopped", after::quiet},
	{"fail@1/lost", after::told},
	{"fail@2/reset", after::told},
	{"slow@1/20000", after::whole},
	{"slow@1/600000", after::whole}, /* beyond USDMA_HANG_MS: slow is not dead */
	{"drop-irq%1", after::whole, on::work, sure::asleep},
	{"drop-irq@1", after::whole, on::work, sure::asleep},
	{"drop-record@1", after::whole},
	{"drop-record%2+drop-irq%2", after::whole, on::work, sure::batch},
	{"drop-record~900000", after::whole, on::work, sure::batch}, /* records come late */
	{"hang@1", after::recovered},
	{"hang@1/device", after::recovered},
	{"hang@1/for-good", after::given_up},
	{"refuse-map@1", after::told, on::messages},
	{"reply@1/drop", after::unanswered, on::messages}, /* takes as long as an answer may, 5 s */
	{"reply@9/wrong-id", after::unanswered, on::messages},
	{"reply@k/close", after::gone_late, on::each}, /* disconnects at message k */
	{"reply@k/short", after::gone_or_not, on::each},
	{"reply@k/long", after::gone_late, on::each},
	{"reply@k/garbage", after::gone_late, on::each},
	{"vanish@1", after::gone},
	{"vanish@2", after::gone, on::process}, /* the process lives on and serves again */
	{"die@1", after::gone, on::process},
	{"die@2", after::gone, on::process},
	{"die@4", after::gone, on::process, sure::batch},
};
static constexpr unsigned case_count = sizeof(cases) / sizeof(*cases);
static constexpr unsigned wait_modes = 3;
static constexpr unsigned cell_count = case_count * path_count * wait_modes;
static constexpr unsigned workers = 4;
/* Slots of the workers' devices. */
static constexpr unsigned embedded = 0, peer_slot = 1, process = 2;

static bool by_messages(const fault_case &f)
{
	return f.where == on::messages || f.where == on::each;
}

/* ---- the device in a process --------------------------------------------------------------------------- */

static std::string folder;
static pid_t sim = -1;

static void serve()
{
	unlink((folder + "/dev").c_str());
	unlink((folder + "/ctl").c_str());
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev",
			{"--control", (folder + "/ctl").c_str(), "--engines", "1", "--channels", "4", "--mem", "64M"});
	assert_true(sim > 0);
}

/* It was killed by the fault, not by us. */
static void come_back()
{
	int status;

	assert_int_equal(waitpid(sim, &status, 0), sim);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	serve();
}

/* ---- a cell ---------------------------------------------------------------------------------------------- */

struct cell {
	const fault_case &f;
	const path &p;
	wait_mode mode;
	/* What is said of it. */
	std::string heard, state, wrong = {};
	u64 us = 0;
	unsigned met = 0; /* times that the fault struck */
};

static unsigned slot_of(const cell &c)
{
	return c.f.where == on::process ? process : embedded;
}

static void inject(setting *t, const cell &c, const std::string &rules)
{
	if (c.f.where == on::process)
		assert_non_null(strstr(tell_sim(folder + "/ctl", rules.empty() ? "clear" : "faults " + rules).c_str(),
				       "\"ok\": true"));
	else
		ok(t->dev->eng->transport().inject(rules));
}

/* The device left its client, or was killed: asking it is no use, and needless. */
static bool has_struck(setting *t, const cell &c)
{
	std::string said;

	if (t->dev->lost())
		return true;
	if (c.f.where == on::process)
		said = tell_sim(folder + "/ctl", "state");
	else
		ok(t->dev->eng->transport().injected(&said));
	const size_t at = said.find("struck");
	const std::string count = at == said.npos ? "" : said.substr(said.find_first_of("0123456789", at));

	return atoi(count.c_str()) > 0;
}

/* The first thing that is wrong with a cell is what is told of it. */
static void blame(cell *c, const std::string &what)
{
	if (c->wrong.empty())
		c->wrong = what;
}

static bool must_meet(const cell &c)
{
	return c.f.comes == sure::all ||
	       (c.f.comes == sure::asleep ? c.mode == wait_mode::interrupt : !strcmp(c.p.name, "batch"));
}

static void add_word(std::string *to, const char *word)
{
	if (to->find(word) == to->npos)
		*to += (to->empty() ? "" : " or ") + std::string(word);
}

static void note(cell *c, int err, u64 us)
{
	add_word(&c->heard, err ? strerror(-err) : "lands whole");
	c->us = std::max(c->us, us);
	c->met++;
}

static bool may_be_whole(after what)
{
	return what != after::told && what != after::recovered && what != after::given_up && what != after::gone;
}

/* What was heard against what must be; silence is an end without an error and without the data. */
static void judge(cell *c, setting *t, int err, u64 us)
{
	const after what = c->f.what;

	if (us > 15 * ns_per_s / ns_per_us)
		blame(c, "hang");
	if (!err && !is_whole(t))
		blame(c, "silent");
	if (err ? what == after::whole : !may_be_whole(what))
		blame(c, "unexpected");
	if ((what == after::gone && err != -ENODEV) || (what == after::gone_late && !t->dev->lost()))
		blame(c, "not lost");
}

/* -EAGAIN: the fault does not come to this path. */
static int strike(setting *t, cell *c, const std::string &rules)
{
	memset(t->out, 0, path_size);
	inject(t, *c, rules);
	const u64 began = now_ns();
	const int err = by_messages(c->f) ? run_anew(t, c->p) : c->p.run(t);
	const u64 us = (now_ns() - began) / ns_per_us;

	if (!has_struck(t, *c)) {
		if (err || !is_whole(t))
			blame(c, "fails without a fault");
		return -EAGAIN;
	}
	judge(c, t, err, us);
	note(c, err, us);
	return err;
}

/* Without faults, or after what recovered them, the path is whole. */
static void goes_on(setting *t, cell *c)
{
	stream_sync(t->s, soon());
	memset(t->out, 0, path_size);
	error_clear();
	if (c->p.run(t) || !is_whole(t))
		blame(c, std::string("does not go on: ") + error_text());
}

/* A reset of the device comes after one of the channel did not help: whoever tried in between hears of that too. */
static void is_recovered(setting *t, cell *c)
{
	int err = -EIO;

	for (int i = 0; i < 3 && err == -EIO; i++)
		err = c->p.run(t);
	if (err)
		blame(c, "is not cured");
	goes_on(t, c);
}

/* Resets did not help for good: within a few tries it is lost. */
static void ends_lost(setting *t, cell *c)
{
	int err = 0;

	for (int i = 0; i < 8 && err != -ENODEV; i++) {
		err = c->p.run(t);
		if (!err)
			blame(c, "works while it hangs for good");
	}
	if (err != -ENODEV)
		blame(c, "is not given up");
}

static void open_again(cell *c)
{
	setting t;

	if (!strncmp(c->f.rules, "die", 3))
		come_back();
	if (c->f.where == on::process)
		inject(nullptr, *c, "");
	set_up(&t, slot_of(*c), peer_slot, c->mode);
	goes_on(&t, c);
	tear_down(&t);
}

/* False: the fault did not come to this path. */
static bool once(cell *c, const std::string &rules)
{
	setting t;

	set_up(&t, slot_of(*c), peer_slot, c->mode);
	const bool met = strike(&t, c, rules) != -EAGAIN;
	if (met && c->f.what == after::given_up)
		ends_lost(&t, c);
	if (met && c->f.what == after::recovered)
		is_recovered(&t, c);
	const bool lost = t.dev->lost();
	if (lost) {
		if (copy_sync(t.dev, ptr(t.d), t.in, path_size, soon()) != -ENODEV)
			blame(c, "does not say that it is lost");
	} else {
		inject(&t, *c, "");
		goes_on(&t, c);
	}
	tear_down(&t);
	if (lost)
		open_again(c);
	if (met)
		add_word(&c->state, lost ? "lost, opens again" : "goes on");
	return met;
}

/* Each message from the first to the last. */
static void at_each(cell *c)
{
	const std::string text = c->f.rules;
	const size_t at = text.find("@k");
	unsigned k = 1;

	while (k < 200 && once(c, text.substr(0, at + 1) + std::to_string(k) + text.substr(at + 2)))
		k++;
	if (c->met)
		c->heard += " (k = 1 to " + std::to_string(k - 1) + ")";
}

/* One line, which table.py reads. */
static void say(const cell &c, const char *stays)
{
	fprintf(stderr, "# %-26s %-10s %-9s %s, %llu us; %s; %s\n", c.f.rules, c.p.name,
		by_messages(c.f) ? "any" : mode_names[int(c.mode)], c.met ? c.heard.c_str() : "does not come here",
		static_cast<unsigned long long>(c.us), c.met ? c.state.c_str() : "goes on",
		!c.wrong.empty() ? c.wrong.c_str() :
		*stays           ? "LEAK" :
				   "nothing stays");
	if (*stays)
		fprintf(stderr, "%s\n", stays);
}

/*
 * What is made once in a process is there before anything is counted, and so is what a kind of device keeps for the
 * next of its kind: pinned memory that a server of another process had is not used again once its device is closed.
 */
static void warm_up(unsigned slot)
{
	static unsigned warm = peer_slot;

	if (warm == slot)
		return;
	warm = slot;
	for (const path &p : paths) {
		setting t;

		set_up(&t, slot, peer_slot, wait_mode::hybrid);
		ok(run_anew(&t, p));
		assert_true(is_whole(&t));
		tear_down(&t);
	}
}

/* By default each fault meets each path in one wait mode; USDMA_TEST_SCALE=2: in all of them. */
static bool is_wanted(const cell &c, unsigned number)
{
	if (by_messages(c.f))
		return c.mode == wait_mode::hybrid;
	return scale() > 1 || number % wait_modes == number / wait_modes % wait_modes;
}

static bool cell_is_good(unsigned number)
{
	cell c = {cases[number / wait_modes / path_count], paths[number / wait_modes % path_count],
		  wait_mode(number % wait_modes)};

	if (!is_wanted(c, number))
		return true;
	warm_up(slot_of(c));
	const level before;
	if (c.f.where == on::each)
		at_each(&c);
	else
		/* Work that is done before its waiter has lain down needs no interrupt: chance, and rare. */
		for (int tries = 0; tries < 20 && !once(&c, c.f.rules) && must_meet(c); tries++)
			;
	if (!c.met && must_meet(c))
		blame(&c, "the fault never came");
	const std::string stays = what_stays(before, level());
	say(c, stays.c_str());
	return c.wrong.empty() && stays.empty();
}

/* ---- a worker ----------------------------------------------------------------------------------------- */

static unsigned mine;

static void share_of_cells(void **)
{
	unsigned bad = 0;

	warm_up(process);
	for (unsigned i = mine; i < cell_count; i += workers)
		bad += !cell_is_good(i);
	assert_int_equal(bad, 0);
}

static int worker_set_up(void **)
{
	char name[] = "/tmp/usdma-table-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	serve();
	setenv("USDMA_DEVICES",
	       ("sim:mem=64M:engines=1:channels=4:faults=,sim:mem=64M:engines=1:channels=2,vfio-user:" + folder +
		"/dev")
		       .c_str(),
	       1);
	return 0;
}

static int worker_tear_down(void **)
{
	end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

static int worker()
{
	const CMUnitTest tests[] = {cmocka_unit_test(share_of_cells)};

	return cmocka_run_group_tests_name("a share of the fault table", tests, worker_set_up, worker_tear_down);
}

/* ---- all of them ---------------------------------------------------------------------------------------- */

struct hand {
	pid_t pid;
	int from;
	std::string said = {};
};

static hand start_worker(unsigned number)
{
	const std::string which = std::to_string(number);
	int out[2];

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(out[1], STDERR_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl("/proc/self/exe", "fault-table", "--share", which.c_str(), nullptr);
		_exit(127);
	}
	assert_true(pid > 0);
	close(out[1]);
	return {pid, out[0]};
}

/* Until all have closed their ends. */
static void listen(std::vector<hand> &hands)
{
	char buf[4096];

	for (size_t open = hands.size(); open;) {
		std::vector<pollfd> p;

		for (const hand &h : hands)
			p.push_back({h.from, POLLIN, 0});
		assert_true(poll(p.data(), p.size(), -1) > 0);
		for (size_t i = 0; i < hands.size(); i++) {
			if (!p[i].revents)
				continue;
			const ssize_t n = read(hands[i].from, buf, sizeof(buf));
			if (n > 0) {
				hands[i].said.append(buf, size_t(n));
				continue;
			}
			close(hands[i].from);
			hands[i].from = -1; /* poll passes it over */
			open--;
		}
	}
}

/* Cells in the order of the table, whoever had them. */
static void print_cells(const std::vector<hand> &hands)
{
	std::map<std::string, size_t> at;
	std::multimap<size_t, std::string> lines;

	for (size_t i = 0; i < case_count; i++)
		at.emplace(cases[i].rules, i);
	for (const hand &h : hands)
		for (size_t from = 0, to; (to = h.said.find('\n', from)) != h.said.npos; from = to + 1) {
			const std::string line = h.said.substr(from, to - from);
			const auto it = line.rfind("# ", 0) ? at.end() : at.find(line.substr(2, line.find(' ', 2) - 2));

			if (it != at.end())
				lines.emplace(it->second, line);
		}
	for (const auto &[which, line] : lines)
		fprintf(stderr, "%s\n", line.c_str());
}

static void table(void **)
{
	std::vector<hand> hands;
	unsigned bad = 0;

	setenv("USDMA_TEST_SEED", std::to_string(seed()).c_str(), 1);
	for (unsigned i = 0; i < workers; i++)
		hands.push_back(start_worker(i));
	listen(hands);
	print_cells(hands);
	for (hand &h : hands) {
		int status;

		assert_int_equal(waitpid(h.pid, &status, 0), h.pid);
		if (status)
			fprintf(stderr, "a worker ended with status 0x%x:\n%s\n", unsigned(status), h.said.c_str());
		bad += status != 0;
	}
	assert_int_equal(bad, 0);
}

static void bad_rules(void **)
{
	setting t;

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=1:channels=4:faults=,sim:mem=64M:engines=1:channels=2", 1);
	set_up(&t, embedded, peer_slot, wait_mode::hybrid);
	for (const char *text :
	     {"fail", "fail@0", "fail@x", "fail@1/nonsense", "slow@1", "die@1", "hang@1/3", "reply@1", "+"})
		assert_int_equal(t.dev->eng->transport().inject(text), -EINVAL);
	tear_down(&t);
}

int main(int argc, char **argv)
{
	const CMUnitTest tests[] = {cmocka_unit_test(table), cmocka_unit_test(bad_rules)};

	setenv("USDMA_HANG_MS", "250", 1);
	setenv("USDMA_LOG", "none", 1);
	setenv("USDMA_HOST_ARENA", "1M", 1); /* small: memory that stays shows soon, and new memory is mapped */
	if (argc == 3 && !strcmp(argv[1], "--share")) {
		mine = unsigned(atoi(argv[2]));
		return worker();
	}
	return cmocka_run_group_tests_name("fault table", tests, nullptr, nullptr);
}
