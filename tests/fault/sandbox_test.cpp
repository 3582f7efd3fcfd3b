/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sandbox of usdma-sim: the privileges that it drops before it serves, that
 * it only accesses memory which its client mapped, and that two instances do not
 * affect each other.
 * Run as: sandbox_test (USDMA_SIM names the device program, USDMA_SIM_FILTERS
 * whether it was built with a list of system calls).
 */
#include "tests/support/level.h"
#include "tests/support/sim_process.h"
#include "tests/support/test.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/hw/sdma_regs.h"
#include "driver/vfio_user/client.h"

#include "tools/sim_sandbox.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;

static constexpr u64 page = 4096, wait_ms = 30000;

static void must(int err, const char *what)
{
	if (err)
		print_error("%s: %d: %s\n", what, err, error_text());
	assert_int_equal(err, 0);
}

struct sim_process : served_sim {
	explicit sim_process(const char *share = "1T")
		: served_sim({"--mem", "16M", "--channels", "4", "--share", share})
	{
	}
	int stop(int sig) { return end_sim(pid, sig); }
	/* The number in a line of /proc/PID/status; -1: no such line. */
	long status(const char *key) const { return status_of(pid, key); }
	/* The same of the process that serves the client. */
	long client_status(const char *key) const { return status_of(client_process_of(pid), key); }
	static long status_of(pid_t who, const char *key)
	{
		FILE *f = fopen(("/proc/" + std::to_string(who) + "/status").c_str(), "re");
		const size_t n = strlen(key);
		char line[256];
		long v = -1;

		assert_non_null(f);
		while (fgets(line, sizeof(line), f))
			if (!strncmp(line, key, n) && line[n] == ':')
				v = strtol(line + n + 1, nullptr, 10);
		fclose(f);
		return v;
	}
};

/* A bare client with one channel: its ring, its status block and one page of data, all in one file. */
struct client {
	static constexpr u64 iova = 0x100000, size = 16 * page, data = 8 * page;

	explicit client(const sim_process &s)
	{
		must(vfio::user_connect(s.path, {}, &dev), "connect");
		must(vfio::config_bus_master(*dev, true), "bus master");
		put32(reg_ctrl, ctrl_enable);
	}
	void put32(u64 at, u32 v) { must(dev->region_write(vfio::region_bar0, at, &v, 4), "write"); }
	void put64(u64 at, u64 v) { must(dev->region_write(vfio::region_bar0, at, &v, 8), "write"); }
	u32 get32(u64 at)
	{
		u32 v = 0;

		must(dev->region_read(vfio::region_bar0, at, &v, 4), "read");
		return v;
	}
	void map()
	{
		vfio::dma_area a;

		file.reset(memfd_create("client", MFD_CLOEXEC));
		assert_int_equal(ftruncate(file.get(), size), 0);
		mem = mapping(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), size);
		a.iova = iova;
		a.size = size;
		a.vaddr = mem.data();
		a.fd = file.get();
		must(dev->dma_map(a), "map");
	}
	void enable()
	{
		put64(chan_ctrl(0) + chan_ring_base, iova + page);
		put32(chan_ctrl(0) + chan_ring_order, 4);
		put64(chan_ctrl(0) + chan_record, iova);
		put32(chan_ctrl(0) + chan_command, chan_cmd_enable);
	}
	/* Runs one descriptor and returns its fault reason. */
	dma::fault_reason run(const descriptor &what)
	{
		descriptor d = what;
		auto *status = reinterpret_cast<status_block *>(mem.data());
		auto *slot = reinterpret_cast<descriptor *>(mem.data() + page) + (++seq & 15);
		const deadline until = deadline::in_ms(wait_ms);

		d.tag = u32(seq - 16);
		memcpy(slot, &d, sizeof(d));
		store_release(&slot->tag, u32(seq));
		put64(chan_doorbell(0) + doorbell_tail, seq);
		while (load_acquire(&status->record.completed) < seq) {
			assert_false(until.passed());
			if (load_acquire(&status->record.state) != dma::state_halted)
				continue;
			const auto why = dma::fault_reason(load_acquire(&status->record.reason));
			put32(chan_ctrl(0) + chan_command, chan_cmd_resume);
			return why;
		}
		return dma::fault_reason::none;
	}
	dma::fault_reason copy(dma::space from, u64 src, dma::space to, u64 dst, u64 len)
	{
		descriptor d = {};

		d.op = u8(dma::opcode::copy);
		d.spaces = dma::spaces(from, to);
		d.src = src;
		d.dst = dst;
		d.len = len;
		return run(d);
	}

	std::unique_ptr<vfio::device> dev;
	unique_fd file;
	mapping mem;
	u64 seq = 0;
};

using dma::fault_reason;
using dma::space;

/*
 * After its start it cannot gain privileges; in a build with filters a system call that is not on the list is
 * refused (seccomp(2): mode 2).
 */
