/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that change registers and eventfds while an engine uses them, or do not
 * read their socket.  usdma-sim keeps running, serves the next client, and exits
 * after SIGTERM.
 * Run as: hostile_test (USDMA_SIM names the device program).
 */
#include "tests/support/raw_client.h"
#include "tests/support/silent_file.h"
#include "tests/support/sim_process.h"
#include "tests/support/test.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;
using dma::space;

static constexpr u64 mem_base = u64(1) << 44, device_bytes = 16 * MiB;
static constexpr u64 iova = 0x40000000, control = 2 * MiB, size = control + 8 * MiB;
static constexpr u64 remote = u64(1) << 40, remote_size = 64 * MiB; /* accessed by messages only */

struct test_sim : served_sim {
	explicit test_sim(const char *engines = "2")
		: served_sim({"--mem", "16M", "--channels", "32", "--engines", engines})
	{
	}
	/* SIGTERM ends it with status 0 within the guaranteed time (reliability.md). */
	void check_exit()
	{
		const deadline until = deadline::in_ms(10000);
		int status = -1;

		kill(pid, SIGTERM);
		while (waitpid(pid, &status, WNOHANG) == 0) {
			if (until.passed())
				print_error("usdma-sim still runs ten seconds after SIGTERM\n");
			assert_false(until.passed());
			poll(nullptr, 0, 1);
		}
		pid = -1;
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	}
	/* A correct client is served. */
	void check_serves();
};

struct rig {
	explicit rig(test_sim &s, unsigned n = 1) : client(unique_fd(connect_unix(s.path))), memory("hostile", size)
	{
		assert_int_equal(client.begin(mem_base), 0);
		assert_int_equal(client.map(iova, size, memory.fd.get()), 0);
		assert_int_equal(client.map(remote, remote_size), 0);
		for (u32 i = 0; i < n; i++)
			channels.push_back(std::make_unique<raw_channel>(client, i, memory, iova, i * 64 * KiB));
	}
	raw_channel &operator[](unsigned i) { return *channels[i]; }
	u8 *data() { return memory.data + control; }

	raw_client client;
	raw_memory memory;
	std::vector<std::unique_ptr<raw_channel>> channels;
};

void test_sim::check_serves()
{
	rig r(*this);
	auto gen = rng(77);

	assert_int_equal(r[0].enable(), chan_state_running);
	fill_random(r.data(), MiB, gen);
	r[0].put(raw_copy(space::host, iova + control, space::device, mem_base, MiB));
	r[0].put(raw_copy(space::device, mem_base, space::host, iova + control + MiB, MiB));
	r[0].ring_doorbell();
	assert_true(r[0].done(2));
	assert_int_equal(r[0].completed(), 2);
	assert_memory_equal(r.data(), r.data() + MiB, MiB);
}

/* ---- registers ------------------------------------------------------------------------------------- */

static descriptor copy_rows(u32 rows)
{
	descriptor d = raw_copy(space::device, mem_base, space::host, iova + control, 8);

	d.op = u8(dma::opcode::copy_2d);
	d.height = rows;
	d.a = d.b = 64;
	return d;
}

/* A descriptor uses the base that is set when it starts: all its rows are copied, or none. */
static void base_is_read_once(void **)
{
	static constexpr u32 rows = 65536;
	test_sim s;
	rig r(s);
	u64 whole = 0, none = 0;

	assert_int_equal(r[0].enable(), chan_state_running);
	descriptor fill = raw_copy(space::host, 0, space::device, mem_base, device_bytes);
	fill.op = u8(dma::opcode::fill);
	fill.arg = 8;
	fill.a = 0x1122334455667788;
	r[0].put(fill);
	r[0].ring_doorbell();
	assert_true(r[0].done(1));
	for (unsigned round = 0; round < 100 * scale(); round++) {
		memset(r.data(), 0, u64(rows) * 64);
		const u64 seq = r[0].put(copy_rows(rows));
		u64 base = mem_base;

		r[0].ring_doorbell();
		/* Switches between the base and one outside of the device; the 8 bytes are written in two halves. */
		while (r[0].completed() < seq && load_acquire(&r[0].status->record.state) != dma::state_halted) {
			base = base == mem_base ? mem_base - 4 * device_bytes : mem_base;
			assert_int_equal(r.client.put(reg_mem_base, base), 0);
		}
		assert_int_equal(r.client.put(reg_mem_base, mem_base), 0);
		u32 copied = 0;
		for (u32 i = 0; i < rows; i++) {
			const u64 word = *reinterpret_cast<u64 *>(r.data() + i * 64);

			assert_true(word == fill.a || word == 0);
			copied += word != 0;
		}
		assert_true(copied == 0 || copied == rows);
		(copied ? whole : none)++;
		if (load_acquire(&r[0].status->record.state) == dma::state_halted)
			r[0].command(chan_cmd_resume);
	}
	fprintf(stderr, "# %llu whole, %llu refused\n", static_cast<unsigned long long>(whole),
		static_cast<unsigned long long>(none));
	s.check_exit();
}

