/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A correct program, usdma-sim, and a server between the two that is wrong or slow: the program is neither
 * ended nor held, and its memory stays its own.  What each wrong message does is the matter of
 * vfio-user-faults, vfio-user-hostile and fuzz-client; this is the whole library, in a few runs.
 * Run as: hostile_server_test (USDMA_SIM names the device program).
 */
#include "tests/support/nosy.h"
#include "tests/support/sim_process.h"
#include "tests/support/refuse_call.h"
#include "tests/support/test.h"
#include "usdma/usdma.h"

#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"
#include "driver/vfio/user_proto.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::test;
using vfio::proto::command;

static constexpr u64 full = 0xfffffffffffffffe;
static constexpr int limit_ms = 60000;

/* ---- the program, in a process of its own ---------------------------------------------------------------- */

static const char *works_to; /* each call works to this one; "end" is the last */
static u64 most_ms;          /* for each call */
static bool works = true, good = true;

template <class F> static bool step(const char *name, F call)
{
	const u64 began = now_ns();
	const int err = call();
	const u64 took = (now_ns() - began) / ns_per_ms;

	fprintf(stderr, "#   %s: %d after %llu ms%s%s\n", name, err, static_cast<unsigned long long>(took),
		err < 0 ? ": " : "", err < 0 ? usdma_error_text() : "");
	good &= took <= most_ms && (err >= 0 || !works);
	works &= strcmp(name, works_to) != 0;
	return err >= 0;
}

static usdma_device *dev;
static usdma_stream *stream;
static unsigned char *from, *to;
static void *on_device;
static constexpr size_t size = 1024 * 1024;

static int allocate()
{
	const usdma_stream_options how = {sizeof(how), USDMA_WAIT_INTERRUPT, 0, 0};
	int err = usdma_host_alloc(dev, size, reinterpret_cast<void **>(&from));

	if (!err)
		err = usdma_host_alloc(dev, size, reinterpret_cast<void **>(&to));
	if (!err)
		err = usdma_device_alloc(dev, size, &on_device);
	return err ? err : usdma_stream_create(dev, &how, &stream);
}

/* Between two the device has nothing to do, and sleeps. */
static int copies()
{
	static std::mt19937_64 gen = rng(3);

	for (size_t len = 64; len <= size; len *= 4) {
		fill_random(from, len, gen);
		memset(to, 0, len);
		int err = usdma_copy(stream, on_device, from, len);
		if (!err)
			err = usdma_copy(stream, to, on_device, len);
		const int end = usdma_stream_sync(stream, limit_ms);
		if (err || end)
			return err ? err : end;
		good &= !memcmp(from, to, len);
	}
	return 0;
}

/* To the test, which does what it has for this moment. */
static void ask_to_go_on()
{
	char c;

	good &= write(STDOUT_FILENO, "r", 1) == 1 && read(STDIN_FILENO, &c, 1) == 1;
}

static int program(const char *spec, bool has_aio)
{
	alarm(unsigned(2 * limit_ms / 1000));
	if (!has_aio && !test::refuse_call(SYS_io_setup, ENOSYS))
		return 4;
	if (step("open", [=] { return usdma_open(spec, &dev); })) {
		if (step("allocate", allocate) && step("copies", copies)) {
			ask_to_go_on();
			step("again", copies);
			ask_to_go_on();
			step("late", copies);
			memset(from, 1, size); /* each page of it can be written, whatever became of the device */
			memset(to, 2, size);
		}
		if (stream)
			step("destroy", [] { return usdma_stream_destroy(stream); });
		step("close", [] { return usdma_close(dev); });
	}
	return good && works == !strcmp(works_to, "end") ? 0 : 3;
}

/* ---- what is wrong ---------------------------------------------------------------------------------------- */

/* What the server has of the client, and what it gave in place of its own. */
struct between {
	bool is_late = false, spoils_files = false, bells_are_full = false;
	std::vector<unique_fd> memory, irqs, bars;

	void change(nosy_message &m, bool from_client);
};

static int other_bell(bool is_full)
{
	int ends[2];

	if (!is_full) {
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		close(ends[0]);
		return ends[1];
	}
	const int fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(write(fd, &full, sizeof(full)), sizeof(full));
	return fd;
}

/* Of the same length, and the server can cut it short. */
static int other_bar(int fd, std::vector<unique_fd> *ours)
{
	const int other = memfd_create("bar", MFD_CLOEXEC);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ftruncate(other, st.st_size), 0);
	ours->emplace_back(dup(other));
	return other;
}

void between::change(nosy_message &m, bool from_client)
{
	const auto cmd = command(m.head().cmd);

	if (from_client) {
		for (int fd : m.fds)
			(cmd == command::dma_map ? memory : irqs).emplace_back(dup(fd));
		if (is_late)
			poll(nullptr, 0, 900); /* what a slow server does */
		return;
	}
	for (int &fd : m.fds) {
		const int was = fd;

		if (cmd == command::device_get_region_io_fds && (spoils_files || bells_are_full))
			fd = other_bell(bells_are_full);
		else if (cmd == command::device_get_region_info && spoils_files)
			fd = other_bar(was, &bars);
		if (fd != was)
			close(was);
	}
}

