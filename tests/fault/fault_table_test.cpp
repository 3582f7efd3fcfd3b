/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault table: fault × path × wait mode, on the embedded device and on one
 * in a process.  Each cell has the result that the caller gets, the time until
 * then, the state of the device after it, and what was leaked.  An accepted copy
 * is complete or reported; nothing hangs; afterwards the same device works, by
 * itself or after resets (or is opened again if it was lost); and no file
 * descriptor and no mapping is leaked.
 *
 * A cell mostly waits, so several worker processes run the cells in turn.
 * Run as: fault-table (USDMA_SIM names the device program).
 */
#include "driver/vfio/device.h"
#include "lib/core/memory/retire.h"
#include "lib/core/stream/listen.h"
#include "tests/fault/paths.h"
#include "tests/support/core.h"
#include "tests/support/level.h"
#include "tests/support/sim_process.h"
#include "tests/support/dropping.h"

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

/* What the caller gets, and the state of the device afterwards. */
enum class after : u8 {
	whole,             /* no error: the data is complete */
	reported,          /* an error; the device works again without the fault */
	recovered,         /* an error; resets recover the device although the fault stays */
	given_up,          /* errors until the device is lost; it opens again */
	lost,              /* -ENODEV; it opens again */
	whole_or_reported, /* the driver may take this fault for its own action and retry */
	lost_late,         /* an error, or none if the reply was not needed; lost; it opens again */
	lost_if_unsure,    /* an error or none; lost only if it is unknown whether the request was executed */
	maybe_lost,        /* as lost_late, or no error: some replies cannot be damaged in this manner */
};
/* The scope in which the fault is injected. */
enum class on : u8 {
	work,     /* the copies of a path, whose stream and memory exist already */
	messages, /* also the creation of its stream and its mappings, which depend on no wait mode */
	each,     /* as messages, once for each number k in the rules */
	process,  /* as work, on the device in a process */
};
/* The cells in which the fault must strike; in the others it may not, and the table says so. */
enum class coverage : u8 { all, asleep /* only sleepers use interrupts */, batch /* the most descriptors */ };
struct fault_case {
	const char *rules;
	after what;
	on where = on::work;
	coverage must_strike = coverage::all;
};
static const fault_case cases[] = {
	{"fail@1", after::reported},
	{"fail@1/bad-op", after::reported},
	{"fail@1/bad-length", after::reported},
	{"fail@2/src-unmapped", after::reported},
	{"fail@1/dst-unmapped", after::reported},
	{"fail@1/src-denied", after::reported},
	{"fail@2/dst-denied", after::reported},
	{"fail@1/unaligned", after::reported},
	{"fail@1/timeout", after::reported},
	{"fail@1/bad-tag", after::reported},
	{"fail@1/transfer", after::reported},
	{"fail@2/stopped", after::whole_or_reported},
	{"fail@1/lost", after::reported},
	{"fail@2/reset", after::reported},
	{"slow@1/20000", after::whole},
	{"slow@1/600000", after::whole}, /* longer than USDMA_HANG_MS, but not a hang */
	{"drop-irq%1", after::whole, on::work, coverage::asleep},
	{"drop-irq@1", after::whole, on::work, coverage::asleep},
	{"drop-record@1", after::whole},
	{"drop-record%2+drop-irq%2", after::whole, on::work, coverage::batch},
	{"drop-record~900000", after::whole, on::work, coverage::batch}, /* records come late */
	{"hang@1", after::recovered},
	{"hang@1/device", after::recovered},
	{"hang@1/for-good", after::given_up},
	{"refuse-map@1", after::reported, on::messages},
	{"reply@1/drop", after::lost_if_unsure, on::messages}, /* takes the reply timeout, 5 s */
	{"reply@9/wrong-id", after::lost_if_unsure, on::messages},
	{"reply@k/close", after::lost_late, on::each}, /* disconnects at message k */
	{"reply@k/short", after::maybe_lost, on::each},
	{"reply@k/long", after::lost_late, on::each},
	{"reply@k/garbage", after::lost_late, on::each},
	{"vanish@1", after::lost},
	{"vanish@2", after::lost, on::process}, /* the process serves again */
	{"die@1", after::lost, on::process},
	{"die@2", after::lost, on::process},
	{"die@4", after::lost, on::process, coverage::batch},
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

/* The fault has killed the process. */
static void restart_killed()
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
	/* The results. */
	std::string result, state, failure = {};
	u64 us = 0;
	unsigned struck = 0; /* runs in which the fault struck */
};

