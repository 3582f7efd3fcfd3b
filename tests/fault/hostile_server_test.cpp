/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A correct program, usdma-sim, and a server between the two that is faulty or slow: the program is neither killed
 * nor blocked, and it can still write to its memory.  vfio-user-faults, vfio-user-hostile and fuzz-client test each
 * faulty message; this test runs the whole library, in a few variants.
 * Run as: hostile_server_test (USDMA_SIM names the device program).
 */
#include "tests/support/recording_proxy.h"
#include "tests/support/sim_process.h"
#include "tests/support/refuse_call.h"
#include "tests/support/test.h"
#include "usdma/usdma.h"

#include "driver/base/clock.h"
#include "driver/base/unique_fd.h"
#include "driver/vfio_user/proto.h"

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

static constexpr u64 max_count = 0xfffffffffffffffe;
static constexpr int limit_ms = 60000;

/* ---- the program, in a process of its own ---------------------------------------------------------------- */

static const char *last_success; /* calls succeed up to this one; "end": all do */
static u64 max_call_ms;
static bool must_succeed = true, good = true;

template <class F> static bool step(const char *name, F call)
{
	const u64 began = now_ns();
	const int err = call();
	const u64 took = (now_ns() - began) / ns_per_ms;

	fprintf(stderr, "#   %s: %d after %llu ms%s%s\n", name, err, static_cast<unsigned long long>(took),
		err < 0 ? ": " : "", err < 0 ? usdma_error_text() : "");
	good &= took <= max_call_ms && (err >= 0 || !must_succeed);
	must_succeed &= strcmp(name, last_success) != 0;
	return err >= 0;
}

static usdma_device *dev;
static usdma_stream *stream;
static unsigned char *from, *to;
static void *on_device;
static constexpr size_t size = 1024 * 1024;

static int allocate()
{
	const usdma_stream_options options = {sizeof(options), USDMA_WAIT_INTERRUPT, 0, 0};
	int err = usdma_host_alloc(dev, size, reinterpret_cast<void **>(&from));

	if (!err)
		err = usdma_host_alloc(dev, size, reinterpret_cast<void **>(&to));
	if (!err)
		err = usdma_device_alloc(dev, size, &on_device);
	return err ? err : usdma_stream_create(dev, &options, &stream);
}

/* The device is idle, and sleeps, between two lengths. */
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

/* Lets the test inject its next fault and waits for it. */
static void wait_for_test()
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
			wait_for_test();
			step("again", copies);
			wait_for_test();
			step("late", copies);
			memset(from, 1, size); /* its pages can be written even if the device is lost */
			memset(to, 2, size);
		}
		if (stream)
			step("destroy", [] { return usdma_stream_destroy(stream); });
		step("close", [] { return usdma_close(dev); });
	}
	return good && must_succeed == !strcmp(last_success, "end") ? 0 : 3;
}

/* ---- the faults of the server ----------------------------------------------------------------------------- */

/* The descriptors that the server got from the client, and those that it passed on instead of the device's. */
struct faulty_server {
	bool is_slow = false, replaces_files = false, doorbells_full = false;
	std::vector<unique_fd> memory, irqs, replaced_bars;

	void change(proxy_message &m, bool from_client);
};

static int replacement_doorbell(bool is_full)
{
	int pipe_fds[2];

	if (!is_full) {
		assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
		close(pipe_fds[0]);
		return pipe_fds[1];
	}
	const int fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(write(fd, &max_count, sizeof(max_count)), sizeof(max_count));
	return fd;
}

/* A file of the same length, which the server can truncate. */
static int replacement_bar(int fd, std::vector<unique_fd> *ours)
{
	const int other = memfd_create("bar", MFD_CLOEXEC);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ftruncate(other, st.st_size), 0);
	ours->emplace_back(dup(other));
	return other;
}

void faulty_server::change(proxy_message &m, bool from_client)
{
	const auto cmd = command(m.head().cmd);

	if (from_client) {
		for (int fd : m.fds)
			(cmd == command::dma_map ? memory : irqs).emplace_back(dup(fd));
		if (is_slow)
			poll(nullptr, 0, 900); /* a slow server */
		return;
	}
	for (int &fd : m.fds) {
		const int was = fd;

		if (cmd == command::device_get_region_io_fds && (replaces_files || doorbells_full))
			fd = replacement_doorbell(doorbells_full);
		else if (cmd == command::device_get_region_info && replaces_files)
			fd = replacement_bar(was, &replaced_bars);
		if (fd != was)
			close(was);
	}
}

