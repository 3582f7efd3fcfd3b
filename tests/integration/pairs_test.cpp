/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each call in progress, disturbed by each disturbance: what the call returns is true, other memory is unchanged, and
 * the library works afterwards. A case for each disturbance; each cell is a child process, which prints its result.
 *
 * integration-pairs --page         prints the table of docs/reliability.md
 * integration-pairs --check FILE   whether the file has it
 * USDMA_TEST_PAIRS=all             all cells; else a few of each call
 * USDMA_TEST_PAIRS=TEXT            the cells whose name has the text, with their results
 */
#include "tests/integration/pairs.h"

#include <csignal>
#include <fstream>
#include <poll.h>
#include <sys/wait.h>

using namespace usdma::test;
using namespace usdma::test::pairs;

static constexpr int hang_ms = 10000; /* more than any call takes */

struct cell {
	const call &c;
	point at;
	const disturbance &d;

	std::string name() const { return std::string(c.name) + ", " + point_names[int(at)] + ", " + d.name; }
};

/* What is wrong, beside the result; the first one counts. */
static std::string problem;

static void wrong(const std::string &what)
{
	if (problem.empty())
		problem = what;
}

static const std::string unseen = "done or dropped"; /* it was freed */

/* ---- holding the call ------------------------------------------------------------------------------- */

static void make_world(world &w)
{
	void *p;

	WORKS(usdma_open_index(0, &w.dev));
	WORKS(usdma_open_index(1, &w.peer));
	WORKS(usdma_stream_create(w.dev, nullptr, &w.s));
	WORKS(usdma_stream_create(w.dev, nullptr, &w.other));
	WORKS(usdma_host_alloc(nullptr, guard, &p));
	memset(p, 0, guard);
	w.word = static_cast<uint64_t *>(p);
}

/* The engine's next source is late, or its process is stopped. */
static void stop_engine(world &w)
{
	static area slow;
	w.stopped = true;
	if (is_process())
		return stop_sim(sim_pid(0));
	slow = make_area(w.dev, kind::registered, guard, bytes(guard, 1));
	w.late.hold(slow.p, slow.size);
	WORKS(usdma_copy(w.other, w.word + 32, slow.p, 8));
	assert_true(w.late.touched(hang_ms));
}

static void hold(world &w, point at)
{
	if (at == point::gate)
		WORKS(usdma_wait_value(w.s, w.word, USDMA_EQ, 1));
	if (at == point::engine || at == point::full)
		stop_engine(w);
	if (at == point::page)
		w.late.hold(w.late_at, w.late_len);
}

static void release(world &w, point at)
{
	if (at == point::gate)
		__atomic_store_n(w.word, 1, __ATOMIC_RELEASE);
	if (w.stopped && is_process())
		continue_sim(sim_pid(0));
	w.stopped = false;
	w.late.release();
}

/* ---- running ---------------------------------------------------------------------------------------- */

static void must_end(const actor &a, const char *which)
{
	if (!problem.empty() || a.over_within(hang_ms))
		return;
	a.show_stack();
	wrong(std::string(which) + " does not return");
}

/* The disturbance lasts during the whole call, or, if its device is stopped, until the call waits for that. */
static void run_within(world &w, const cell &x)
{
	w.b.start([&] { return x.d.run(w); });
	if (x.d.is(alone))
		must_end(w.b, "the disturbance");
	else
		w.b.over_or_blocked();
	w.a.start([&] { return x.c.run(w); });
	if (w.stopped)
		w.a.over_or_blocked();
	else
		must_end(w.a, "the call");
	if (x.d.end)
		x.d.end(w);
}

/* What the page belongs to may be freed when the disturbance has returned. */
static bool must_wait(const cell &x)
{
	const bool is_memory = x.c.is == sort::memory, has_stream = x.c.is != sort::sync && x.c.is != sort::file_sync;

	return x.at == point::page && !is_memory &&
	       (x.d.is(closes_device) || (has_stream && x.d.is(destroys_stream)) ||
		(x.c.is == sort::file && x.d.is(drops) && x.d.is(takes_stream)));
}