static unsigned slot_of(const cell &c)
{
	return c.f.where == on::process ? process : embedded;
}

static void inject(setting *t, const cell &c, const std::string &rules)
{
	if (c.f.where == on::process)
		assert_non_null(
			strstr(send_control_line(folder + "/ctl", rules.empty() ? "clear" : "faults " + rules).c_str(),
			       "\"ok\": true"));
	else
		ok(t->dev->eng->transport().inject(rules));
}

/* A device that closed the connection or was killed cannot be queried. */
static bool has_struck(setting *t, const cell &c)
{
	std::string output;

	if (t->dev->lost())
		return true;
	if (c.f.where == on::process)
		output = send_control_line(folder + "/ctl", "state");
	else
		ok(t->dev->eng->transport().injected(&output));
	const size_t at = output.find("struck");
	const std::string count = at == output.npos ? "" : output.substr(output.find_first_of("0123456789", at));

	return atoi(count.c_str()) > 0;
}

/* Only the first failure of a cell is reported. */
static void set_failure(cell *c, const std::string &what)
{
	if (c->failure.empty())
		c->failure = what;
}

static bool is_required(const cell &c)
{
	return c.f.must_strike == coverage::all ||
	       (c.f.must_strike == coverage::asleep ? c.mode == wait_mode::interrupt : !strcmp(c.p.name, "batch"));
}

static void add_word(std::string *to, const char *word)
{
	if (to->find(word) == to->npos)
		*to += (to->empty() ? "" : " or ") + std::string(word);
}

static void add_result(cell *c, int err, u64 us)
{
	add_word(&c->result, err ? strerror(-err) : "lands whole");
	c->us = std::max(c->us, us);
	c->struck++;
}

static bool may_be_whole(after what)
{
	return what != after::reported && what != after::recovered && what != after::given_up && what != after::lost;
}

/* Compares the result with the expected one; "silent": no error although data is missing. */
static void check_result(cell *c, setting *t, int err, u64 us)
{
	const after what = c->f.what;

	if (us > 15 * ns_per_s / ns_per_us)
		set_failure(c, "hang");
	if (!err && !is_whole(t))
		set_failure(c, "silent");
	if (err ? what == after::whole : !may_be_whole(what))
		set_failure(c, "unexpected");
	if ((what == after::lost && err != -ENODEV) || (what == after::lost_late && !t->dev->lost()))
		set_failure(c, "not lost");
}

/* -EAGAIN: the fault does not strike on this path. */
static int strike(setting *t, cell *c, const std::string &rules)
{
	memset(t->out, 0, path_size);
	inject(t, *c, rules);
	const u64 began = now_ns();
	const int err = by_messages(c->f) ? run_anew(t, c->p) : c->p.run(t);
	const u64 us = (now_ns() - began) / ns_per_us;

	if (!has_struck(t, *c)) {
		if (err || !is_whole(t))
			set_failure(c, "fails although no fault struck");
		return -EAGAIN;
	}
	check_result(c, t, err, us);
	add_result(c, err, us);
	return err;
}

/* Without faults, or after a recovery, the path copies everything. */
static void check_works(setting *t, cell *c)
{
	stream_sync(t->s, soon());
	memset(t->out, 0, path_size);
	error_clear();
	if (c->p.run(t) || !is_whole(t))
		set_failure(c, std::string("does not work afterwards: ") + error_text());
}

/* The device is reset if a channel reset did not help: copies in between fail as well. */
static void check_recovered(setting *t, cell *c)
{
	int err = -EIO;

	for (int i = 0; i < 3 && err == -EIO; i++)
		err = c->p.run(t);
	if (err)
		set_failure(c, "is not recovered");
	check_works(t, c);
}

