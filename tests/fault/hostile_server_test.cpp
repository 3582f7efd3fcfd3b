/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A correct program (misled.cpp) and usdma-sim, and between them somebody who
 * does one thing wrong: the program is neither ended nor held, and its memory is
 * its own.
 * Run as: hostile_server_test (USDMA_SIM names the device program, MISLED the other)
 */
#include "tests/support/silent_file.h"
#include "tests/support/sim_process.h"
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"
#include "driver/vfio/region.h"
#include "driver/vfio/user_socket.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::vfio;
using proto::command;

static constexpr u64 full = 0xfffffffffffffffe, limit_ms = 30000;

/* ---- between client and server ------------------------------------------------------------------------- */

class between {
public:
	using change = void (*)(between &, user_message &);

	between(int client, int server, change reply) : client_(client), server_(server), reply_(reply)
	{
		up_ = std::thread([this] { pass(client_.get(), server_.get(), true); });
		down_ = std::thread([this] { pass(server_.get(), client_.get(), false); });
	}
	~between()
	{
		leave();
		up_.join();
		down_.join();
	}
	void leave()
	{
		shutdown(client_.get(), SHUT_RDWR);
		shutdown(server_.get(), SHUT_RDWR);
	}

	std::atomic<u64> late_ms{0};   /* each question waits so long */
	std::atomic<bool> last{false}; /* what is sent, the client has the last descriptor of */
	std::mutex lock;               /* what follows */
	std::vector<unique_fd> memory; /* the client's, as it was mapped */
	std::vector<unique_fd> irqs;   /* the client's */
	std::vector<unique_fd> bars;   /* in the place of the server's */

private:
	void pass(int from, int to, bool is_up);
	void note(const user_message &m);

	unique_fd client_, server_;
	change reply_;
	std::thread up_, down_;
};

static bool is_reply(const user_message &m)
{
	return (m.head.flags & proto::flag_type_mask) == proto::type_reply;
}

static bool is(const user_message &m, command cmd)
{
	return m.head.cmd == u16(cmd);
}

void between::note(const user_message &m)
{
	std::lock_guard guard(lock);

	for (size_t i = 0; i < m.fds.size(); i++)
		(is(m, command::dma_map) ? memory : irqs).emplace_back(dup(m.fds.data()[i].get()));
}

static void stop_client();
static void continue_client();

void between::pass(int from, int to, bool is_up)
{
	user_message m;

	while (!user_recv(from, deadline::never(), limit_ms, &m)) {
		int raw[proto::our_max_msg_fds];

		if (is_up)
			note(m);
		if (is_up && !is_reply(m) && late_ms)
			poll(nullptr, 0, int(late_ms)); /* what a slow server does */
		if (!is_up && is_reply(m) && reply_)
			reply_(*this, m);
		const iovec body = {m.body.data(), m.body.size()};
		for (size_t i = 0; i < m.fds.size(); i++)
			raw[i] = m.fds[i].get();
		const bool stop = last && !is_up && !m.fds.empty();
		if (stop)
			stop_client();
		const int err = user_send(to, m.head, {&body, 1}, {raw, m.fds.size()}, deadline::in_ms(limit_ms));
		for (unique_fd &fd : m.fds)
			if (stop)
				fd.reset();
		if (stop)
			continue_client();
		if (err)
			break;
	}
	leave();
}

/* ---- what is wrong ------------------------------------------------------------------------------------- */

template <class F> static void other_doorbells(user_message &m, F make)
{
	if (!is(m, command::device_get_region_io_fds))
		return;
	for (unique_fd &fd : m.fds)
		fd = unique_fd(make());
}

static int end_of(int (*make)(int *))
{
	int two[2];

	if (make(two))
		return -1;
	close(two[0]);
	return two[1];
}

static void pipe_doorbell(between &, user_message &m)
{
	other_doorbells(m, [] { return end_of([](int *two) { return pipe2(two, O_CLOEXEC); }); });
}

static void socket_doorbell(between &, user_message &m)
{
	other_doorbells(m, [] {
		return end_of([](int *two) { return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two); });
	});
}

static void full_doorbell(between &, user_message &m)
{
	other_doorbells(m, [] {
		const int fd = eventfd(0, EFD_CLOEXEC);

		return write(fd, &full, sizeof(full)) == sizeof(full) ? fd : -1;
	});
}