static void run_during(world &w, const cell &x)
{
	/* A stream that is being destroyed has no handle any more. */
	const bool keeps = x.at == point::gate && x.d.is(keeps_gate) &&
			   (x.c.is != sort::destroy || !x.d.is(takes_stream));

	w.a.start([&] { return x.c.run(w); });
	if (x.at == point::page && !w.late.touched(hang_ms))
		wrong("the page is not accessed");
	if (returns_at_once(x.c, x.at))
		must_end(w.a, "the call");
	else
		w.a.over_or_blocked();
	w.b.start([&] { return x.d.run(w); });
	/* A loss comes while the page is late, and not behind the end of the work. */
	if (x.d.is(alone) || keeps || (x.at == point::page && x.d.is(ignores_page)))
		must_end(w.b, "the disturbance");
	else if (w.b.over_or_blocked() && must_wait(x))
		wrong("the disturbance returns although the call accesses its memory");
	if (!keeps)
		release(w, x.at);
}

/* ---- what is right ---------------------------------------------------------------------------------- */

static bool same(const bytes &a, const bytes &b, size_t at, size_t n)
{
	return !memcmp(a.data() + at, b.data() + at, n);
}

/* Whether each byte outside of the items is as before. */
static bool is_clean(const world &w, const bytes &now)
{
	bytes rest = now;

	for (const item &i : w.items)
		std::copy_n(w.dst.before.begin() + long(i.at), i.len, rest.begin() + long(i.at));
	return rest == w.dst.before;
}

static bool is_visible(const world &w, const area &a)
{
	if (a.what == kind::device && a.fd < 0)
		return !w.closed && !w.lost && !a.removed;
	return bool(a) && !(a.removed && a.what == kind::pinned);
}

/* Of a call that counts: exactly the items of its count. */
static void check_count(const world &w, const bytes &now, int result)
{
	for (size_t i = 0; i < w.items.size(); i++) {
		const bool made = same(now, w.dst.after, w.items[i].at, w.items[i].len);

		if (made != (i < w.done))
			return wrong("item " + std::to_string(i) + (made ? " was" : " was not") + " made, *done is " +
				     std::to_string(w.done));
	}
	if (!result && w.done != w.items.size())
		wrong("*done is " + std::to_string(w.done));
}

static char state_of_items(world &w, const cell &x, int result, int later)
{
	if (w.items.empty() || !is_visible(w, w.dst))
		return '?';
	const bytes now = content_of(w.dev, w.dst);
	size_t made = 0;

	if (!is_clean(w, now))
		wrong("bytes beside the destination changed");
	for (const item &i : w.items)
		made += same(now, w.dst.after, i.at, i.len);
	if (w.counts && !later && (result || made) && !x.d.is(drops))
		check_count(w, now, result);
	if (!made && now == w.dst.before)
		return 'n';
	return made == w.items.size() ? 'd' : 'p';
}

static void check_memory(world &w)
{
	for (const area *a : {&w.src, &w.dst})
		if (!a->frozen.empty() && content_of(nullptr, *a) != a->frozen)
			wrong("unregistered memory was written");
	if (is_visible(w, w.fresh) && content_of(w.dev, w.fresh) != w.fresh.before)
		wrong("memory at the address of the freed one, or elsewhere, was written");
	if (w.src.what != kind::device && is_visible(w, w.src) && content_of(w.dev, w.src) != w.src.before)
		wrong("the source changed");
}

static int result_of_work(world &w, const cell &x, int disturbed)
{
	if (x.c.later)
		return x.c.later(w);
	if (w.closed || w.stream_ended)
		return disturbed;
	const int err = usdma_stream_sync(w.s, hang_ms);
	if ((err == -EIO || err == -EFAULT) && usdma_stream_sync(w.s, hang_ms))
		wrong("the failure is reported twice");
	return err;
}