/* Resets do not help: the device is lost within a few tries. */
static void check_given_up(setting *t, cell *c)
{
	int err = 0;

	for (int i = 0; i < 8 && err != -ENODEV; i++) {
		err = c->p.run(t);
		if (!err)
			set_failure(c, "works while it hangs for good");
	}
	if (err != -ENODEV)
		set_failure(c, "is not given up");
}

static void reopen(cell *c)
{
	setting t;

	if (!strncmp(c->f.rules, "die", 3))
		restart_killed();
	if (c->f.where == on::process)
		inject(nullptr, *c, "");
	set_up(&t, slot_of(*c), peer_slot, c->mode);
	check_works(&t, c);
	tear_down(&t);
}

/* False: the fault did not strike on this path. */
static bool run_once(cell *c, const std::string &rules)
{
	setting t;

	set_up(&t, slot_of(*c), peer_slot, c->mode);
	const bool struck = strike(&t, c, rules) != -EAGAIN;
	if (struck && c->f.what == after::given_up)
		check_given_up(&t, c);
	if (struck && c->f.what == after::recovered)
		check_recovered(&t, c);
	const bool lost = t.dev->lost();
	if (lost) {
		if (copy_sync(t.dev, ptr(t.d), t.in, path_size, soon()) != -ENODEV)
			set_failure(c, "does not report that it is lost");
	} else {
		inject(&t, *c, "");
		check_works(&t, c);
	}
	tear_down(&t);
	if (lost)
		reopen(c);
	if (struck)
		add_word(&c->state, lost ? "lost, opens again" : "goes on");
	return struck;
}

/* Runs once for each message of the path. */
static void run_each_message(cell *c)
{
	const std::string text = c->f.rules;
	const size_t at = text.find("@k");
	unsigned k = 1;

	while (k < 200 && run_once(c, text.substr(0, at + 1) + std::to_string(k) + text.substr(at + 2)))
		k++;
	if (c->struck)
		c->result += " (k = 1 to " + std::to_string(k - 1) + ")";
}

/* Prints the line that table.py reads. */
static void print_cell(const cell &c, const char *leaks)
{
	fprintf(stderr, "# %-26s %-10s %-9s %s, %llu us; %s; %s\n", c.f.rules, c.p.name,
		by_messages(c.f) ? "any" : mode_names[int(c.mode)], c.struck ? c.result.c_str() : "not struck",
		static_cast<unsigned long long>(c.us), c.struck ? c.state.c_str() : "goes on",
		!c.failure.empty() ? c.failure.c_str() :
		*leaks             ? "LEAK" :
				     "nothing left");
	if (*leaks)
		fprintf(stderr, "%s\n", leaks);
}

/*
 * Allocates what exists once in a process, or is cached for the next device of this kind, before leaks are counted.
 * Pinned memory that was shared with a server in another process is not reused after its device is closed.
 */
static void warm_up(unsigned slot)
{
	static unsigned warm = peer_slot;

	if (warm == slot)
		return;
	warm = slot;
	ok(progress_start()); /* checks lost devices whose servers go on */
	for (const path &p : paths) {
		setting t;

		set_up(&t, slot, peer_slot, wait_mode::hybrid);
		ok(run_anew(&t, p));
		assert_true(is_whole(&t));
		tear_down(&t);
	}
}

/* By default each fault runs on each path in one wait mode; with USDMA_TEST_SCALE=2 in all of them. */
static bool is_selected(const cell &c, unsigned number)
{
	if (by_messages(c.f))
		return c.mode == wait_mode::hybrid;
	return scale() > 1 || number % wait_modes == number / wait_modes % wait_modes;
}

static bool run_cell(unsigned number)
{
	cell c = {cases[number / wait_modes / path_count], paths[number / wait_modes % path_count],
		  wait_mode(number % wait_modes)};

	if (!is_selected(c, number))
		return true;
	warm_up(slot_of(c));
	const level before;
	if (c.f.where == on::each)
		run_each_message(&c);
	else
		/* Rarely the work is done before its waiter sleeps and needs no interrupt: run it again. */
		for (int tries = 0; tries < 20 && !run_once(&c, c.f.rules) && is_required(c); tries++)
			;
	if (!c.struck && is_required(c))
		set_failure(&c, "the fault never struck");
	/* A lost device is retained until its server has ended. */
	for (unsigned i = 0; i < 5000 && retired_get().devices; i++)
		usleep(1000);
	const std::string leaks = leak_report(before, level());
	print_cell(c, leaks.c_str());
	return c.failure.empty() && leaks.empty();
}