/* An address that is not page-aligned is refused and leaves the register unchanged. */
static void base_must_be_page_aligned(void **)
{
	test_sim s;
	rig r(s);

	for (u64 wrong : {mem_base + 1, mem_base + 64, mem_base + 2048})
		assert_int_equal(r.client.put(reg_mem_base, wrong), EINVAL);
	assert_int_equal(r.client.put(reg_mem_base, u32(8)), EINVAL);
	assert_int_equal(r.client.get<u64>(reg_mem_base), mem_base);
	assert_int_equal(r.client.put(reg_mem_base, u64(0x123456789000)), 0);
	assert_int_equal(r.client.get<u64>(reg_mem_base), 0x123456789000);
	s.check_exit();
}

/* ---- a client that does not read its socket ---------------------------------------------------------- */

/* Waits until the socket has hardly any space for one more message of a bounce buffer's length. */
static void wait_socket_full(const rig &r)
{
	const deadline until = deadline::in_ms(raw_wait_ms);
	socklen_t len = sizeof(int);
	int capacity;

	assert_int_equal(getsockopt(r.client.fd(), SOL_SOCKET, SO_SNDBUF, &capacity, &len), 0);
	for (int held = 0; held < capacity - 64 * 1024; sched_yield()) {
		assert_false(until.passed());
		assert_int_equal(ioctl(r.client.fd(), FIONREAD, &held), 0);
	}
}

static void write_unread(rig &r, u64 at, const void *data, u32 len)
{
	const proto::region_access_head h = {at, vfio::region_bar0, len};
	u8 body[sizeof(h) + 8];

	memcpy(body, &h, sizeof(h));
	memcpy(body + sizeof(h), data, len);
	assert_true(r.client.say(proto::command::region_write, body, sizeof(h) + len, {}, proto::flag_no_reply));
}

template <class T> static void put_unread(rig &r, u64 at, T v)
{
	write_unread(r, at, &v, sizeof(v));
}

/*
 * Copies to remote memory, on three channels of each engine, by messages that the client does not read.  Then one more
 * channel of each engine is enabled, and its registers are changed after the command.
 */
struct unread_messages {
	static constexpr unsigned engines = 8, busy = 3 * engines, all = busy + engines;
	static constexpr u64 misaligned = 8;

	unread_messages() : s("8"), r(s, all)
	{
		for (unsigned i = 0; i < busy; i++) {
			assert_int_equal(r[i].enable(), chan_state_running);
			for (unsigned n = 0; n < 4; n++)
				r[i].put(raw_copy(space::device, mem_base, space::host, remote + i * MiB, MiB));
		}
		for (unsigned i = busy; i < all; i++) {
			r.client.put(chan_ctrl(i) + chan_ring_base, r[i].ring_iova);
			r.client.put(chan_ctrl(i) + chan_ring_order, u32(6));
			r.client.put(chan_ctrl(i) + chan_record, r[i].record_iova);
		}
		for (unsigned i = 0; i < busy; i++)
			put_unread(r, chan_doorbell(i) + doorbell_tail, r[i].posted);
		wait_socket_full(r);
		for (unsigned i = busy; i < all; i++) {
			put_unread(r, chan_ctrl(i) + chan_command, u32(chan_cmd_enable));
			/* That address has a descriptor, too; it is not aligned as engines need it. */
			*(reinterpret_cast<u32 *>(r[i].ring) + sizeof(descriptor) / sizeof(u32) +
			  misaligned / sizeof(u32)) = 1;
			put_unread(r, chan_ctrl(i) + chan_ring_base, r[i].ring_iova + misaligned);
		}
	}

	test_sim s;
	rig r;
};

static void commands_with_unread_messages(void **)
{
	unread_messages u;

	/* Reads all messages up to the reply to this one. */
	assert_int_equal(u.r.client.get<u32>(reg_id), id_value);
	for (unsigned i = 0; i < u.busy; i++)
		assert_int_equal(u.r[i].command(chan_cmd_disable), 0);
	for (unsigned i = u.busy; i < u.all; i++) {
		assert_int_equal(u.r[i].state(), chan_state_running);
		assert_int_equal(u.r.client.get<u64>(chan_ctrl(i) + chan_ring_base), u.r[i].ring_iova);
		u.r[i].put(raw_copy(space::device, mem_base, space::host, iova + control, 4096));
		u.r[i].ring_doorbell();
		assert_true(u.r[i].done(1));
	}
	u.r.client.close();
	u.s.check_serves();
	u.s.check_exit();
}

