/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device, embedded or in a process, vanishes, is killed or is given up, and is opened again; and the control socket
 * of usdma-sim, by which the test makes the process do so.
 * Run as: vanish_test (USDMA_SIM names the device program).
 */
#include "tests/integration/files.h"
#include "tests/support/sim_process.h"
#include "tests/support/until.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static constexpr size_t size = 64 * 1024, large = 8 << 20;
static constexpr unsigned embedded = 0, process = 1;

static pid_t sim;
static std::string folder, ctl;

static void serve(const std::vector<const char *> &more = {})
{
	std::vector<const char *> args = {"--control",  ctl.c_str(), "--engines", "1",
					  "--channels", "4",         "--mem",     "16M"};

	args.insert(args.end(), more.begin(), more.end());
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev", args);
	assert_true(sim > 0);
}

static int set_up(void **)
{
	char name[] = "/tmp/usdma-vanish-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	ctl = folder + "/ctl";
	serve();
	setenv("USDMA_DEVICES",
	       ("sim:mem=16M:engines=1:channels=4:faults=,vfio-user:" + folder +
		"/dev,sim:mem=16M:engines=1:channels=4")
		       .c_str(),
	       1);
	return 0;
}

static int tear_down(void **)
{
	const int status = end_sim(sim, SIGTERM);

	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* It has removed both sockets. */
	return rmdir(folder.c_str());
}

/* ---- the control socket ----------------------------------------------------------------------------- */

static std::string send_line(int fd, const std::string &text)
{
	assert_int_equal(send(fd, text.data(), text.size(), MSG_NOSIGNAL), text.size());
	return read_line(fd);
}

static std::string control(const std::string &line)
{
	return send_control_line(ctl, line);
}

static bool has(const std::string &text, const char *part)
{
	const bool found = text.find(part) != text.npos;

	if (!found)
		print_error("\"%s\" is not in: %s\n", part, text.c_str());
	return found;
}

