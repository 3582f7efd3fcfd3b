/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that change what an engine is using: registers, eventfds, what they read
 * and when.  usdma-sim goes on, the next client is served, and SIGTERM ends it.
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
static constexpr u64 far = u64(1) << 40, far_size = 64 * MiB; /* reached by messages only */

struct served : served_sim {
	explicit served(const char *engines = "2")
		: served_sim({"--mem", "16M", "--channels", "32", "--engines", engines})
	{
	}
	/* It ends as it should, within the time that is promised (reliability.md) and not by SIGKILL. */
	void ends()
	{
		const deadline until = deadline::in_ms(10000);
		int status = -1;

		kill(pid, SIGTERM);
		while (waitpid(pid, &status, WNOHANG) == 0) {
			if (until.passed())
				print_error("usdma-sim is still there ten seconds after SIGTERM\n");
			assert_false(until.passed());
			poll(nullptr, 0, 1);
		}
		pid = -1;
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	}
	/* A client that behaves gets all that it asks for. */
	void serves();
};

struct rig {
	explicit rig(served &s, unsigned n = 1) : client(unique_fd(dial(s.path))), memory("hostile", size)
	{
		assert_int_equal(client.begin(mem_base), 0);
		assert_int_equal(client.map(iova, size, memory.fd.get()), 0);
		assert_int_equal(client.map(far, far_size), 0);
		for (u32 i = 0; i < n; i++)
			channels.push_back(std::make_unique<raw_channel>(client, i, memory, iova, i * 64 * KiB));
	}
	raw_channel &operator[](unsigned i) { return *channels[i]; }
	u8 *data() { return memory.data + control; }

	raw_client client;
	raw_memory memory;
	std::vector<std::unique_ptr<raw_channel>> channels;
};

void served::serves()
{
	rig r(*this);
	auto gen = rng(77);

	assert_int_equal(r[0].enable(), chan_state_running);
	fill_random(r.data(), MiB, gen);
	r[0].put(raw_copy(space::host, iova + control, space::device, mem_base, MiB));
	r[0].put(raw_copy(space::device, mem_base, space::host, iova + control + MiB, MiB));
	r[0].ring_bell();
	assert_true(r[0].done(2));
	assert_int_equal(r[0].completed(), 2);
	assert_memory_equal(r.data(), r.data() + MiB, MiB);
}

/* ---- registers ------------------------------------------------------------------------------------- */

static descriptor many_rows(u32 rows)
{
	descriptor d = raw_copy(space::device, mem_base, space::host, iova + control, 8);

	d.op = u8(dma::opcode::copy_2d);
	d.height = rows;
	d.a = d.b = 64;
	return d;
}

/* All rows or none: the base is that of the descriptor's beginning, whatever is written meanwhile. */
static void base_is_read_once(void **)
{
	static constexpr u32 rows = 65536;
	served s;
	rig r(s);
	u64 whole = 0, none = 0;

	assert_int_equal(r[0].enable(), chan_state_running);
	descriptor fill = raw_copy(space::host, 0, space::device, mem_base, device_bytes);
	fill.op = u8(dma::opcode::fill);
	fill.arg = 8;
	fill.a = 0x1122334455667788;
	r[0].put(fill);
	r[0].ring_bell();
	assert_true(r[0].done(1));
	for (unsigned round = 0; round < 100 * scale(); round++) {
		memset(r.data(), 0, u64(rows) * 64);
		const u64 seq = r[0].put(many_rows(rows));
		u64 base = mem_base;

		r[0].ring_bell();
		/* Lower and higher by what would lie outside; 8 bytes, that is two writes of a half each. */
		while (r[0].completed() < seq && load_acquire(&r[0].status->record.state) != dma::state_halted) {
			base = base == mem_base ? mem_base - 4 * device_bytes : mem_base;
			assert_int_equal(r.client.put(reg_mem_base, base), 0);
		}
		assert_int_equal(r.client.put(reg_mem_base, mem_base), 0);
		u32 there = 0;
		for (u32 i = 0; i < rows; i++) {
			const u64 word = *reinterpret_cast<u64 *>(r.data() + i * 64);

			assert_true(word == fill.a || word == 0);
			there += word != 0;
		}
		assert_true(there == 0 || there == rows);
		(there ? whole : none)++;
		if (load_acquire(&r[0].status->record.state) == dma::state_halted)
			r[0].command(chan_cmd_resume);
	}
	fprintf(stderr, "# %llu whole, %llu refused\n", static_cast<unsigned long long>(whole),
		static_cast<unsigned long long>(none));
	s.ends();
}

