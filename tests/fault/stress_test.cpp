/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that does everything at once while its engines run: registers, maps and unmaps, files cut short, punched
 * and grown, rings written anew, eventfds filled and made to block, signals.  After each such client the next one is
 * served, and SIGTERM ends usdma-sim in the midst of one; none of its processes ends by anything else.
 * Run as: stress_test [SECONDS] (USDMA_SIM names the device program).
 */
#include "tests/support/raw_client.h"
#include "tests/support/sim_process.h"
#include "tests/support/test.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;
using dma::space;

static constexpr u64 mem_base = u64(1) << 44, page = 4096;
static constexpr u64 iova = 0x40000000, file_size = 4 * MiB, window = 64 * MiB;
static constexpr u32 channels = 8, files = 4, order = 6;
static constexpr u64 attack_ms = 400;
/* What is promised is a second and ten; a loaded machine gets more here, and what it took is said. */
static constexpr u64 served_ms = 20000, ended_ms = 20000;

static u64 seconds = 4;
static u64 worst_served, worst_ended;
static u64 *ended,
	*messages; /* of all clients together: descriptors that have ended as the records say, and turns of talk */

/* ---- the hostile client, a process of its own: it is hit by what it does to its files ------------------- */

struct attacker {
	attacker(const std::string &path, u64 stream) : client(unique_fd(dial(path))), gen(rng(stream)), stream_(stream)
	{
		for (unique_fd &f : file) {
			f.reset(memfd_create("stress", MFD_CLOEXEC | MFD_ALLOW_SEALING));
			(void)!ftruncate(f.get(), off_t(file_size));
		}
		for (unique_fd &e : events)
			e.reset(eventfd(0, EFD_CLOEXEC));
	}
	u64 pick(u64 n) { return gen() % n; }

	void begin();
	[[noreturn]] void run();
	bool talk();
	void map_some();
	void set_up(u32 channel);
	void interrupts();
	void files_change(std::mt19937_64 g);
	void rings_change(std::mt19937_64 g);
	void events_change(std::mt19937_64 g);

	raw_client client;
	std::mt19937_64 gen;
	u64 stream_;
	unique_fd file[files], events[4];
	std::atomic<u64> posted[channels] = {};
};

static u64 record_at(u32 ch)
{
	return iova + ch * 4 * page;
}

/* Where they are in the file, when they are; a page apart, so that no two are one run. */
static u64 in_file(u64 k)
{
	return 2 * k * page;
}

/* A record's page and a ring's, which most of the time are those that rings_change writes. */
void attacker::set_up(u32 ch)
{
	const u64 ctrl = chan_ctrl(ch);

	client.put(ctrl + chan_command, u32(chan_cmd_disable));
	client.unmap(record_at(ch), 4 * page);
	for (u64 k = 0; k < 3; k++)
		client.map(record_at(ch) + k * page, page, file[ch % files].get(), in_file(ch * 4 + k));
	posted[ch] = 0;
	client.put(ctrl + chan_first_seq, u64(0));
	client.put(ctrl + chan_ring_base, record_at(ch) + page + (pick(8) ? 0 : pick(page) / 64 * 64 + pick(2)));
	client.put(ctrl + chan_ring_order, u32(pick(16) ? order : pick(40)));
	client.put(ctrl + chan_record, record_at(ch));
	client.put(ctrl + chan_vectors, u32(pick(8) | pick(8) << 16));
	client.put(ctrl + chan_command, u32(chan_cmd_enable));
}

/* Pages from anywhere in the files, for rings as for data. */
void attacker::map_some()
{
	const u64 n = 1 + pick(pick(4) ? 4 : 64);
	const u64 at = pick(32) ? channels * 4 + pick(window / page) : pick(channels * 4);

	if (pick(3) == 0)
		client.unmap(iova + at * page, n * page, 0);
	else
		client.map(iova + at * page, n * page, pick(16) ? file[pick(files)].get() : -1,
			   pick(file_size / page) * page, pick(8) ? 3 : u32(1 + pick(3)));
}

void attacker::interrupts()
{
	const u32 n = u32(1 + pick(4));
	const proto::irq_set_head h = {sizeof(h), proto::irq_set_data_eventfd | proto::irq_set_action_trigger,
				       vfio::irq_msix, u32(pick(4)), n};
	std::vector<int> fds;

	for (u32 i = 0; i < n; i++)
		fds.push_back(events[pick(4)].get());
	client.ask(proto::command::device_set_irqs, h, fds);
}