static void truncate_files(faulty_server &b, recording_proxy &)
{
	assert_true(!b.replaced_bars.empty() && b.memory.size() >= 2);
	for (const unique_fd &fd : b.replaced_bars)
		assert_int_equal(ftruncate(fd.get(), 0), 0);
	for (const unique_fd &fd : b.memory)
		assert_int_equal(ftruncate(fd.get(), 0), -1);
}

static void fill_interrupts_and_hang_up(faulty_server &b, recording_proxy &server)
{
	assert_true(!b.irqs.empty());
	for (const unique_fd &fd : b.irqs) {
		assert_int_equal(fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
		while (write(fd.get(), &max_count, sizeof(max_count)) < 0) {
			u64 count;

			(void)!read(fd.get(), &count, sizeof(count));
		}
		assert_int_equal(fcntl(fd.get(), F_SETFL, 0), 0);
	}
	server.hang_up();
}

static void become_slow(faulty_server &b, recording_proxy &)
{
	b.is_slow = true;
}

struct server_fault {
	const char *name, *last_success;
	bool is_slow = false, replaces_files = false, doorbells_full = false;
	void (*then[2])(faulty_server &, recording_proxy &) = {}; /* before "again", and before "late" */
	const char *reply_ms = "5000", *hang_ms = "10000", *max_ms = "20000";
	bool has_aio = true; /* false: the program has neither aio nor io_uring */
};

static const server_fault table[] = {
	{.name = "files truncated, interrupts filled, connection closed",
	 .last_success = "again",
	 .replaces_files = true,
	 .then = {truncate_files, fill_interrupts_and_hang_up}},
	{.name = "doorbells full and blocking", .last_success = "allocate", .doorbells_full = true, .hang_ms = "500"},
	{.name = "doorbells full, interrupts filled, connection closed, without aio",
	 .last_success = "again",
	 .doorbells_full = true,
	 .then = {nullptr, fill_interrupts_and_hang_up},
	 .has_aio = false},
	{.name = "slow at opening", .last_success = "", .is_slow = true, .reply_ms = "1000", .max_ms = "12000"},
	{.name = "slow at closing",
	 .last_success = "destroy",
	 .then = {nullptr, become_slow},
	 .reply_ms = "1000",
	 .max_ms = "12000"},
};

/* ---- the test --------------------------------------------------------------------------------------------- */

static std::string folder;
static pid_t sim;

struct program_process {
	pid_t pid;
	unique_fd go, says;
};

/* A lost device retains its thread until its server has ended, which TSan counts as a leak. */
static void exec_program(const server_fault &w, const std::string &path)
{
	const char *const tsan = getenv("TSAN_OPTIONS");

	setenv("USDMA_REPLY_MS", w.reply_ms, 1);
	setenv("USDMA_HANG_MS", w.hang_ms, 1);
	if (!w.has_aio)
		setenv("USDMA_TEST_IO_URING", "0", 1);
	setenv("TSAN_OPTIONS", (std::string(tsan ? tsan : "") + ":report_thread_leaks=0").c_str(), 1);
	execl("/proc/self/exe", "program", ("vfio-user:" + path).c_str(), w.last_success, w.max_ms,
	      w.has_aio ? nullptr : "without aio", nullptr);
	_exit(127);
}

static program_process start(const server_fault &w, const std::string &path)
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		exec_program(w, path);
	}
	close(in[0]);
	close(out[1]);
	return {pid, unique_fd(in[1]), unique_fd(out[0])};
}

static void run(void **state)
{
	const server_fault &w = *static_cast<const server_fault *>(*state);
	const std::string path = folder + "/between";
	faulty_server b;
	char c;

	b.is_slow = w.is_slow;
	b.replaces_files = w.replaces_files;
	b.doorbells_full = w.doorbells_full;
	recording_proxy server(path, folder + "/dev", [&b](proxy_message &m, bool up) { b.change(m, up); });
	program_process p = start(w, path);
	for (auto *then : w.then)
		if (read(p.says.get(), &c, 1) == 1) {
			if (then)
				server.with_forwarding_paused([&] { then(b, server); });
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
		last_success = argv[2];
		max_call_ms = strtoull(argv[3], nullptr, 10);
		must_succeed = *last_success;
		return program(argv[1], argc == 4);
	}
	for (size_t i = 0; i < std::size(table); i++) {
		tests[i].name = table[i].name;
		tests[i].test_func = run;
		tests[i].setup_func = set_up;
		tests[i].teardown_func = tear_down;
		tests[i].initial_state = const_cast<server_fault *>(&table[i]);
	}
	return cmocka_run_group_tests_name("hostile servers", tests, nullptr, nullptr);
}