/* What is no page's address is refused, and the register is as it was. */
static void base_is_whole_pages(void **)
{
	served s;
	rig r(s);

	for (u64 wrong : {mem_base + 1, mem_base + 64, mem_base + 2048})
		assert_int_equal(r.client.put(reg_mem_base, wrong), EINVAL);
	assert_int_equal(r.client.put(reg_mem_base, u32(8)), EINVAL);
	assert_int_equal(r.client.get<u64>(reg_mem_base), mem_base);
	assert_int_equal(r.client.put(reg_mem_base, u64(0x123456789000)), 0);
	assert_int_equal(r.client.get<u64>(reg_mem_base), 0x123456789000);
	s.ends();
}

/* ---- a client that does not read its socket ---------------------------------------------------------- */

/* Until there is no room for one more message of a bounce buffer's length, or for nearly none. */
static void fill_socket(const rig &r)
{
	const deadline until = deadline::in_ms(raw_wait_ms);
	socklen_t len = sizeof(int);
	int room;

	assert_int_equal(getsockopt(r.client.fd(), SOL_SOCKET, SO_SNDBUF, &room, &len), 0);
	for (int held = 0; held < room - 64 * 1024; sched_yield()) {
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
 * Copies to memory that only messages reach, on three channels of each engine, and nobody reads the messages.  Then one
 * more of each is switched on, and its registers are changed behind the command.
 */
struct unread {
	static constexpr unsigned engines = 8, busy = 3 * engines, all = busy + engines;
	static constexpr u64 odd = 8;

	unread() : s("8"), r(s, all)
	{
		for (unsigned i = 0; i < busy; i++) {
			assert_int_equal(r[i].enable(), chan_state_running);
			for (unsigned n = 0; n < 4; n++)
				r[i].put(raw_copy(space::device, mem_base, space::host, far + i * MiB, MiB));
		}
		for (unsigned i = busy; i < all; i++) {
			r.client.put(chan_ctrl(i) + chan_ring_base, r[i].ring_iova);
			r.client.put(chan_ctrl(i) + chan_ring_order, u32(6));
			r.client.put(chan_ctrl(i) + chan_record, r[i].record_iova);
		}
		for (unsigned i = 0; i < busy; i++)
			put_unread(r, chan_doorbell(i) + doorbell_tail, r[i].posted);
		fill_socket(r);
		for (unsigned i = busy; i < all; i++) {
			put_unread(r, chan_ctrl(i) + chan_command, u32(chan_cmd_enable));
			/* There, too, stands a descriptor: one that no engine can load as it loads them. */
			*(reinterpret_cast<u32 *>(r[i].ring) + sizeof(descriptor) / sizeof(u32) +
			  odd / sizeof(u32)) = 1;
			put_unread(r, chan_ctrl(i) + chan_ring_base, r[i].ring_iova + odd);
		}
	}

	served s;
	rig r;
};

static void commands_while_nothing_is_read(void **)
{
	unread u;

	/* Reads them all, to the reply of this one. */
	assert_int_equal(u.r.client.get<u32>(reg_id), id_value);
	for (unsigned i = 0; i < u.busy; i++)
		assert_int_equal(u.r[i].command(chan_cmd_disable), 0);
	for (unsigned i = u.busy; i < u.all; i++) {
		assert_int_equal(u.r[i].state(), chan_state_running);
		assert_int_equal(u.r.client.get<u64>(chan_ctrl(i) + chan_ring_base), u.r[i].ring_iova);
		u.r[i].put(raw_copy(space::device, mem_base, space::host, iova + control, 4096));
		u.r[i].ring_bell();
		assert_true(u.r[i].done(1));
	}
	u.r.client.close();
	u.s.serves();
	u.s.ends();
}

/* It reads after five seconds, when nobody waits for the command any more; or it was dropped, which is as well. */
static void nothing_is_read_for_long(void **)
{
	unread u;
	pollfd p = {u.r.client.fd(), 0, 0};

	if (poll(&p, 1, 5000) == 0 && u.r.client.get<u32>(reg_id) == id_value)
		assert_int_equal(u.r[u.busy].state(), chan_state_running);
	poll(&p, 1, 5000); /* what was wrong shows now, if at all */
	u.r.client.close();
	u.s.serves();
	u.s.ends();
}

/* It never reads and asks on: dropped, once an answer has waited for seconds. */
static void nothing_is_ever_read(void **)
{
	const proto::device_info ask = {sizeof(ask), 0, 0, 0};
	served s;
	rig r(s);

	while (r.client.say(proto::command::device_get_info, &ask, sizeof(ask))) {
	}
	s.serves();
	s.ends();
}

/* ---- eventfds that the client holds as well ----------------------------------------------------------- */

static constexpr u64 full = 0xfffffffffffffffe;

static void set_interrupts(rig &r, int fd, u32 count)
{
	const proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger,
				       vfio::irq_msix, 0, count};

	assert_int_equal(r.client.ask(proto::command::device_set_irqs, h, std::vector<int>(count, fd)), 0);
}

/* Every thread of that name in a process or in its children; an engine of the device. */
static std::vector<pid_t> threads_of(pid_t pid, const std::string &name)
{
	std::vector<pid_t> found;

	for (const auto &task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
		const pid_t tid = atoi(task.path().filename().c_str());
		std::string is, children;

		std::getline(std::ifstream(task.path() / "comm"), is);
		if (is == name)
			found.push_back(tid);
		std::ifstream in(task.path() / "children");
		for (pid_t child; in >> child;)
			for (pid_t t : threads_of(child, name))
				found.push_back(t);
	}
	return found;
}

/* As a debugger: stops a thread behind its question whether a write would block, and before the write. */
class between_poll_and_write {
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
	void run_to_it()
	{
		do {
			ptrace(PTRACE_SYSCALL, tid_, nullptr, nullptr);
			wait();
		} while (!asks_to_write());
	}
	void go_on() { assert_int_equal(ptrace(PTRACE_DETACH, tid_, nullptr, nullptr), 0); }

private:
	void wait() const
	{
		int status;

		assert_int_equal(waitpid(tid_, &status, __WALL), tid_);
		assert_true(WIFSTOPPED(status));
	}
	/* At the end of poll(2), and not at its beginning. */
	bool asks_to_write()
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
 * An engine that asks whether it may write, is told so, and then finds the counter full: the flags are the
 * client's as well.
 */
static void block_a_unit(served &s, rig &r, int fd)
{
	between_poll_and_write debugger;
	descriptor nop = {};
	u64 count;

	assert_int_equal(r[0].enable(), chan_state_running);
	const auto engines = threads_of(s.pid, "sdma-engine0");
	assert_int_equal(engines.size(), 1);
	const int err = debugger.attach(engines[0]);
	if (err) {
		fprintf(stderr, "# no process may be debugged here: %s\n", strerror(err));
		skip();
	}
	nop.flags = dma::flag_interrupt;
	debugger.interrupt();
	for (unsigned i = 0; i < 32; i++)
		r[0].put(nop);
	r[0].ring_bell();
	debugger.run_to_it();
	fcntl(fd, F_SETFL, O_NONBLOCK);
	(void)!read(fd, &count, sizeof(count));
	assert_int_equal(write(fd, &full, sizeof(full)), sizeof(full));
	fcntl(fd, F_SETFL, 0);
	debugger.go_on();
}

static void full_eventfd(void **)
{
	served s;

	for (unsigned round = 0; round < 4; round++) {
		const unique_fd ev(eventfd(0, EFD_CLOEXEC));
		rig r(s, 2);

		set_interrupts(r, ev.get(), 4);
		block_a_unit(s, r, ev.get());
		/*
		 * A command for the engine is obeyed all the same; its eventfd can be taken away, its memory,
		 * or all at once.
		 */
		if (round == 1)
			assert_int_equal(r[0].command(chan_cmd_disable), 0);
		else if (round == 2)
			set_interrupts(r, unique_fd(eventfd(0, EFD_CLOEXEC)).get(), 4);
		else if (round == 3)
			assert_int_equal(r.client.unmap(iova, size), 0);
		r.client.close();
		s.serves();
	}
	const unique_fd ev(eventfd(0, EFD_CLOEXEC));
	rig last(s, 2);
	set_interrupts(last, ev.get(), 4);
	block_a_unit(s, last, ev.get());
	s.ends();
}

/* The doorbell's counter is full, blocking, emptied at every moment: the engine hears all the same. */
static void filled_doorbell(void **)
{
	served s;
	rig r(s);
	proto::io_fds_head io = {4096, 0, 0, 0};
	vfio::user_message m;
	u64 count;

	assert_int_equal(r.client.ask(proto::command::device_get_region_io_fds, io, {}, &m), 0);
	assert_true(m.fds.size() >= 1);
	const int bell = m.fds[0].get();
	assert_int_equal(fcntl(bell, F_SETFL, 0), 0);
	assert_int_equal(r[0].enable(), chan_state_running);
	for (unsigned i = 0; i < 300; i++) {
		pollfd p = {bell, POLLOUT, 0};

		r[0].put(raw_copy(space::device, mem_base, space::host, iova + control, 64));
		if (poll(&p, 1, 0) == 1 && fcntl(bell, F_SETFL, O_NONBLOCK) == 0) {
			assert_true(write(bell, &full, sizeof(full)) == sizeof(full) || errno == EAGAIN);
			fcntl(bell, F_SETFL, 0);
		}
		if (i % 3 == 0) {
			p = {bell, POLLIN, 0};
			while (poll(&p, 1, 0) == 1 && read(bell, &count, sizeof(count)) > 0) {
			}
		}
		r[0].ring_bell(); /* a command: not by the doorbell's eventfd */
		assert_true(r[0].done(r[0].posted));
		assert_int_equal(r[0].completed(), r[0].posted);
	}
	r.client.close();
	s.serves();
	s.ends();
}

/* ---- files that hold whoever asks them, or closes them -------------------------------------------------- */

/* Neither the client that goes on, nor the next one, hears anything of it. */
static void sends_and_goes_on(served &s, int fd)
{
	static constexpr u64 free_at = far + far_size, len = 4096;
	const proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger,
				       vfio::irq_msix, 0, 1};
	rig r(s);

	assert_int_equal(r.client.map(free_at, len, fd), EINVAL);
	assert_int_equal(r.client.ask(proto::command::device_set_irqs, h, {fd}), EINVAL);
	assert_int_equal(r.client.ask(proto::command::device_reset, nullptr, 0, {fd}), EINVAL);
	assert_int_equal(r.client.map(free_at, len), 0);
	end_silent_file();
	r.client.close();
	s.serves();
	s.ends();
}

static void file_that_never_answers(void **)
{
	served s; /* before: its execve would close the file */
	const char *why;
	const int fd = silent_file(&why);

	if (fd < 0) {
		fprintf(stderr, "# SKIP %s\n", why);
		skip();
	}
	sends_and_goes_on(s, fd);
	close(fd);
}

static int end_file(void **)
{
	end_silent_file();
	return 0;
}

static void socket_that_lingers(void **)
{
	served s;

	sends_and_goes_on(s, lingering_socket());
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(base_is_read_once),
		cmocka_unit_test(base_is_whole_pages),
		cmocka_unit_test(commands_while_nothing_is_read),
		cmocka_unit_test(nothing_is_read_for_long),
		cmocka_unit_test(nothing_is_ever_read),
		cmocka_unit_test(full_eventfd),
		cmocka_unit_test(filled_doorbell),
		cmocka_unit_test_teardown(file_that_never_answers, end_file),
		cmocka_unit_test(socket_that_lingers),
	};

	alarm(unsigned(100 * scale()));
	return cmocka_run_group_tests_name("hostile clients", tests, nullptr, nullptr);
}