/* The result in the words of the table. */
static std::string judge(world &w, const cell &x, int result, int disturbed)
{
	const int later = result && !w.counts ? 0 : result_of_work(w, x, disturbed);
	const char state = x.c.state ? x.c.state(w) : state_of_items(w, x, result, later);

	check_memory(w);
	/* Another operation failed. */
	if (!result && later && x.d.is(before) && state != 'd' && state != '?')
		wrong("the work was not done, and the failure is not its own");
	if (result)
		return name_of_error(result);
	if (later)
		return "later " + name_of_error(later);
	return state == 'n' ? "dropped" : state == 'p' ? "in part" : state == 'd' ? "done" : unseen;
}

/* ---- afterwards ------------------------------------------------------------------------------------- */

static void copy_again(usdma_device *dev)
{
	const bytes in(len, 0x3c);
	block mem(dev, kind::device, len), back(dev, kind::pinned, len);
	stream s(dev);

	WORKS(usdma_copy(s, mem.data(), in.data(), len));
	WORKS(usdma_copy(s, back.data(), mem.data(), len));
	WORKS(usdma_stream_sync(s, hang_ms));
	if (!all_are(back.data(), len, 0x3c))
		wrong("a later copy is wrong");
}

static void check_afterwards(world &w)
{
	if (!w.stream_ended && !w.closed)
		usdma_stream_destroy(w.s);
	if (w.completion && usdma_completion_destroy(w.completion) == -EBUSY)
		wrong("the completion is busy");
	if (w.file)
		WORKS(usdma_file_close(w.file));
	const int end = w.closed ? 0 : usdma_close(w.dev);
	if (end && !w.lost) /* of the streams of the loss */
		wrong("closing returns " + name_of_error(end));
	WORKS(usdma_open_index(0, &w.dev));
	copy_again(w.dev);
	WORKS(usdma_close(w.dev));
	WORKS(usdma_close(w.peer));
}

/* ---- a cell ----------------------------------------------------------------------------------------- */

static std::string run_cell(const cell &x)
{
	static world w;

	make_world(w);
	x.c.prepare(w);
	hold(w, x.at);
	x.d.is(before) ? run_within(w, x) : run_during(w, x);
	must_end(w.a, "the call");
	must_end(w.b, "the disturbance");
	if (!problem.empty())
		return "";
	release(w, x.at);
	const int disturbed = w.b.result();
	const std::string word = judge(w, x, w.a.result(), disturbed);
	if (disturbed && !w.stream_ended && !w.closed)
		wrong("the disturbance returns " + name_of_error(disturbed) + ", " + usdma_error_text());
	if (has_faults() && (is_process() || !w.closed))
		set_faults(w.dev, 0, "");
	check_afterwards(w);
	return word;
}

/* In the child: the result, or "!" and the problem, goes to the pipe. */
[[noreturn]] static void child(const cell &x, int out)
{
	/* A failed assertion fds the child, not only the case. */
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	for (const int sig : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE})
		signal(sig, SIG_DFL);
	const std::string word = run_cell(x), all = problem.empty() ? word : word + "! " + problem;

	(void)!write(out, all.data(), all.size());
	_exit(0);
}

static std::string result_in_child(const cell &x)
{
	int fds[2], status;
	char text[512];

	assert_int_equal(pipe(fds), 0);
	const pid_t pid = fork();
	if (!pid)
		child(x, fds[1]);
	close(fds[1]);
	pollfd p = {fds[0], POLLIN, 0};
	poll(&p, 1, int(patience_ms(4 * hang_ms)));
	kill(pid, p.revents & POLLIN ? 0 : SIGKILL);
	const ssize_t n = read(fds[0], text, sizeof(text));
	close(fds[0]);
	waitpid(pid, &status, 0);
	if (is_process())
		continue_sim(sim_pid(0));
	return n > 0 ? std::string(text, size_t(n)) : "! ended with status " + std::to_string(status);
}

static bool is_right(const std::string &all, const std::string &one)
{
	if (one == unseen)
		return is_right(all, "done") || is_right(all, "dropped");
	return (", " + all + ",").find(", " + one + ",") != std::string::npos;
}