static void directory_doorbell(between &, user_message &m)
{
	other_doorbells(m, [] { return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
}

static void path_doorbell(between &, user_message &m)
{
	other_doorbells(m, [] { return open("/", O_PATH | O_CLOEXEC); });
}

static int silent = -1;

/* Doorbells, and files of regions, that hold whoever asks them anything or closes them. */
static void silent_files(between &, user_message &m)
{
	other_doorbells(m, [] { return dup(silent); });
	if (is(m, command::device_get_region_info) && !m.fds.empty())
		m.fds[0] = unique_fd(dup(silent));
}

static void lingering_doorbells(between &b, user_message &m)
{
	b.last = true;
	other_doorbells(m, lingering_socket);
}

/* The connection is over with it; the second is still to be read. */
static void lingering_and_wrong(between &b, user_message &m)
{
	if (!is(m, command::device_get_region_info))
		return;
	b.last = true;
	m.head.cmd++;
	for (unsigned i = 0; i < 2; i++)
		m.fds.push(unique_fd(lingering_socket()));
}

static void many_doorbells(between &, user_message &m)
{
	static constexpr u32 n = 20000;
	const proto::io_fds_head head = {sizeof(head) + n * sizeof(proto::io_fd), 0, region_bar0, n};
	const proto::io_fd one = {0x20, 4, 0, proto::io_fd_ioeventfd, 0, 0, 0};

	if (!is(m, command::device_get_region_io_fds) || m.fds.empty())
		return;
	m.body.clear();
	m.body.append(&head, sizeof(head));
	for (u32 i = 0; i < n; i++)
		m.body.append(&one, sizeof(one));
}

/* Each begins within the one before it, and names areas to the end of the reply. */
static void overlapping_caps(between &, user_message &m)
{
	proto::region_info info;

	if (!is(m, command::device_get_region_info))
		return;
	memcpy(&info, m.body.data(), sizeof(info));
	info.flags |= proto::region_flag_caps;
	info.cap_offset = sizeof(info);
	info.argsz = 4096;
	m.body.clear();
	m.body.append(&info, sizeof(info));
	for (u32 at = sizeof(info); at + 16 <= 4096; at += 16) {
		const proto::cap_head cap = {proto::cap_sparse_mmap, 1, at + 16 < 4064 ? at + 16 : 0};
		const proto::sparse_head sparse = {(4096 - at - 16) / 16, 0};

		m.body.append(&cap, sizeof(cap));
		m.body.append(&sparse, sizeof(sparse));
	}
}

/* A file of the same length, which the server can cut short. */
static void other_bars(between &b, user_message &m)
{
	struct stat st;

	if (!is(m, command::device_get_region_info) || m.fds.empty() || fstat(m.fds[0].get(), &st))
		return;
	unique_fd fd(memfd_create("bar", MFD_CLOEXEC));
	if (ftruncate(fd.get(), st.st_size))
		abort();
	m.fds[0] = unique_fd(dup(fd.get()));
	std::lock_guard guard(b.lock);
	b.bars.push_back(std::move(fd));
}

template <command cmd> static void one_byte_more(between &, user_message &m)
{
	if (is(m, cmd) && !(m.head.flags & proto::flag_error))
		m.body.append("x", 1);
}

static void cut_bars_short(between &b)
{
	std::lock_guard guard(b.lock);

	assert_true(!b.bars.empty());
	for (const unique_fd &fd : b.bars)
		assert_int_equal(ftruncate(fd.get(), 0), 0);
}

/* All that the server has of the client: none of it gets shorter. */
static void cut_memory_short(between &b)
{
	std::lock_guard guard(b.lock);

	assert_true(b.memory.size() >= 2);
	for (const unique_fd &fd : b.memory) {
		const int seals = fcntl(fd.get(), F_GET_SEALS);

		assert_int_equal(ftruncate(fd.get(), 0), -1);
		assert_int_equal(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
				 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	}
}

static void fill_interrupts_and_leave(between &b)
{
	std::lock_guard guard(b.lock);

	assert_true(!b.irqs.empty());
	for (const unique_fd &fd : b.irqs) {
		assert_int_equal(fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
		while (write(fd.get(), &full, sizeof(full)) < 0) {
			u64 count;

			assert_int_equal(read(fd.get(), &count, sizeof(count)), sizeof(count));
		}
		assert_int_equal(fcntl(fd.get(), F_SETFL, 0), 0);
	}
	b.leave();
}

static void be_late(between &b)
{
	b.late_ms = 900;
}

struct wrong {
	const char *name;
	between::change reply = nullptr;
	void (*then)(between &) = nullptr; /* when the client is at its half */
	const char *works_to = "";         /* all calls do, all the same, to this one; "end" is the last */
	u64 open_late_ms = 0;
	const char *reply_ms = "5000", *hang_ms = "10000";
	u64 most_ms = 20000;           /* for each call */
	bool silent = false;           /* with FUSE */
	const char *without = nullptr; /* a system call that the program's kernel does not have */
};

static const wrong table[] = {
	{.name = "nothing", .works_to = "end"},
	{.name = "doorbell: a pipe nobody reads", .reply = pipe_doorbell, .works_to = "end"},
	{.name = "doorbell: a socket nobody reads", .reply = socket_doorbell, .works_to = "end"},
	{.name = "doorbell: a directory", .reply = directory_doorbell, .works_to = "end"},
	{.name = "doorbell: a path", .reply = path_doorbell, .works_to = "end"},
	{.name = "doorbells and regions: files that never answer",
	 .reply = silent_files,
	 .works_to = "end",
	 .silent = true},
	{.name = "doorbell: a socket that lingers", .reply = lingering_doorbells, .works_to = "end"},
	{.name = "and one beside an answer that is none", .reply = lingering_and_wrong},
	{.name = "doorbell: full, and blocking",
	 .reply = full_doorbell,
	 .works_to = "stream",
	 .hang_ms = "500",
	 .most_ms = 15000},
	{.name = "nothing, without aio", .works_to = "end", .without = "io_setup"},
	{.name = "nothing, before preadv2", .works_to = "end", .without = "preadv2"},
	{.name = "doorbell: full, without aio", .reply = full_doorbell, .works_to = "end", .without = "io_setup"},
	{.name = "interrupts full, then gone, without aio",
	 .then = fill_interrupts_and_leave,
	 .works_to = "ready",
	 .most_ms = 5000,
	 .without = "io_setup"},
	{.name = "20000 doorbells", .reply = many_doorbells, .works_to = "allocate"},
	{.name = "files of regions cut short", .reply = other_bars, .then = cut_bars_short, .works_to = "end"},
	{.name = "memory and rings cut short", .then = cut_memory_short, .works_to = "end"},
	{.name = "interrupts full, then gone", .then = fill_interrupts_and_leave, .works_to = "ready"},
	{.name = "capabilities that overlap", .reply = overlapping_caps},
	{.name = "slow at opening", .open_late_ms = 900, .reply_ms = "1000", .most_ms = 12000},
	{.name = "slow at closing", .then = be_late, .works_to = "destroy", .reply_ms = "1000", .most_ms = 12000},
	{.name = "length: DEVICE_GET_INFO", .reply = one_byte_more<command::device_get_info>},
	{.name = "length: GET_IRQ_INFO", .reply = one_byte_more<command::device_get_irq_info>},
	{.name = "length: SET_IRQS", .reply = one_byte_more<command::device_set_irqs>},
	{.name = "length: REGION_READ", .reply = one_byte_more<command::region_read>},
	{.name = "length: REGION_WRITE", .reply = one_byte_more<command::region_write>},
	{.name = "length: DMA_MAP", .reply = one_byte_more<command::dma_map>, .works_to = "open"},
	{.name = "length: DMA_UNMAP", .reply = one_byte_more<command::dma_unmap>, .works_to = "ready"},
};

/* ---- the program --------------------------------------------------------------------------------------- */

static std::string tsan_options()
{
	const char *given = getenv("TSAN_OPTIONS");

	return given ? given : "";
}

class misled {
public:
	misled(const std::string &path, const wrong &w)
	{
		int in[2], out[2];

		assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
		pid_ = fork();
		if (pid_ == 0) {
			dup2(in[0], STDIN_FILENO);
			dup2(out[1], STDOUT_FILENO);
			setenv("USDMA_REPLY_MS", w.reply_ms, 1);
			setenv("USDMA_HANG_MS", w.hang_ms, 1);
			if (w.without) /* to sleep in ppoll: io_uring takes counts by itself */
				setenv("USDMA_IO_URING", "0", 1);
			/*
			 * A device that is lost keeps its thread until its server has ended; one that is not
			 * has none left.
			 */
			if (strcmp(w.works_to, "end"))
				setenv("TSAN_OPTIONS", (tsan_options() + ":report_thread_leaks=0").c_str(), 1);
			execl(getenv("MISLED"), "misled", ("vfio-user:" + path).c_str(), w.without, nullptr);
			_exit(127);
		}
		close(in[0]);
		close(out[1]);
		go_.reset(in[1]);
		says_.reset(out[0]);
	}
	~misled() { end_sim(pid_); }
	/* "NAME RETURNED MILLISECONDS"; false: it ended, or hangs. */
	bool next(char (&name)[32], int *returned, u64 *took)
	{
		std::string line;
		pollfd p = {says_.get(), POLLIN, 0};
		char c;

		while (poll(&p, 1, int(limit_ms)) == 1 && read(says_.get(), &c, 1) == 1 && c != '\n')
			line += c;
		unsigned long long ms = 0;
		const bool whole = sscanf(line.c_str(), "%31s %d %llu", name, returned, &ms) == 3;
		*took = ms;
		return whole;
	}
	void go_on() { assert_int_equal(write(go_.get(), "g", 1), 1); }
	pid_t pid() const { return pid_; }
	/* Its end; not taken, so that the number stays its own for the thread between. */
	siginfo_t end() const
	{
		siginfo_t how = {};

		assert_int_equal(waitid(P_PID, id_t(pid_), &how, WEXITED | WNOWAIT), 0);
		return how;
	}

private:
	pid_t pid_;
	unique_fd go_, says_;
};

static std::string folder;
static pid_t sim;
/* Here, and not on the stack, which a failure leaves without an end of what lies there. */
static std::unique_ptr<misled> program;
static std::unique_ptr<between> link_between;

static void stop_client()
{
	siginfo_t how;

	kill(program->pid(), SIGSTOP);
	waitid(P_PID, id_t(program->pid()), &how, WSTOPPED | WEXITED | WNOWAIT);
}

static void continue_client()
{
	kill(program->pid(), SIGCONT);
}

static unique_fd listen_at(const std::string &path)
{
	unique_fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	sockaddr_un at = {AF_UNIX, {}};

	unlink(path.c_str());
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path.c_str());
	assert_int_equal(bind(fd.get(), reinterpret_cast<const sockaddr *>(&at), sizeof(at)), 0);
	assert_int_equal(listen(fd.get(), 4), 0);
	return fd;
}

/* Each line of the program, to its end; every call that should have worked did, none took longer than it may. */
static bool follow(const wrong &w)
{
	bool works = *w.works_to;
	char name[32];
	int returned;
	u64 took;

	while (program->next(name, &returned, &took)) {
		fprintf(stderr, "#   %s: %d after %llu ms\n", name, returned, static_cast<unsigned long long>(took));
		if (!strcmp(name, "ready")) {
			if (w.then)
				w.then(*link_between);
			program->go_on();
		}
		if (works)
			assert_true(returned >= 0);
		assert_true(took <= w.most_ms);
		works &= strcmp(name, w.works_to) != 0;
		if (!strcmp(name, "end"))
			return !works;
	}
	return false;
}

/* Not before the program is there, whose execve would close it. */
static bool make_silent(const char *row)
{
	const char *why;

	silent = silent_file(&why);
	if (silent < 0)
		print_message("# SKIP %s: %s\n", row, why);
	return silent >= 0;
}

static void run(void **state)
{
	const wrong &w = *static_cast<const wrong *>(*state);
	const std::string path = folder + "/between";
	const unique_fd listening = listen_at(path);
	pollfd p = {listening.get(), POLLIN, 0};

	program = std::make_unique<misled>(path, w);
	assert_int_equal(poll(&p, 1, int(limit_ms)), 1);
	const int client = accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC), server = dial(folder + "/dev");
	assert_true(client >= 0 && server >= 0);
	if (w.silent && !make_silent(w.name))
		skip();
	link_between = std::make_unique<between>(client, server, w.reply);
	link_between->late_ms = w.open_late_ms;
	assert_true(follow(w));
	/* The end of a process waits for its threads, one of which closes such a file. */
	end_silent_file();
	const siginfo_t how = program->end();
	assert_int_equal(how.si_code, CLD_EXITED);
	assert_int_equal(how.si_status, 0);
}

static int set_up(void **)
{
	char name[] = "/tmp/usdma-misled-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev", {"--mem", "16M", "--channels", "8", "--engines", "2"});
	assert_true(sim > 0);
	return 0;
}

static int tear_down(void **)
{
	end_silent_file();
	/* Its threads speak to the program, and take copies of the file. */
	link_between.reset();
	program.reset();
	if (silent >= 0)
		close(std::exchange(silent, -1));
	end_sim(sim, SIGTERM);
	unlink((folder + "/between").c_str());
	return rmdir(folder.c_str());
}

int main()
{
	CMUnitTest tests[std::size(table)] = {};

	if (!getenv("USDMA_SIM") || !getenv("MISLED")) {
		fprintf(stderr, "USDMA_SIM must name usdma-sim, MISLED the program\n");
		return 2;
	}
	for (size_t i = 0; i < std::size(table); i++) {
		tests[i].name = table[i].name;
		tests[i].test_func = run;
		/* A usdma-sim each: what is left of a row that failed is not the next one's. */
		tests[i].setup_func = set_up;
		tests[i].teardown_func = tear_down;
		tests[i].initial_state = const_cast<wrong *>(&table[i]);
	}
	alarm(unsigned(300 * scale()));
	return cmocka_run_group_tests_name("hostile servers", tests, nullptr, nullptr);
}