static void test_dropped_privileges(void **)
{
	const bool filters = atoi(getenv("USDMA_SIM_FILTERS"));
	sim_process s;
	struct stat st;

	assert_int_equal(s.status("NoNewPrivs"), 1);
	assert_int_equal(s.status("Seccomp"), filters ? 2 : 0);
	{
		/* It works with its filter: threads, memory, interrupts, sleep and wake. */
		client c(s);
		c.map();
		c.enable();
		memset(c.mem.data() + client::data, 0x3c, 64);
		assert_true(c.copy(space::host, client::iova + client::data, space::host,
				   client::iova + client::data + 64, 64) == fault_reason::none);
		assert_int_equal(c.mem.data()[client::data + 127], 0x3c);
		/* Signals that must not end it. */
		for (int sig : {SIGUSR1, SIGCONT, SIGWINCH, SIGURG, SIGCHLD})
			for (pid_t to : {s.pid, client_process_of(s.pid)})
				assert_int_equal(kill(to, sig), 0);
		assert_true(c.copy(space::host, client::iova + client::data, space::device, 0, 64) ==
			    fault_reason::none);
		/* The client is served by a separate process with its own threads and filter. */
		assert_true(s.client_status("Threads") > 1);
		assert_int_equal(s.client_status("NoNewPrivs"), 1);
		assert_int_equal(s.client_status("Seccomp_filters"), filters                                ? 2 :
								     s.client_status("Seccomp_filters") < 0 ? -1 :
													      0);
		assert_int_equal(s.status("Threads"), 1);
	}
	client next(s);
	next.map();
	assert_int_equal(lstat(s.path.c_str(), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* It exits with status 0 and removes its socket, although it cannot access files any more. */
	assert_int_equal(s.stop(SIGTERM), 0);
	assert_int_not_equal(lstat(s.path.c_str(), &st), 0);
}

/* A forbidden action kills a process that serves a client; each runs in a child that otherwise exits. */
static void test_confined(void **)
{
	static const struct {
		const char *what;
		void (*act)();
	} acts[] = {
		{"a program", [] { execl("/bin/true", "true", nullptr); }},
		{"a process", [] { (void)!fork(); }},
		{"a socket", [] { (void)!socket(AF_UNIX, SOCK_STREAM, 0); }},
		{"memory to execute",
		 [] { (void)!mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }},
		{"its own memory to execute",
		 [] {
			 void *at = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			 (void)!mprotect(at, page, PROT_READ | PROT_EXEC);
		 }},
		{"a signal to its parent", [] { kill(getppid(), 0); }},
		{"a signal by a descriptor", [] { fcntl(1, F_SETOWN, getppid()); }},
		{"another's memory", [] { (void)!process_vm_readv(getppid(), nullptr, 0, nullptr, 0, 0); }},
	};

	if (!tool::sandbox_filters())
		skip();
	for (const auto &a : acts) {
		const pid_t child = fork();
		int status = 0;

		if (!child) {
			if (!tool::sandbox_enter() && !tool::sandbox_confine())
				a.act();
			_exit(1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			print_error("%s: status 0x%x\n", a.what, status);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	}
}

/* What the server of a shared device may not do, though it has the device: fails with EPERM. */
static void test_confined_with_device(void **)
{
	static constexpr int (*acts[])() = {
		[] { return int(fork()); },
		[] { return kill(getppid(), 0); },
		[] { return kill(getppid(), SIGKILL); },
		[] { return fcntl(1, F_SETOWN, getppid()); },
		[] { return socket(AF_UNIX, SOCK_STREAM, 0); },
		[] { return prctl(PR_SET_PDEATHSIG, SIGKILL); },
		[] { return execl("/bin/true", "true", nullptr); },
	};

	if (!tool::sandbox_filters())
		skip();
	const pid_t child = fork();
	int status = 0;

	if (!child) {
		if (tool::sandbox_enter_with_device() || kill(getpid(), 0))
			_exit(100);
		for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++)
			if (acts[i]() != -1 || errno != EPERM)
				_exit(int(1 + i));
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Without a system call filter, Landlock (if the kernel has it) prevents access to files by name. */
static void test_no_file_by_name(void **)
{
	const pid_t child = fork();
	int status = 0;

	if (!child) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || tool::sandbox_leave_files())
			_exit(1);
		if (open("/", O_RDONLY | O_CLOEXEC) >= 0)
			_exit(2); /* a kernel or a build without Landlock */
		_exit(errno == EACCES ? 0 : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* The process of one client crashes: the next client is served, and the exit status of usdma-sim reports it. */
static void test_next_after_a_crash(void **)
{
	sim_process s;
	const deadline soon = deadline::in_ms(20000);

	{
		client c(s);
		const pid_t first = client_process_of(s.pid);

		assert_true(first > 0);
		assert_int_equal(kill(first, SIGSEGV), 0);
		while (!kill(first, 0) && !soon.passed())
			sched_yield();
	}
	client next(s);
	next.map();
	next.enable();
	assert_true(next.copy(space::host, client::iova + client::data, space::device, 0, 64) == fault_reason::none);
	const int status = s.stop(SIGTERM);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

/* The process of a client is stopped and does not notice the end of its connection: only SIGKILL stops it. */
static void test_stopped_process(void **)
{
	sim_process s;

	for (bool by_signal : {false, true}) {
		/* A sanitizer's leak check at exit takes longer than a client waits (sim_clients.cpp). */
		if (sanitized && !by_signal)
			continue;
		auto c = std::make_unique<client>(s);
		const pid_t process = client_process_of(s.pid);

		/* Also the one that removes the socket: its end is not waited for. */
		const auto stopped = by_signal ? children_of(s.pid) : std::vector{process};
		for (pid_t child : stopped)
			assert_int_equal(kill(child, SIGSTOP), 0);
		if (by_signal) {
			assert_int_equal(s.stop(SIGTERM), 0);
			for (pid_t child : stopped)
				kill(child, SIGCONT);
			assert_true(kill(process, 0) && errno == ESRCH);
		} else {
			/* The driver waits for the reply to its last message, then closes. */
			c.reset();
			client next(s);
		}
	}
}

/* SIGKILL leaves the socket, which the next instance replaces. */
static void test_killed_leaves_the_path(void **)
{
	sim_process s;
	struct stat st;

	assert_int_equal(s.stop(SIGKILL), SIGKILL);
	assert_int_equal(lstat(s.path.c_str(), &st), 0);
}

/* Without a mapping the device accesses no ring, record or data; with one, nothing outside of it. */
static void test_nothing_without_map(void **)
{
	sim_process s;
	client c(s);

	c.enable();
	assert_int_equal(c.get32(chan_ctrl(0) + chan_state), chan_state_error);
	c.map();
	c.enable();
	assert_int_equal(c.get32(chan_ctrl(0) + chan_state), chan_state_running);
	const u64 end = client::iova + client::size, inside = client::iova + client::data;
	memset(c.mem.data() + client::data, 0x11, 8 * page);
	const u64 outside[] = {
		0, page, client::iova - 64, end, end - 32, u64(1) << 40, ~u64(0) - 63, 0x7fff00000000, 0x400000};
	for (u64 a : outside) {
		assert_true(c.copy(space::host, a, space::host, inside, 64) == fault_reason::src_unmapped);
		assert_true(c.copy(space::host, inside, space::host, a, 64) == fault_reason::dst_unmapped);
	}
	for (u64 i = 0; i < 8 * page; i++)
		assert_int_equal(c.mem.data()[client::data + i], 0x11);
}

/* Mappings above the limit (--share) are refused; an unmapped one does not count any more. */
static void test_bounds(void **)
{
	sim_process s("1M");
	client c(s);
	unique_fd file(memfd_create("big", MFD_CLOEXEC));
	vfio::dma_area a;

	assert_int_equal(ftruncate(file.get(), 2 * MiB), 0);
	mapping m(mmap(nullptr, 2 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), 2 * MiB);
	a.iova = 0x10000000;
	a.vaddr = m.data();
	a.fd = file.get();
	a.size = 2 * MiB;
	assert_int_equal(c.dev->dma_map(a), -ENOSPC);
	a.size = 768 * KiB;
	for (unsigned round = 0; round < 3; round++) {
		must(c.dev->dma_map(a), "map");
		a.iova += MiB;
		assert_int_equal(c.dev->dma_map(a), -ENOSPC);
		a.iova -= MiB;
		must(c.dev->dma_unmap(a.iova, a.size), "unmap");
	}
}

/* Two devices with two clients: random descriptors of one do not affect the copies of the other. */
static void test_neighbours(void **)
{
	auto gen = rng(3);
	sim_process bad_sim, good_sim;
	client bad(bad_sim), good(good_sim);

	bad.map();
	bad.enable();
	good.map();
	good.enable();
	for (unsigned round = 0; round < 300; round++) {
		descriptor d;

		fill_random(&d, sizeof(d), gen);
		d.op = u8(d.op % 12);
		if (d.op == u8(dma::opcode::wait))
			d.height = 1; /* ms; without a limit it may wait forever */
		bad.run(d);
		u8 *at = good.mem.data() + client::data;
		fill_random(at, page, gen);
		assert_true(good.copy(space::host, client::iova + client::data, space::host,
				      client::iova + client::data + page, page) == fault_reason::none);
		assert_memory_equal(at, at + page, page);
	}
	/* One is killed; the other still works. */
	bad_sim.stop(SIGKILL);
	assert_true(good.copy(space::host, client::iova + client::data, space::host, client::iova + client::data + page,
			      64) == fault_reason::none);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_dropped_privileges),
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_confined_with_device),
		cmocka_unit_test(test_no_file_by_name),
		cmocka_unit_test(test_next_after_a_crash),
		cmocka_unit_test(test_stopped_process),
		cmocka_unit_test(test_killed_leaves_the_path),
		cmocka_unit_test(test_nothing_without_map),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_neighbours),
	};

	if (!getenv("USDMA_SIM") || !getenv("USDMA_SIM_FILTERS")) {
		fprintf(stderr, "USDMA_SIM must name usdma-sim, USDMA_SIM_FILTERS be 0 or 1\n");
		return 2;
	}
	alarm(150);
	return cmocka_run_group_tests_name("sandbox", tests, nullptr, nullptr);
}