/* The client reads after five seconds, when the command has timed out; or it was disconnected, which is valid. */
static void messages_read_late(void **)
{
	unread_messages u;
	pollfd p = {u.r.client.fd(), 0, 0};

	if (poll(&p, 1, 5000) == 0 && u.r.client.get<u32>(reg_id) == id_value)
		assert_int_equal(u.r[u.busy].state(), chan_state_running);
	poll(&p, 1, 5000); /* time for a late failure */
	u.r.client.close();
	u.s.check_serves();
	u.s.check_exit();
}

/* It sends requests and never reads: it is disconnected after a reply has waited for seconds. */
static void messages_never_read(void **)
{
	const proto::device_info query = {sizeof(query), 0, 0, 0};
	test_sim s;
	rig r(s);

	while (r.client.say(proto::command::device_get_info, &query, sizeof(query))) {
	}
	s.check_serves();
	s.check_exit();
}

/* ---- eventfds that are shared with the client --------------------------------------------------------- */

static constexpr u64 max_count = 0xfffffffffffffffe;

static void set_interrupts(rig &r, int fd, u32 count)
{
	const proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger,
				       vfio::irq_msix, 0, count};

	assert_int_equal(r.client.request(proto::command::device_set_irqs, h, std::vector<int>(count, fd)), 0);
}

/* The threads of that name (engines of the device) in a process and its children. */
static std::vector<pid_t> threads_of(pid_t pid, const std::string &name)
{
	std::vector<pid_t> found;

	for (const auto &task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
		const pid_t tid = atoi(task.path().filename().c_str());
		std::string comm;

		std::getline(std::ifstream(task.path() / "comm"), comm);
		if (comm == name)
			found.push_back(tid);
		std::ifstream in(task.path() / "children");
		for (pid_t child; in >> child;)
			for (pid_t t : threads_of(child, name))
				found.push_back(t);
	}
	return found;
}

/* A debugger that stops a thread between poll(2), which said that a write would not block, and the write. */
class poll_breakpoint {
public:
	/* 0, or an errno. */
	int attach(pid_t tid)
	{
		tid_ = tid;
		return ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACESYSGOOD) ? errno : 0;
	}
	void interrupt()
	{
		assert_int_equal(ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr), 0);
		wait();
	}
	void run_until_poll_returns()
	{
		do {
			ptrace(PTRACE_SYSCALL, tid_, nullptr, nullptr);
			wait();
		} while (!is_poll_return());
	}
	void detach() { assert_int_equal(ptrace(PTRACE_DETACH, tid_, nullptr, nullptr), 0); }

private:
	void wait() const
	{
		int status;

		assert_int_equal(waitpid(tid_, &status, __WALL), tid_);
		assert_true(WIFSTOPPED(status));
	}
	/* poll(2) returns one ready descriptor. */
	bool is_poll_return()
	{
		__ptrace_syscall_info info = {};

		if (ptrace(PTRACE_GET_SYSCALL_INFO, tid_, sizeof(info), &info) <= 0)
			return false;
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			nr_ = info.entry.nr;
#ifdef SYS_poll
		if (nr_ == SYS_poll)
			return info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval == 1;
#endif
		return info.op == PTRACE_SYSCALL_INFO_EXIT && nr_ == SYS_ppoll && info.exit.rval == 1;
	}

	pid_t tid_ = -1;
	u64 nr_ = ~u64(0);
};

/*
 * Blocks an engine: poll(2) says that the eventfd can be written, then the test fills its counter and makes it
 * blocking. False: ptrace is not permitted.
 */
static bool block_engine(test_sim &s, rig &r, int fd)
{
	poll_breakpoint debugger;
	descriptor nop = {};
	u64 count;

	assert_int_equal(r[0].enable(), chan_state_running);
	const auto engines = threads_of(s.pid, "sdma-engine0");
	assert_int_equal(engines.size(), 1);
	const int err = debugger.attach(engines[0]);
	if (err) {
		fprintf(stderr, "# ptrace is not permitted: %s\n", strerror(err));
		return false;
	}
	nop.flags = dma::flag_interrupt;
	debugger.interrupt();
	for (unsigned i = 0; i < 32; i++)
		r[0].put(nop);
	r[0].ring_doorbell();
	debugger.run_until_poll_returns();
	fcntl(fd, F_SETFL, O_NONBLOCK);
	(void)!read(fd, &count, sizeof(count));
	assert_int_equal(write(fd, &max_count, sizeof(max_count)), sizeof(max_count));
	fcntl(fd, F_SETFL, 0);
	debugger.detach();
	return true;
}