/* False: the server has had enough. */
bool attacker::talk()
{
	const u32 ch = u32(pick(channels));

	switch (pick(40)) {
	case 0:
		return client.put(reg_mem_base, pick(2) ? mem_base : pick(1u << 20) * page) >= 0;
	case 1:
		return client.put(chan_ctrl(ch) + pick(0x40) / 4 * 4, u32(gen())) >= 0;
	case 2:
		return client.put(chan_ctrl(ch) + chan_command, u32(1 + pick(4))) >= 0;
	case 3:
		if (pick(40) == 0)
			client.put(reg_ctrl, u32(pick(4)));
		return client.put(reg_ctrl, u32(ctrl_enable)) >= 0;
	case 4:
		interrupts();
		return true;
	case 5:
		if (pick(60) == 0)
			client.ask(proto::command::device_reset, nullptr, 0);
		return true;
	case 6:
	case 9:
	case 14:
	case 15:
		set_up(ch);
		return true;
	case 10:
	case 11:
	case 12:
	case 13:
		return client.put(chan_ctrl(ch) + chan_command, u32(chan_cmd_resume)) >= 0;
	case 7:
	case 8:
		for (u64 i = pick(20); i; i--)
			map_some();
		return true;
	default:
		return client.put(chan_doorbell(ch) + doorbell_tail, u64(posted[ch])) >= 0;
	}
}

void attacker::files_change(std::mt19937_64 g)
{
	for (;;) {
		const int fd = file[g() % files].get();
		const off_t at = off_t(g() % (file_size / page) * page);

		if (g() % 8)
			fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, off_t(page * (1 + g() % 64)));
		else if (g() % 2)
			(void)!ftruncate(fd, at);
		(void)!ftruncate(fd, off_t(file_size));
		poll(nullptr, 0, int(g() % 20));
	}
}

static descriptor some_descriptor(std::mt19937_64 &g)
{
	const auto near = [&g] { return g() % 2 ? mem_base + g() % (16 * MiB) : iova + g() % window; };
	descriptor d = {};

	d.op = u8(g() % 12);
	d.flags = u8(g() % 8 ? u64(dma::flag_interrupt) : g());
	d.spaces = u8(g() % 16 ? (g() & 0x11) : g());
	d.arg = u8(g() % 16);
	d.height = u32(g() % 4 ? 1 + g() % 64 : g());
	d.src = near();
	d.dst = near();
	d.len = g() % 8 ? 1 + g() % (512 * KiB) : g();
	if (g() % 2) { /* aligned, so that more of them run */
		d.src &= ~u64(7);
		d.dst &= ~u64(7);
		d.len = (d.len & ~u64(7)) + 8;
	}
	d.a = g() % 2 ? d.len : g();
	d.b = g() % 2 ? d.len : g();
	return d;
}

/* Through the files, wherever the pages of a ring may be just now; the next tag, or any. */
void attacker::rings_change(std::mt19937_64 g)
{
	static constexpr u64 slots = u64(1) << order;
	u64 last[channels] = {};

	for (;;) {
		const u32 ch = u32(g() % channels);
		const int fd = file[ch % files].get();
		const u64 seq = posted[ch] + 1;
		descriptor d = some_descriptor(g);
		u64 completed = 0;

		(void)!pread(fd, &completed, sizeof(completed), off_t(in_file(ch * 4)));
		if (completed > last[ch] && completed - last[ch] <= slots)
			store_relaxed(ended, *ended + completed - last[ch]);
		last[ch] = completed;
		/* There is room, or it is a client that cannot count. */
		if (seq - completed > slots - 4 && g() % 256) {
			usleep(100);
			continue;
		}
		d.tag = u32(g() % 64 ? seq : g());
		(void)!pwrite(fd, &d, sizeof(d), off_t(in_file(ch * 4 + 1) + (seq & (slots - 1)) * sizeof(d)));
		posted[ch] = seq;
	}
}

void attacker::events_change(std::mt19937_64 g)
{
	static constexpr u64 full = 0xfffffffffffffffe;

	for (u64 count;;) {
		const int fd = events[g() % 4].get();

		fcntl(fd, F_SETFL, O_NONBLOCK);
		(void)!(g() % 2 ? read(fd, &count, sizeof(count)) : write(fd, &full, sizeof(full)));
		fcntl(fd, F_SETFL, 0);
		if (g() % 8 == 0)
			usleep(200);
	}
}

void attacker::begin()
{
	if (client.begin(mem_base))
		_exit(1);
	client.map(iova + window / 2, file_size, file[0].get());
	for (u32 i = 0; i < channels; i++)
		set_up(i);
}

void attacker::run()
{
	begin();
	std::thread([this] { files_change(rng(stream_ + 1)); }).detach();
	std::thread([this] { rings_change(rng(stream_ + 2)); }).detach();
	std::thread([this] { events_change(rng(stream_ + 3)); }).detach();
	while (talk())
		store_relaxed(messages, *messages + 1);
	_exit(0);
}

/* ---- what is promised ------------------------------------------------------------------------------------ */