/* ---- a worker ----------------------------------------------------------------------------------------- */

static unsigned worker_number;

static void share_of_cells(void **)
{
	unsigned bad = 0;

	warm_up(process);
	for (unsigned i = worker_number; i < cell_count; i += workers)
		bad += !run_cell(i);
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

/* ---- all workers ---------------------------------------------------------------------------------------- */

struct worker_process {
	pid_t pid;
	int from;
	std::string output = {};
};

static worker_process start_worker(unsigned number)
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

/* Reads the output of all workers until they have closed their pipes. */
static void read_outputs(std::vector<worker_process> &running)
{
	char buf[4096];

	for (size_t open = running.size(); open;) {
		std::vector<pollfd> p;

		for (const worker_process &h : running)
			p.push_back({h.from, POLLIN, 0});
		assert_true(poll(p.data(), p.size(), -1) > 0);
		for (size_t i = 0; i < running.size(); i++) {
			if (!p[i].revents)
				continue;
			const ssize_t n = read(running[i].from, buf, sizeof(buf));
			if (n > 0) {
				running[i].output.append(buf, size_t(n));
				continue;
			}
			close(running[i].from);
			running[i].from = -1; /* ignored by poll */
			open--;
		}
	}
}

/* Prints the cells of all workers in the order of the table. */
static void print_cells(const std::vector<worker_process> &running)
{
	std::map<std::string, size_t> at;
	std::multimap<size_t, std::string> lines;

	for (size_t i = 0; i < case_count; i++)
		at.emplace(cases[i].rules, i);
	for (const worker_process &h : running)
		for (size_t from = 0, to; (to = h.output.find('\n', from)) != h.output.npos; from = to + 1) {
			const std::string line = h.output.substr(from, to - from);
			const auto it = line.rfind("# ", 0) ? at.end() : at.find(line.substr(2, line.find(' ', 2) - 2));

			if (it != at.end())
				lines.emplace(it->second, line);
		}
	for (const auto &[which, line] : lines)
		fprintf(stderr, "%s\n", line.c_str());
}

static void table(void **)
{
	std::vector<worker_process> running;
	unsigned bad = 0;

	setenv("USDMA_TEST_SEED", std::to_string(seed()).c_str(), 1);
	for (unsigned i = 0; i < workers; i++)
		running.push_back(start_worker(i));
	read_outputs(running);
	print_cells(running);
	for (worker_process &h : running) {
		int status;

		assert_int_equal(waitpid(h.pid, &status, 0), h.pid);
		if (status)
			fprintf(stderr, "a worker ended with status 0x%x:\n%s\n", unsigned(status), h.output.c_str());
		bad += status != 0;
	}
	assert_int_equal(bad, 0);
}

static void bad_rules(void **)
{
	setting t;

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=1:channels=4:faults=,sim:mem=64M:engines=1:channels=2", 1);
	set_up(&t, embedded, peer_slot, wait_mode::hybrid);
	for (const char *text : {"fail", "fail@0", "fail~1000001", "fail@x", "fail@1/nonsense", "slow@1", "die@1",
				 "hang@1/3", "reply@1", "+"})
		assert_int_equal(t.dev->eng->transport().inject(text), -EINVAL);
	tear_down(&t);
}

int main(int argc, char **argv)
{
	const usdma::test::dropping_interrupts scope;
	const CMUnitTest tests[] = {cmocka_unit_test(table), cmocka_unit_test(bad_rules)};

	setenv("USDMA_HANG_MS", "250", 1);
	setenv("USDMA_LOG", "none", 1);
	setenv("USDMA_TEST_HOST_ARENA", "1M", 1); /* small, so that a leak is visible and new memory is mapped */
	if (argc == 3 && !strcmp(argv[1], "--share")) {
		worker_number = unsigned(atoi(argv[2]));
		return worker();
	}
	return cmocka_run_group_tests_name("fault table", tests, nullptr, nullptr);
}