/* ---- the cells -------------------------------------------------------------------------------------- */

static std::string which_cells()
{
	const char *which = getenv("USDMA_TEST_PAIRS");

	return which ? which : "";
}

struct counts {
	int right = 0, wrong = 0, defects = 0, none = 0;
};

static void run(const cell &x, counts &n)
{
	const expected want = expected_of(x.c, x.at, x.d);

	if (want.results.starts_with("-")) {
		n.none++;
		return;
	}
	const std::string got = result_in_child(x);
	if (which_cells() != "" && which_cells() != "all")
		print_message("# %s: %s\n", x.name().c_str(), got.c_str());
	if (is_right(want.results, got)) {
		n.right++;
		return;
	}
	print_error("%s: %s instead of %s%s%s\n", x.name().c_str(), got.c_str(), want.results.c_str(),
		    want.finding ? ", a defect: " : "", want.finding ? want.finding : "");
	(want.finding ? n.defects : n.wrong)++;
}

/* In the gate: what once failed, the other kinds of disturbance, and what has no test of its own. */
static const char *const in_gate[] = {
	"usdma_copy_batch, late page, close",
	"usdma_device_sync, gate, close",
	"usdma_fill, gate, loss",
	"usdma_stream_sync, gate, cancellation",
	"usdma_copy_batch, device memory, late page, memory freed",
	"usdma_file_read_sync, late page, others' calls",
	"usdma_close, engine, others' calls",
	"usdma_copy, -, stopped server",
	"usdma_stream_signal_fd, -, full eventfd",
	"usdma_copy, pageable source, -, earlier failure",
	"usdma_open, -, hanging open",
	"usdma_fill, engine, destroy",
	"usdma_fill, gate, memory freed",
	"usdma_prep_completion, engine, abort",
};

static bool is_in_gate(const cell &x)
{
	return std::find(std::begin(in_gate), std::end(in_gate), x.name()) != std::end(in_gate);
}

static bool is_chosen(const cell &x)
{
	const std::string which = which_cells();

	return which == "" ? is_in_gate(x) : which == "all" || x.name().find(which) != std::string::npos;
}

static void run_all(void **state)
{
	const auto &d = *static_cast<const disturbance *>(*state);
	counts n;

	for (const call &c : calls)
		for (const point at : c.points)
			if (const cell x = {c, at, d}; d.is(before) == (at == point::none) && is_chosen(x))
				run(x, n);
	print_message("# %s: %d cells are right, %d wrong, %d of defects; %d cannot be made\n", d.name, n.right,
		      n.wrong, n.defects, n.none);
	assert_int_equal(n.wrong, 0);
}

/* Whether the page has the table that the tests are made from. */
static int check_page(const char *path)
{
	std::ifstream in(path);
	const std::string text{std::istreambuf_iterator<char>(in), {}};
	const bool found = text.find(results_page()) != std::string::npos;

	printf("1..1\n%sok 1 - the table is that of integration-pairs --page\n", found ? "" : "not ");
	return !found;
}

int main(int argc, char **argv)
{
	std::vector<CMUnitTest> tests;

	if (argc > 1 && !strcmp(argv[1], "--page"))
		return fputs(results_page().c_str(), stdout) < 0;
	if (argc > 2 && !strcmp(argv[1], "--check"))
		return check_page(argv[2]);
	if (!late_memory::available()) {
		printf("1..0 # SKIP no userfaultfd for system calls: not root, vm.unprivileged_userfaultfd is 0\n");
		return 0;
	}
	if (is_process() && access((device_string(0).substr(10) + ".control").c_str(), F_OK)) {
		printf("1..0 # SKIP usdma-sim has no control socket\n");
		return 0;
	}
	for (const disturbance &d : disturbances)
		tests.push_back({d.name, run_all, nullptr, nullptr, const_cast<disturbance *>(&d)});
	return _cmocka_run_group_tests("pairs", tests.data(), tests.size(), nullptr, nullptr);
}