static bool fill_eventfds()
{
	test_sim s;

	for (unsigned round = 0; round < 4; round++) {
		const unique_fd ev(eventfd(0, EFD_CLOEXEC));
		rig r(s, 2);

		set_interrupts(r, ev.get(), 4);
		if (!block_engine(s, r, ev.get()))
			return false;
		/* The blocked engine still obeys a command; its eventfd or its memory can be removed. */
		if (round == 1)
			assert_int_equal(r[0].command(chan_cmd_disable), 0);
		else if (round == 2)
			set_interrupts(r, unique_fd(eventfd(0, EFD_CLOEXEC)).get(), 4);
		else if (round == 3)
			assert_int_equal(r.client.unmap(iova, size), 0);
		r.client.close();
		s.check_serves();
	}
	const unique_fd ev(eventfd(0, EFD_CLOEXEC));
	rig last(s, 2);
	set_interrupts(last, ev.get(), 4);
	block_engine(s, last, ev.get());
	s.check_exit();
	return true;
}

static void full_eventfd(void **)
{
	if (!fill_eventfds())
		skip();
}

/* The client fills and empties the doorbell's counter, which blocks: the engine still sees each doorbell. */
static void filled_doorbell(void **)
{
	test_sim s;
	rig r(s);
	proto::io_fds_head io = {4096, 0, 0, 0};
	vfio::user_message m;
	u64 count;

	assert_int_equal(r.client.request(proto::command::device_get_region_io_fds, io, {}, &m), 0);
	assert_true(m.fds.size() >= 1);
	const int bell = m.fds[0].get();
	assert_int_equal(fcntl(bell, F_SETFL, 0), 0);
	assert_int_equal(r[0].enable(), chan_state_running);
	for (unsigned i = 0; i < 300; i++) {
		pollfd p = {bell, POLLOUT, 0};

		r[0].put(raw_copy(space::device, mem_base, space::host, iova + control, 64));
		if (poll(&p, 1, 0) == 1 && fcntl(bell, F_SETFL, O_NONBLOCK) == 0) {
			assert_true(write(bell, &max_count, sizeof(max_count)) == sizeof(max_count) || errno == EAGAIN);
			fcntl(bell, F_SETFL, 0);
		}
		if (i % 3 == 0) {
			p = {bell, POLLIN, 0};
			while (poll(&p, 1, 0) == 1 && read(bell, &count, sizeof(count)) > 0) {
			}
		}
		r[0].ring_doorbell(); /* by a message, not by the doorbell's eventfd */
		assert_true(r[0].done(r[0].posted));
		assert_int_equal(r[0].completed(), r[0].posted);
	}
	r.client.close();
	s.check_serves();
	s.check_exit();
}

/* ---- files that block a process that uses or closes them ------------------------------------------------ */

/* The file is refused, and neither this client nor the next one is delayed. */
static void send_file(test_sim &s, int fd)
{
	static constexpr u64 free_iova = remote + remote_size, len = 4096;
	const proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger,
				       vfio::irq_msix, 0, 1};
	rig r(s);

	assert_int_equal(r.client.map(free_iova, len, fd), EINVAL);
	assert_int_equal(r.client.request(proto::command::device_set_irqs, h, {fd}), EINVAL);
	assert_int_equal(r.client.request(proto::command::device_reset, nullptr, 0, {fd}), EINVAL);
	assert_int_equal(r.client.map(free_iova, len), 0);
	end_silent_file();
	r.client.close();
	s.check_serves();
	s.check_exit();
}

static void file_that_never_replies(void **)
{
	test_sim s; /* started first: its execve would close the file */
	const char *why;
	const int fd = silent_file(&why);

	if (fd < 0) {
		fprintf(stderr, "# SKIP %s\n", why);
		skip();
	}
	send_file(s, fd);
	close(fd);
}

static int end_silent(void **)
{
	end_silent_file();
	return 0;
}

static void socket_that_lingers(void **)
{
	test_sim s;

	send_file(s, lingering_socket());
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(base_is_read_once),
		cmocka_unit_test(base_must_be_page_aligned),
		cmocka_unit_test(commands_with_unread_messages),
		cmocka_unit_test(messages_read_late),
		cmocka_unit_test(messages_never_read),
		cmocka_unit_test(full_eventfd),
		cmocka_unit_test(filled_doorbell),
		cmocka_unit_test_teardown(file_that_never_replies, end_silent),
		cmocka_unit_test(socket_that_lingers),
	};

	alarm(unsigned(100 * scale()));
	return cmocka_run_group_tests_name("hostile clients", tests, nullptr, nullptr);
}