static void cut_short(between &b, nosy_server &)
{
	assert_true(!b.bars.empty() && b.memory.size() >= 2);
	for (const unique_fd &fd : b.bars)
		assert_int_equal(ftruncate(fd.get(), 0), 0);
	for (const unique_fd &fd : b.memory)
		assert_int_equal(ftruncate(fd.get(), 0), -1);
}

static void fill_interrupts_and_leave(between &b, nosy_server &server)
{
	assert_true(!b.irqs.empty());
	for (const unique_fd &fd : b.irqs) {
		assert_int_equal(fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
		while (write(fd.get(), &full, sizeof(full)) < 0) {
			u64 count;

			(void)!read(fd.get(), &count, sizeof(count));
		}
		assert_int_equal(fcntl(fd.get(), F_SETFL, 0), 0);
	}
	server.hang_up();
}

static void be_late(between &b, nosy_server &)
{
	b.is_late = true;
}

struct wrong {
	const char *name, *works_to;
	bool is_late = false, spoils_files = false, bells_are_full = false;
	void (*then[2])(between &, nosy_server &) = {}; /* before "again", and before "late" */
	const char *reply_ms = "5000", *hang_ms = "10000", *most_ms = "20000";
	bool has_aio = true; /* the program, and io_uring, which takes counts by itself */
};

static const wrong table[] = {
	{.name = "files cut short, interrupts filled, and gone",
	 .works_to = "again",
	 .spoils_files = true,
	 .then = {cut_short, fill_interrupts_and_leave}},
	{.name = "doorbells full, and blocking", .works_to = "allocate", .bells_are_full = true, .hang_ms = "500"},
	{.name = "doorbells full, interrupts filled, and gone, without aio",
	 .works_to = "again",
	 .bells_are_full = true,
	 .then = {nullptr, fill_interrupts_and_leave},
	 .has_aio = false},
	{.name = "slow at opening", .works_to = "", .is_late = true, .reply_ms = "1000", .most_ms = "12000"},
	{.name = "slow at closing",
	 .works_to = "destroy",
	 .then = {nullptr, be_late},
	 .reply_ms = "1000",
	 .most_ms = "12000"},
};

/* ---- the test --------------------------------------------------------------------------------------------- */

static std::string folder;
static pid_t sim;

struct running {
	pid_t pid;
	unique_fd go, says;
};

/* A device that is lost keeps its thread until its server has ended: to TSan that is a leak. */
static void become_the_program(const wrong &w, const std::string &path)
{
	const char *const tsan = getenv("TSAN_OPTIONS");

	setenv("USDMA_REPLY_MS", w.reply_ms, 1);
	setenv("USDMA_HANG_MS", w.hang_ms, 1);
	if (!w.has_aio)
		setenv("USDMA_IO_URING", "0", 1);
	setenv("TSAN_OPTIONS", (std::string(tsan ? tsan : "") + ":report_thread_leaks=0").c_str(), 1);
	execl("/proc/self/exe", "program", ("vfio-user:" + path).c_str(), w.works_to, w.most_ms,
	      w.has_aio ? nullptr : "without aio", nullptr);
	_exit(127);
}

static running start(const wrong &w, const std::string &path)
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		become_the_program(w, path);
	}
	close(in[0]);
	close(out[1]);
	return {pid, unique_fd(in[1]), unique_fd(out[0])};
}

static void run(void **state)
{
	const wrong &w = *static_cast<const wrong *>(*state);
	const std::string path = folder + "/between";
	between b;
	char c;

	b.is_late = w.is_late;
	b.spoils_files = w.spoils_files;
	b.bells_are_full = w.bells_are_full;
	nosy_server server(path, folder + "/dev", [&b](nosy_message &m, bool up) { b.change(m, up); });
	running p = start(w, path);
	for (auto *then : w.then)
		if (read(p.says.get(), &c, 1) == 1) {
			if (then)
				server.while_nothing_passes([&] { then(b, server); });
			assert_int_equal(write(p.go.get(), "g", 1), 1);
		}
	int status;
	assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
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
	end_sim(sim, SIGTERM);
	return rmdir(folder.c_str());
}

int main(int argc, char **argv)
{
	CMUnitTest tests[std::size(table)] = {};

	if (argc >= 4) {
		works_to = argv[2];
		most_ms = strtoull(argv[3], nullptr, 10);
		works = *works_to;
		return program(argv[1], argc == 4);
	}
	for (size_t i = 0; i < std::size(table); i++) {
		tests[i].name = table[i].name;
		tests[i].test_func = run;
		tests[i].setup_func = set_up;
		tests[i].teardown_func = tear_down;
		tests[i].initial_state = const_cast<wrong *>(&table[i]);
	}
	return cmocka_run_group_tests_name("hostile servers", tests, nullptr, nullptr);
}