struct sim_here {
	sim_here()
	{
		assert_non_null(mkdtemp(dir));
		path = std::string(dir) + "/dev";
		pid = start_sim(getenv("USDMA_SIM"), path, {"--mem", "16M", "--channels", "8", "--engines", "3"});
		assert_true(pid > 0);
	}
	~sim_here()
	{
		end_sim(pid);
		unlink(path.c_str());
		rmdir(dir);
	}
	pid_t attack(u64 stream)
	{
		const pid_t hostile = fork();

		if (!hostile) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			attacker(path, stream).run();
		}
		return hostile;
	}
	/* What anybody of the same user may send; not what is meant to end it. */
	void signals(std::mt19937_64 &gen)
	{
		static constexpr int harmless[] = {SIGUSR1, SIGCONT, SIGWINCH, SIGURG, SIGCHLD};
		const deadline until = deadline::in_ms(attack_ms);

		while (!until.passed()) {
			const int sig = gen() % 16 ? harmless[gen() % 5] : SIGSTOP;

			for (pid_t child : children_of(pid)) {
				kill(child, sig);
				kill(child, SIGCONT);
			}
			kill(pid, sig);
			kill(pid, SIGCONT);
			poll(nullptr, 0, 2);
		}
	}
	void serves();
	void ends();

	char dir[32] = "/tmp/usdma-stress-XXXXXX";
	std::string path;
	pid_t pid;
};

static u64 ms_since(u64 begin)
{
	return (now_ns() - begin) / ns_per_ms;
}

void sim_here::serves()
{
	const u64 begin = now_ns();
	raw_client client{unique_fd(dial(path))};
	raw_memory memory("good", MiB);
	auto gen = rng(99);

	assert_int_equal(client.begin(mem_base), 0);
	worst_served = std::max(worst_served, ms_since(begin));
	assert_true(ms_since(begin) < served_ms);
	assert_int_equal(client.map(iova, MiB, memory.fd.get()), 0);
	raw_channel ch(client, 0, memory, iova, 0);
	assert_int_equal(ch.enable(), chan_state_running);
	fill_random(memory.data + 64 * KiB, 64 * KiB, gen);
	ch.put(raw_copy(space::host, iova + 64 * KiB, space::device, mem_base, 64 * KiB));
	ch.put(raw_copy(space::device, mem_base, space::host, iova + 128 * KiB, 64 * KiB));
	ch.ring_bell();
	assert_true(ch.done(2));
	assert_int_equal(ch.completed(), 2);
	assert_memory_equal(memory.data + 64 * KiB, memory.data + 128 * KiB, 64 * KiB);
}

void sim_here::ends()
{
	const u64 begin = now_ns();
	int status = -1;

	kill(pid, SIGTERM);
	while (waitpid(pid, &status, WNOHANG) == 0 && ms_since(begin) < ended_ms)
		poll(nullptr, 0, 1);
	worst_ended = std::max(worst_ended, ms_since(begin));
	assert_true(ms_since(begin) < ended_ms);
	pid = -1;
	/* That none of its clients' processes ended by anything but their clients' leaving is in the status. */
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void one_after_the_other(void **)
{
	static constexpr unsigned a_sim = 5;
	const deadline until = deadline::in_ms(seconds * 1000);
	auto gen = rng(1);
	u64 clients = 0;

	do {
		sim_here s;

		for (unsigned round = 0; round < a_sim; round++, clients++) {
			const pid_t hostile = s.attack(100 + 10 * clients);
			int status;

			s.signals(gen);
			if (round + 1 == a_sim)
				s.ends();
			kill(hostile, SIGKILL);
			assert_int_equal(waitpid(hostile, &status, 0), hostile);
			/* It was at it until then; and the device dropped nobody who keeps to the messages. */
			if (round + 1 < a_sim) {
				assert_true(WIFSIGNALED(status));
				s.serves();
			}
		}
	} while (!until.passed());
	assert_true(*ended > 0);
	fprintf(stderr,
		"# %llu hostile clients, %llu messages, %llu descriptors; the next was served after at most %llu ms, "
		"SIGTERM heeded after at most %llu ms\n",
		static_cast<unsigned long long>(clients), static_cast<unsigned long long>(*messages),
		static_cast<unsigned long long>(*ended), static_cast<unsigned long long>(worst_served),
		static_cast<unsigned long long>(worst_ended));
}

int main(int argc, char **argv)
{
	const CMUnitTest tests[] = {cmocka_unit_test(one_after_the_other)};

	if (!getenv("USDMA_SIM")) {
		fprintf(stderr, "USDMA_SIM must name usdma-sim\n");
		return 2;
	}
	ended = static_cast<u64 *>(mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	messages = ended + 1;
	seconds = argc > 1 ? strtoull(argv[1], nullptr, 10) : 4 * u64(scale());
	return cmocka_run_group_tests_name("stress", tests, nullptr, nullptr);
}