static void control_commands(void **)
{
	const int fd = connect_unix(ctl);
	struct stat st;

	assert_int_equal(stat(ctl.c_str(), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(has(send_line(fd, "state\n"), "\"ok\": true"));
	assert_true(has(send_line(fd, "faults fail@3/transfer+drop-irq%2\r\n"),
			"{\"rule\": \"fail@3/transfer\", \"seen\": 0, \"struck\": 0}"));
	assert_true(has(send_line(fd, "faults die\n"), "\"ok\": false"));
	assert_true(has(send_line(fd, "faults\n"), "drop-irq%2")); /* an invalid command changes nothing */
	assert_true(has(send_line(fd, "clear\n"), "\"faults\": []"));
	for (const char *wrong : {"\n", "nonsense\n", "state now\n", "vanish 0\n", "vanish 12x\n",
				  "vanish 99999999999999999999\n", "faults a b\n", "\"\\\x01\xff\n", "{}\n"})
		assert_true(has(send_line(fd, wrong), "\"ok\": false, \"error\": \""));
	/* Commands may come in pieces, and several at once. */
	assert_int_equal(send(fd, "sta", 3, 0), 3);
	assert_true(has(send_line(fd, "te\nhelp\n"), "\"clients\""));
	assert_true(has(read_line(fd), "vanish"));
	close(fd);
}

static void control_limits(void **)
{
	std::vector<int> many;
	const int fd = connect_unix(ctl);

	/* A line that is too long is refused, and the connection is closed. */
	assert_true(has(send_line(fd, std::string(5000, 'x')), "at most 4096 bytes"));
	assert_string_equal(read_line(fd).c_str(), "");
	close(fd);
	/* Connections over the limit are closed, the others are served; a closed one makes space for a new one. */
	for (int i = 0; i < 12; i++)
		many.push_back(connect_unix(ctl));
	int served = 0;
	for (int f : many) {
		send(f, "state\n", 6, MSG_NOSIGNAL);
		served += read_line(f) != "";
	}
	assert_true(served > 0 && served <= 8);
	for (int f : many)
		close(f);
	std::string last;
	for (int i = 0; i < 1000 && last.empty(); i++) { /* usdma-sim notices the closed connections with a delay */
		const int again = connect_unix(ctl);

		if (send(again, "state\n", 6, MSG_NOSIGNAL) == 6)
			last = read_line(again);
		close(again);
	}
	assert_true(has(last, "\"ok\": true"));
}

/* ---- vanishing -------------------------------------------------------------------------------------- */

static void set_faults(usdma_device *dev, unsigned where, const char *rules)
{
	if (where == embedded)
		WORKS(usdma_device_inject(dev, rules));
	else
		assert_true(has(control(*rules ? std::string("faults ") + rules : "clear"), "\"ok\": true"));
}

static void round_trip(usdma_device *dev, const block &host)
{
	stream s(dev);
	block mem(dev, kind::device, size), back(dev, kind::pinned, size);

	WORKS(usdma_copy(s, mem.data(), host.data(), size));
	WORKS(usdma_copy(s, back.data(), mem.data(), size));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(back.data(), host.data(), size);
}

static bool lost(usdma_device *dev)
{
	return flags_of(dev) & USDMA_DEVICE_LOST;
}

#define RETURNS_ENODEV(call)                                                                                           \
	do {                                                                                                           \
		assert_int_equal((call), -ENODEV);                                                                     \
		assert_string_not_equal(usdma_error_text(), "");                                                       \
	} while (0)

/* Each call on a lost device and its objects reports the loss; the objects can be destroyed. */
static void lose_device(unsigned where, const block &host, usdma_device *other)
{
	usdma_stream *s, *sleeping, *late;
	usdma_device *dev;
	usdma_event *e;
	void *mem, *pinned;
	std::vector<unsigned char> plain(size);
	usdma_stream_options opt = {};

	WORKS(usdma_open_index(where, &dev));
	assert_false(lost(dev));
	opt.struct_size = sizeof(opt);
	opt.wait_mode = USDMA_WAIT_INTERRUPT;
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_stream_create(dev, &opt, &sleeping));
	WORKS(usdma_device_alloc(dev, size, &mem));
	WORKS(usdma_host_alloc(dev, size, &pinned));
	WORKS(usdma_event_create(dev, 0, &e));
	memset(pinned, 0x77, size);
	set_faults(dev, where, "hang@1/for-good");
	WORKS(usdma_copy(s, mem, host.data(), size));
	WORKS(usdma_event_record(e, s));
	set_faults(dev, where, "vanish@1+slow%1/1000000");
	WORKS(usdma_copy(sleeping, mem, host.data(), size));
	RETURNS_ENODEV(usdma_stream_sync(sleeping, long_ms));
	RETURNS_ENODEV(usdma_stream_sync(s, long_ms));
	RETURNS_ENODEV(usdma_event_sync(e, long_ms));
	RETURNS_ENODEV(usdma_stream_query(s));
	RETURNS_ENODEV(usdma_copy(s, mem, plain.data(), size));
	RETURNS_ENODEV(usdma_copy_sync(dev, plain.data(), mem, size, long_ms));
	RETURNS_ENODEV(usdma_stream_create(dev, nullptr, &late));
	RETURNS_ENODEV(usdma_device_sync(dev, long_ms));
	assert_int_equal(usdma_event_query(e), 1);
	assert_true(lost(dev));
	/* Host memory stays valid, and another device can use it. */
	assert_int_equal(static_cast<unsigned char *>(pinned)[size - 1], 0x77);
	round_trip(other, host);
	{
		stream healthy(other);

		RETURNS_ENODEV(usdma_copy(healthy, mem, host.data(), size));
		RETURNS_ENODEV(usdma_copy(healthy, host.data(), mem, size));
	}
	usdma_stream_destroy(s); /* may report the loss */
	usdma_stream_destroy(sleeping);
	assert_int_equal(usdma_stream_query(s), -EBADF);
	WORKS(usdma_device_free(mem));
	WORKS(usdma_host_free(pinned));
	WORKS(usdma_close(dev));
	assert_int_equal(usdma_event_query(e), 1);
	WORKS(usdma_event_destroy(e));
}

/* Several times in one process, with memory that was pinned before; no file descriptor is leaked. */
static void comes_back(unsigned where)
{
	device other(2);
	block host(other, kind::pinned, size);
	unsigned fds = 0;
	auto gen = rng(where);

	fill_random(host.data(), size, gen);
	for (int i = 0; i < 4; i++) {
		lose_device(where, host, other);
		if (where == process)
			control("clear");
		{
			device again(where);

			set_faults(again, where, "");
			round_trip(again, host);
		}
		if (i == 1)
			fds = open_fds();
	}
	assert_int_equal(open_fds(), fds);
}

static void embedded_comes_back(void **)
{
	comes_back(embedded);
}

static void process_comes_back(void **)
{
	comes_back(process);
}

/* After "vanish" the device cannot be opened, after "return" it can. */
static void vanishes_and_returns(void **)
{
	device other(2);
	block host(other, kind::pinned, size);
	usdma_device *dev;
	usdma_stream *s, *late;

	WORKS(usdma_open_index(process, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	assert_true(has(control("state"), "\"serving\": true, \"away\": false"));
	assert_true(has(control("vanish"), "\"away\": true"));
	while (!lost(dev)) /* another thread notices the closed connection */
		sched_yield();
	RETURNS_ENODEV(usdma_stream_create(dev, nullptr, &late));
	/* The copy may be accepted, or even be done before the server leaves; otherwise the sync reports the loss. */
	usdma_copy(s, host.data(), host.data(), size);
	const int end = usdma_stream_sync(s, long_ms);
	assert_true(end == 0 || end == -ENODEV);
	usdma_stream_destroy(s);
	WORKS(usdma_close(dev));
	for (int i = 0; i < 3; i++) {
		const int err = usdma_open_index(process, &dev);

		assert_true(err < 0 && err != -ETIMEDOUT);
		assert_string_not_equal(usdma_error_text(), "");
	}
	assert_true(has(control("return"), "\"away\": false"));
	device again(process);
	round_trip(again, host);
}

/* Once memory is unregistered, the engine that was copying to it does not write to it any more. */
static void given_up_in_mid_copy(void **)
{
	std::vector<unsigned char> own(large), page(4096);
	usdma_device *dev;
	usdma_stream *s;
	void *mem;

	WORKS(usdma_open_index(embedded, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_device_alloc(dev, large, &mem));
	WORKS(usdma_host_register(own.data(), large, 0));
	for (int i = 0; i < 100; i++)
		WORKS(usdma_copy(s, own.data(), mem, large));
	/* An invalid reply, to the request to map one more page, closes the connection. */
	set_faults(dev, embedded, "reply@1/garbage");
	/* It succeeds if the loss is noticed first. */
	const int registered = usdma_host_register(page.data(), page.size(), 0);
	until("the loss of a device", [=] { return usdma_stream_query(s) == -ENODEV; });
	usdma_host_unregister(own.data());
	memset(own.data(), 0x5a, large);
	usdma_stream_destroy(s);
	WORKS(usdma_close(dev));
	if (!registered)
		WORKS(usdma_host_unregister(page.data()));
	assert_int_equal(std::count(own.begin(), own.end(), 0x5a), large);
}

struct call {
	const char *name;
	std::function<int()> run;
	int result = 0;
};

/* SIGKILL during copies: each call that waits returns -ENODEV. */
static void kill_under_calls(usdma_device *dev, usdma_stream *const (&s)[4])
{
	block mem(dev, kind::device, large), host(dev, kind::pinned, large), plain(dev, kind::pageable, large);
	const volatile unsigned char *first = host.data();
	std::vector<std::thread> threads;
	usdma_event *e;

	memset(host.data(), 0, 4096);
	WORKS(usdma_event_create(dev, 0, &e));
	WORKS(usdma_fill(s[0], mem.data(), 0x5a, 1, 4096));
	WORKS(usdma_stream_sync(s[0], long_ms));
	for (usdma_stream *one : s)
		WORKS(usdma_copy(one, host.data(), mem.data(), large));
	WORKS(usdma_event_record(e, s[1]));
	std::vector<call> calls = {
		{"event sync", [=] { return usdma_event_sync(e, -1); }},
		{"device sync", [=] { return usdma_device_sync(dev, -1); }},
		{"pageable copy", [&] { return usdma_copy(s[0], plain.data(), mem.data(), large); }},
		{"synchronous copy", [&] { return usdma_copy_sync(dev, plain.data(), mem.data(), large, -1); }},
	};
	for (usdma_stream *one : s)
		calls.push_back({"stream sync", [=] { return usdma_stream_sync(one, -1); }});
	for (call &c : calls)
		threads.emplace_back([&c] { c.result = c.run(); });
	until("a copy that runs", [=] { return *first == 0x5a; });
	kill(sim, SIGKILL);
	for (std::thread &t : threads)
		t.join();
	for (const call &c : calls) {
		if (c.result != -ENODEV)
			print_error("%s: %d\n", c.name, c.result);
		assert_int_equal(c.result, -ENODEV);
	}
	const int late = usdma_copy(s[2], host.data(), mem.data(), 64); /* may be accepted; then the sync reports it */
	assert_true(late == 0 || late == -ENODEV);
	RETURNS_ENODEV(usdma_stream_sync(s[2], -1));
	RETURNS_ENODEV(usdma_copy_sync(dev, plain.data(), mem.data(), 64, -1));
	RETURNS_ENODEV(usdma_stream_query(s[3]));
	WORKS(usdma_event_destroy(e));
}

/* At that rate no copy ends before the kill; one stream for each wait mode. */
static void killed_and_started_again(void **)
{
	device other(2);
	block host(other, kind::pinned, size);
	usdma_stream_options opt = {};
	usdma_device *dev;
	usdma_stream *s[4];

	end_sim(sim, SIGTERM);
	serve({"--rate", "64K"});
	WORKS(usdma_open_index(process, &dev));
	opt.struct_size = sizeof(opt);
	for (uint32_t i = 0; i < 4; i++) {
		opt.wait_mode = i;
		WORKS(usdma_stream_create(dev, &opt, &s[i]));
	}
	kill_under_calls(dev, s);
	for (usdma_stream *one : s) {
		usdma_stream_destroy(one);
		assert_int_equal(usdma_stream_query(one), -EBADF); /* destroyed, even if destroy returned an error */
	}
	WORKS(usdma_close(dev));
	waitpid(sim, nullptr, 0);
	assert_true(usdma_open_index(process, &dev) < 0); /* no server */
	serve();
	device again(process);
	round_trip(again, host);
}

/* The CPU can still copy to its mapped memory, but the loss is reported. */
static void kill_under_copies_by_the_cpu(usdma_device *dev)
{
	std::vector<unsigned char> in(large / 2, 0x5a), out(large / 2);
	block mem(dev, kind::device, large / 2);
	unsigned rounds = 0;
	int err = 0;

	while (!err) {
		err = usdma_copy_sync(dev, mem.data(), in.data(), in.size(), -1);
		if (!err)
			err = usdma_copy_sync(dev, out.data(), mem.data(), out.size(), -1);
		if (!err)
			assert_true(out == in);
		if (++rounds == 4)
			kill(sim, SIGKILL);
	}
	assert_int_equal(err, -ENODEV);
	assert_true(rounds >= 4);
	assert_int_equal(usdma_copy_sync(dev, out.data(), mem.data(), 64, -1), -ENODEV);
}

static void killed_under_copies_by_the_cpu(void **)
{
	usdma_device *dev;

	end_sim(sim, SIGTERM);
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev", {"--mem", "16M"});
	assert_true(sim > 0);
	WORKS(usdma_open_index(process, &dev));
	kill_under_copies_by_the_cpu(dev);
	WORKS(usdma_close(dev));
	waitpid(sim, nullptr, 0);
	serve();
}

static void inject_errors(void **)
{
	device e(embedded), p(process), no_faults(2);

	assert_int_equal(usdma_device_inject(e, nullptr), -EINVAL);
	assert_int_equal(usdma_device_inject(nullptr, ""), -EBADF);
	assert_int_equal(usdma_device_inject(e, "fail@0"), -EINVAL);
	assert_true(has(usdma_error_text(), "fail@0"));
	assert_int_equal(usdma_device_inject(e, "die@1"), -EINVAL);
	assert_int_equal(usdma_device_inject(e, std::string(100000, '+').c_str()), -EINVAL);
	std::string many = "fail@1";
	for (int i = 0; i < 64; i++)
		many += "+fail@1";
	assert_int_equal(usdma_device_inject(e, many.c_str()), -EINVAL);
	assert_int_equal(usdma_device_inject(p, "fail@1"), -EOPNOTSUPP);
	assert_true(has(usdma_error_text(), "--control"));
	assert_int_equal(usdma_device_inject(no_faults, "fail@1"), -EOPNOTSUPP);
	assert_true(has(usdma_error_text(), "faults="));
	WORKS(usdma_device_inject(e, ""));
}

/* The device is killed during file operations: each read has a valid prefix, and those that wait for it fail. */
static void kill_under_files(usdma_device *dev, usdma_stream *s, usdma_file *f, const bytes &want)
{
	std::vector<bytes> dst(8, bytes(want.size(), untouched));
	std::vector<size_t> moved(dst.size(), 77);
	gate g(dev);
	size_t written = 77;

	for (size_t i = 0; i < dst.size(); i++) {
		if (i + 1 == dst.size())
			g.close(s);
		WORKS(usdma_file_read(s, dst[i].data(), f, 0, want.size(), &moved[i]));
	}
	WORKS(usdma_file_write(s, f, 0, dst[0].data(), want.size(), &written));
	kill(sim, SIGKILL);
	assert_int_equal(usdma_stream_sync(s, long_ms), -ENODEV);
	for (size_t i = 0; i < dst.size(); i++)
		assert_prefix(dst[i], want, 0, moved[i]);
	assert_int_equal(moved.back(), 0);
	assert_int_equal(written, 0);
	assert_int_equal(usdma_file_read_sync(dst[0].data(), f, 0, want.size(), &moved[0], long_ms), -ENODEV);
}

static void killed_under_files(void **)
{
	auto gen = rng(1);
	const temporary t;
	const bytes want = fill_file(t, 4 * MiB, gen);
	usdma_device *dev;
	usdma_stream *s;
	usdma_file *f;

	WORKS(usdma_open_index(process, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_file_import(dev, t.fd(), USDMA_FILE_AUTO, &f));
	kill_under_files(dev, s, f, want);
	usdma_stream_destroy(s);
	WORKS(usdma_close(dev));
	waitpid(sim, nullptr, 0);
	assert_true(t.get() == want);
	serve();
	bytes back(want.size());
	device again(process);
	WORKS(usdma_file_read_sync(back.data(), f, 0, back.size(), nullptr, long_ms));
	assert_true(back == want);
	WORKS(usdma_file_close(f));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(control_commands),
		cmocka_unit_test(control_limits),
		cmocka_unit_test(inject_errors),
		cmocka_unit_test(embedded_comes_back),
		cmocka_unit_test(process_comes_back),
		cmocka_unit_test(vanishes_and_returns),
		cmocka_unit_test(given_up_in_mid_copy),
		cmocka_unit_test(killed_and_started_again),
		cmocka_unit_test(killed_under_copies_by_the_cpu),
		cmocka_unit_test(killed_under_files),
	};

	setenv("USDMA_LOG", "none", 1);
	alarm(100); /* a call that hangs */
	return cmocka_run_group_tests_name("vanish", tests, set_up, tear_down);
}
