/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One device that several processes share (usdma-sim --backend), over each model: their copies are right, whatever
 * the others do, and nothing of a process that was killed stays mapped.
 * Run as: share_test [MODEL]... (USDMA_SIM names the device program); the test starts itself as "client ...".
 */
#include "tests/integration/native.h"
#include "tests/support/sim_process.h"
#include "tests/support/until.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

using u8 = unsigned char;

/* ---- a client ---------------------------------------------------------------------------------------- */

static constexpr size_t block_bytes = 192 * 1024;

/* Memory, and what it must have once the stream has ended. */
struct checked {
	block real;
	std::vector<u8> want;

	checked(usdma_device *dev, kind k) : real(dev, k, block_bytes), want(block_bytes, 0)
	{
		WORKS(usdma_fill_sync(dev, real.data(), 0, 1, block_bytes, long_ms));
	}
};

/* One stream, and blocks that no other stream uses. */
struct work {
	work(usdma_device *d, unsigned number) : dev(d), s(d), gen(rng(number))
	{
		for (kind k : {kind::pinned, kind::pinned, kind::pinned, kind::device, kind::registered})
			blocks.push_back(std::make_unique<checked>(d, k));
	}

	size_t below(size_t n) { return size_t(gen() % n); }
	/* Mostly short. */
	size_t any_len() { return 1 + below(size_t(1) << (1 + below(17))); }
	void copy();
	void fill();
	void batch();
	void round();

	usdma_device *dev;
	stream s;
	std::mt19937_64 gen;
	std::vector<std::unique_ptr<checked>> blocks;
};

void work::copy()
{
	const size_t from = below(blocks.size()), to = (from + 1 + below(blocks.size() - 1)) % blocks.size();
	const size_t len = any_len(), at = below(block_bytes - len + 1), source = below(block_bytes - len + 1);
	checked &src = *blocks[from], &dst = *blocks[to];

	WORKS(usdma_copy(s, dst.real.data() + at, src.real.data() + source, len));
	memcpy(dst.want.data() + at, src.want.data() + source, len);
}

void work::fill()
{
	checked &dst = *blocks[below(blocks.size())];
	const size_t len = (any_len() + 7) & ~size_t(7), at = below((block_bytes - len) / 8 + 1) * 8;
	const u8 with = u8(gen());

	WORKS(usdma_fill(s, dst.real.data() + at, with, 1, len));
	memset(dst.want.data() + at, with, len);
}

void work::batch()
{
	for (size_t n = 1 + below(small() ? 8 : 60); n; n--)
		below(4) ? copy() : fill();
}

void work::round()
{
	checked &b = *blocks[below(3)];

	fill_random(b.real.data(), block_bytes, gen);
	memcpy(b.want.data(), b.real.data(), block_bytes);
	batch();
	WORKS(usdma_stream_sync(s, long_ms));
	for (const auto &c : blocks) {
		std::vector<u8> got(block_bytes);

		WORKS(usdma_copy_sync(dev, got.data(), c->real.data(), block_bytes, long_ms));
		assert_memory_equal(got.data(), c->want.data(), block_bytes);
	}
}

static constexpr unsigned load = ~0u; /* instead of rounds */
static unsigned client_number, client_rounds;

static std::atomic<bool> seen_a_hang;

static void note_hang(int, const char *text, void *)
{
	if (strstr(text, "hangs"))
		seen_a_hang = true;
	print_error("%s\n", text);
}

static void client_work(void **)
{
	usdma_log_set_callback(note_hang, nullptr);
	usdma_log_set_level(USDMA_LOG_WARN);
	const device dev;
	work a(dev, 2 * client_number), b(dev, 2 * client_number + 1);

	/* 0: until it is killed. */
	for (unsigned i = 0; !client_rounds || i < client_rounds; i++) {
		a.round();
		b.round();
	}
	assert_false(seen_a_hang);
}

/* Copies without an end, with more in flight than it gets. */
static void client_load(void **)
{
	static constexpr size_t bytes = 16 * 1024;
	const device dev;
	const stream s(dev);
	const block from(dev, kind::pinned, bytes), to(dev, kind::pinned, bytes);

	for (;;)
		WORKS(usdma_copy(s, to.data(), from.data(), bytes));
}

static int client_main(char **argv)
{
	const CMUnitTest work_tests[] = {cmocka_unit_test(client_work)}, load_tests[] = {cmocka_unit_test(client_load)};

	setenv("USDMA_DEVICES", argv[0], 1);
	client_number = unsigned(atoi(argv[1]));
	client_rounds = unsigned(strtoul(argv[2], nullptr, 10));
	return client_rounds == load ? cmocka_run_group_tests(load_tests, nullptr, nullptr) :
				       cmocka_run_group_tests(work_tests, nullptr, nullptr);
}

/* ---- the devices ------------------------------------------------------------------------------------- */

static std::string folder, model, control_path, share_control;
static pid_t real_device, server;

static std::string path_of(const char *name)
{
	return folder + "/" + name;
}

static std::string behind;

static void start_server(const char *hang_ms)
{
	server = start_sim(getenv("USDMA_SIM"), path_of("dev"),
			   {"--backend", behind.c_str(), "--hang-ms", hang_ms, "--control", share_control.c_str(),
			    "--user-clients", "64"});
	assert_true(server > 0);
}

static int start(void **state, const char *hang_ms, const char *rate = "100G")
{
	char name[] = "/tmp/usdma-share-XXXXXX";

	model = *static_cast<const char **>(*state);
	assert_non_null(mkdtemp(name));
	folder = name;
	share_control = path_of("share-ctl");
	behind = "sim:mem=16M:channels=4";
	real_device = -1;
	if (model != "embedded") {
		control_path = path_of("ctl");
		real_device = start_sim(getenv("USDMA_SIM"), path_of("real"),
					{"--model", model.c_str(), "--control", control_path.c_str(), "--rate", rate});
		assert_true(real_device > 0);
		behind = "vfio-user:" + path_of("real");
	}
	start_server(hang_ms);
	return 0;
}

static int set_up(void **state)
{
	return start(state, "20000");
}

static int set_up_slow(void **state)
{
	return start(state, "20000", "10M");
}

static int set_up_impatient(void **state)
{
	return start(state, "2000");
}

/* A monitor that checks each second takes ten times as long, more than until() waits. */
static int set_up_for_a_death(void **state)
{
	return start(state, "4000");
}

static int tear_down(void **)
{
	const int status = end_sim(server, SIGTERM);

	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	end_sim(real_device, SIGTERM);
	for (const char *left : {"real", "ctl"})
		unlink(path_of(left).c_str());
	return rmdir(folder.c_str());
}

/* Mappings of clients' memory, of the library's name. */
static unsigned mapped_by(pid_t pid)
{
	std::ifstream in("/proc/" + std::to_string(pid) + "/maps");
	unsigned n = 0;

	for (std::string line; std::getline(in, line);)
		n += line.find("/memfd:usdma") != line.npos;
	return n;
}

/* In the server and in the process of the device behind it. */
static unsigned mapped()
{
	unsigned n = mapped_by(server);

	if (real_device > 0)
		for (const pid_t child : children_of(real_device))
			n += mapped_by(child);
	return n;
}

static pid_t start_client(unsigned number, unsigned rounds, const char *hang_ms = "10000")
{
	const std::string dev = "vfio-user:" + path_of("dev"), n = std::to_string(number), r = std::to_string(rounds);
	const pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is the test's report */
	setenv("USDMA_TEST_SEED", std::to_string(seed()).c_str(), 1);
	unsetenv("USDMA_TEST_CASE");
	/* All clients together may map half of the machine's memory. */
	setenv("USDMA_POOL_SIZE", "16M", 1);
	setenv("USDMA_HANG_MS", hang_ms, 1);
	execl("/proc/self/exe", "share-client", "client", dev.c_str(), n.c_str(), r.c_str(), nullptr);
	_exit(127);
}

static void succeeds(pid_t pid)
{
	int status = 0;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- tests ------------------------------------------------------------------------------------------- */

static void clients_work(unsigned count, unsigned rounds)
{
	const unsigned before = mapped();
	std::vector<pid_t> all;

	for (unsigned i = 0; i < count; i++)
		all.push_back(start_client(i, rounds));
	for (const pid_t pid : all)
		succeeds(pid);
	until("the memory of clients that have ended", [=] { return mapped() == before; });
}

static void two_clients(void **)
{
	clients_work(2, scale() > 1 ? 40 : 4);
}

static void eight_clients(void **)
{
	clients_work(8, 10);
}

/* As many as are served at a time. */
static void sixty_four_clients(void **)
{
	clients_work(64, 1);
}

/* What others do is right, and nothing stays mapped. */
static void killed_at_random(void **)
{
	const unsigned before = mapped(), rounds = scale() > 1 ? 30 : 3;
	const pid_t steady = start_client(0, scale() > 1 ? 60 : 6);
	auto gen = rng(1000);

	for (unsigned i = 0; i < rounds; i++) {
		pid_t dies = start_client(1 + i, 0);

		assert_true(dies > 0);
		usleep(useconds_t(gen() % 150000));
		const int status = end_sim(dies, SIGKILL);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	succeeds(steady);
	until("the memory of clients that were killed", [=] { return mapped() == before; });
}

/* A client in this process. */
struct one_client {
	one_client()
	{
		WORKS(usdma_open(("vfio-user:" + path_of("dev")).c_str(), &dev));
		from = std::make_unique<block>(dev, kind::pinned, block_bytes);
		to = std::make_unique<block>(dev, kind::pinned, block_bytes);
		s = std::make_unique<stream>(dev);
		auto gen = rng(2000);
		fill_random(from->data(), block_bytes, gen);
		memset(to->data(), 0, block_bytes);
	}
	~one_client()
	{
		s.reset();
		from.reset();
		to.reset();
		const int err = usdma_close(dev);
		assert_true(!err || (is_lost && err == -ENODEV));
	}
	/* With work that is not waited for. */
	void lose()
	{
		is_lost = true;
		s->leave();
	}
	/* Operation i copies page i. */
	void copy_pages(unsigned first, unsigned n)
	{
		for (unsigned i = first; i < first + n; i++)
			WORKS(usdma_copy(*s, to->data() + i * page, from->data() + i * page, page));
	}
	bool page_is_copied(unsigned i) { return !memcmp(to->data() + i * page, from->data() + i * page, page); }

	static constexpr size_t page = 4096;
	usdma_device *dev = nullptr;
	std::unique_ptr<block> from, to;
	std::unique_ptr<stream> s;
	bool is_lost = false;
};

/* What its rule applies to ("seen"), or did ("struck"). */
static unsigned long long of_real_device(const std::string &count)
{
	const std::string answer = send_control_line(control_path, "state"), key = "\"" + count + "\": ";
	const char *const at = strstr(answer.c_str(), key.c_str());

	assert_non_null(at);
	return strtoull(at + key.size(), nullptr, 10);
}

static void set_rule(const std::string &rule)
{
	assert_non_null(strstr(send_control_line(control_path, ("faults " + rule).c_str()).c_str(), "\"ok\": true"));
}

/* By the device behind: it counts what its rule applies to. */
static void device_copies(void **)
{
	static constexpr unsigned copies = 40;
	const unsigned mapped_before = mapped();

	one_client c;
	/* Memory and rings, in the server and in the process of the device behind it. */
	assert_true(mapped() >= mapped_before + 4);
	set_rule("fail@1000000000");
	const unsigned long long before = of_real_device("seen");
	c.copy_pages(0, copies);
	WORKS(usdma_stream_sync(*c.s, long_ms));
	for (unsigned i = 0; i < copies; i++)
		assert_true(c.page_is_copied(i));
	assert_true(of_real_device("seen") - before >= copies);
}

/* The device does not answer when one client maps: others' mappings do not wait for that. */
static void maps_beside_a_late_one(void **)
{
	set_rule("reply@1/drop");
	pid_t waits = start_client(0, 1);
	until("a mapping without an answer", [] { return of_real_device("struck") == 1; });
	{
		one_client c;

		c.copy_pages(0, 8);
		WORKS(usdma_stream_sync(*c.s, long_ms));
		for (unsigned i = 0; i < 8; i++)
			assert_true(c.page_is_copied(i));
	}
	end_sim(waits);
}

/* Of 8 copies one fails, and is reported with its number; the others are made. */
static void one_of_eight_fails(const char *rule, unsigned nth, const char *reason)
{
	usdma_error_info info = {};

	one_client c;
	set_rule(rule);
	c.copy_pages(0, 8);
	assert_int_equal(usdma_stream_sync(*c.s, long_ms), -EIO);
	c.copy_pages(8, 8);
	WORKS(usdma_stream_sync(*c.s, long_ms));
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(c.page_is_copied(i), i + 1 != nth);
	set_rule(rule);
	c.copy_pages(16, 8);
	info.struct_size = sizeof(info);
	until("the end of the copies", [&] { return usdma_stream_query(*c.s) == 1; });
	WORKS(usdma_stream_take_error(*c.s, &info));
	assert_int_equal(info.error, -EIO);
	assert_int_equal(info.sequence, 16 + nth);
	assert_string_equal(info.reason_name, reason);
	WORKS(usdma_stream_sync(*c.s, long_ms));
}

static void faults_come_back(void **)
{
	one_of_eight_fails("fail@3/transfer", 3, "transfer failed");
}

static void hang_is_reset(void **)
{
	one_of_eight_fails("hang@2", 2, "ended by a reset");
}

/* A number of each client, in the order in which they came. */
static std::vector<double> of_clients(const std::string &name)
{
	const std::string answer = send_control_line(share_control, "state"), key = "\"" + name + "\": ";
	std::vector<double> all;

	for (const char *at = answer.c_str(); (at = strstr(at, key.c_str())); at++)
		all.push_back(strtod(at + key.size(), nullptr));
	return all;
}

/* That the device has copied. */
static std::vector<double> bytes_of_clients()
{
	return of_clients("bytes");
}

/* It is killed while its first request hangs, and none is left to notice that: its memory comes back all the same. */
static void dies_over_a_hang(void **)
{
	const unsigned before = mapped();

	set_rule("hang@1");
	pid_t dies = start_client(0, load);
	until("a request that hangs", [] {
		const std::vector<double> n = of_clients("in_flight");

		return n.size() == 1 && n[0] > 0;
	});
	/* A client that is less patient than the server takes nothing behind it for a hang. */
	const pid_t waits = start_client(1, 2, "400");
	until("a request behind it", [] {
		const std::vector<double> n = of_clients("in_flight");

		return n.size() == 2 && n[1] > 0;
	});
	end_sim(dies, SIGKILL);
	succeeds(waits);
	until("the memory of a client whose request hangs", [=] { return mapped() == before; });
}

/* Over so many of the pieces in which clients get the device, of the one that gets less. */
static double ratio_of_two(unsigned pieces)
{
	static constexpr double piece = 256 * 1024;
	const std::vector<double> before = bytes_of_clients();
	std::vector<double> after;

	assert_int_equal(before.size(), 2);
	for (unsigned n = 1; n <= pieces; n++)
		until("a piece for each of two clients", [&] {
			after = bytes_of_clients();
			assert_int_equal(after.size(), 2);
			return std::min(after[0] - before[0], after[1] - before[1]) >= n * piece;
		});
	const double ratio = (after[0] - before[0]) / (after[1] - before[1]);
	print_message("# ratio %.3f\n", ratio);
	return ratio;
}

/* Two clients that always have work get as much as their weights say, within 5 %. */
static void shares_by_weight(void **)
{
	pid_t clients[] = {start_client(0, load), start_client(1, load)};

	until("work of two clients", [] {
		const std::vector<double> all = bytes_of_clients();

		return all.size() == 2 && all[0] > 1e6 && all[1] > 1e6;
	});
	const double equal = ratio_of_two(80);
	assert_true(equal > 0.95 && equal < 1.05);
	assert_non_null(strstr(send_control_line(share_control, "client 1 3").c_str(), "\"ok\": true"));
	ratio_of_two(4);
	const double weighted = ratio_of_two(80);
	assert_true(weighted > 2.85 && weighted < 3.15);
	for (pid_t &c : clients)
		end_sim(c);
}

/* Of a copy that the device takes seconds for, only what it has is waited for. */
static void abort_in_a_long_copy(void **)
{
	static constexpr size_t bytes = 64 << 20;
	one_client c;
	const block from(c.dev, kind::pinned, bytes), to(c.dev, kind::pinned, bytes);
	usdma_stream *s;

	for (unsigned i = 0; i < 3; i++) {
		WORKS(usdma_stream_create(c.dev, nullptr, &s));
		WORKS(usdma_copy(s, to.data(), from.data(), bytes));
		const double before = bytes_of_clients()[0];
		WORKS(usdma_stream_abort(s));
		assert_true(bytes_of_clients()[0] - before < bytes);
		assert_int_equal(usdma_stream_destroy(s), 0);
	}
	c.copy_pages(0, 8);
	WORKS(usdma_stream_sync(*c.s, long_ms));
	for (unsigned i = 0; i < 8; i++)
		assert_true(c.page_is_copied(i));
}

/* A stream whose copy takes seconds leaves something to another one of the same client. */
static void a_busy_stream(void **)
{
	static constexpr size_t bytes = 64 << 20;
	one_client c;
	const block from(c.dev, kind::pinned, bytes), to(c.dev, kind::pinned, bytes);
	usdma_stream *busy;

	WORKS(usdma_stream_create(c.dev, nullptr, &busy));
	WORKS(usdma_copy(busy, to.data(), from.data(), bytes));
	until("requests as many as it may have", [] { return of_clients("in_flight_bytes")[0] >= 2 << 20; });
	c.copy_pages(0, 1);
	WORKS(usdma_stream_sync(*c.s, long_ms));
	assert_true(c.page_is_copied(0));
	assert_int_equal(usdma_stream_query(busy), 0);
	WORKS(usdma_stream_abort(busy));
	assert_int_equal(usdma_stream_destroy(busy), 0);
}

/* Clients see the loss, and the server exits. */
static void loses_device(void (*cause)(one_client &c))
{
	int status = 0;
	{
		one_client c;

		c.copy_pages(0, 1);
		WORKS(usdma_stream_sync(*c.s, long_ms));
		cause(c);
		until("the loss of the device", [&] { return flags_of(c.dev) & USDMA_DEVICE_LOST; });
		c.lose();
	}
	assert_int_equal(waitpid(server, &status, 0), server);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	server = -1;
}

static void device_dies(void **)
{
	loses_device([](one_client &) { end_sim(real_device, SIGKILL); });
}

/* Neither reset helps: each copy hangs again. */
static void device_hangs_for_good(void **)
{
	loses_device([](one_client &c) {
		set_rule("hang%1/for-good");
		for (unsigned i = 0; i < 8 && !(flags_of(c.dev) & USDMA_DEVICE_LOST); i++) {
			usdma_copy(*c.s, c.to->data(), c.from->data(), one_client::page);
			assert_int_not_equal(usdma_stream_sync(*c.s, long_ms), 0);
		}
	});
}

/* Its clients lose their device, and open a new one of the next server. */
static void server_dies(void **)
{
	for (unsigned i = 0; i < (scale() > 1 ? 5 : 2); i++) {
		{
			one_client c;

			c.copy_pages(0, 16);
			end_sim(server, SIGKILL);
			until("the loss of the device", [&] { return flags_of(c.dev) & USDMA_DEVICE_LOST; });
			c.lose();
		}
		start_server("20000");
		one_client again;
		again.copy_pages(0, 16);
		WORKS(usdma_stream_sync(*again.s, long_ms));
		for (unsigned page = 0; page < 16; page++)
			assert_true(again.page_is_copied(page));
	}
}

static int end_after_loss(void **)
{
	end_sim(server);
	end_sim(real_device);
	for (const char *name : {"real", "dev", "ctl", "share-ctl"})
		unlink(path_of(name).c_str());
	return rmdir(folder.c_str());
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "client"))
		return client_main(argv + 2);
	setenv("USDMA_LOG", "error", 0);
	const char *name = argc > 1 ? argv[1] : "embedded";
	const bool embedded = !strcmp(name, "embedded"), all = scale() > 1;
	std::vector<CMUnitTest> tests = {
		cmocka_unit_test_prestate_setup_teardown(two_clients, set_up, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(killed_at_random, set_up, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(server_dies, set_up, tear_down, &name),
	};
	const CMUnitTest of_a_process[] = {
		cmocka_unit_test_prestate_setup_teardown(device_copies, set_up, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(faults_come_back, set_up, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(device_dies, set_up, end_after_loss, &name),
		cmocka_unit_test_prestate_setup_teardown(maps_beside_a_late_one, set_up, end_after_loss, &name),
		cmocka_unit_test_prestate_setup_teardown(hang_is_reset, set_up_impatient, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(dies_over_a_hang, set_up_for_a_death, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(abort_in_a_long_copy, set_up_slow, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(a_busy_stream, set_up_slow, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(device_hangs_for_good, set_up_impatient, end_after_loss,
							 &name),
	};
	const CMUnitTest long_ones[] = {
		cmocka_unit_test_prestate_setup_teardown(eight_clients, set_up, tear_down, &name),
		cmocka_unit_test_prestate_setup_teardown(sixty_four_clients, set_up, tear_down, &name),
	};

	if (!embedded)
		tests.insert(tests.end(), std::begin(of_a_process), std::end(of_a_process) - (all ? 0 : 5));
	if (all)
		tests.insert(tests.end(), std::begin(long_ones), std::end(long_ones));
	/* DSA has engines that run at the same time: a client for each. */
	if (all && !embedded && strcmp(name, "dsa"))
		tests.push_back(
			cmocka_unit_test_prestate_setup_teardown(shares_by_weight, set_up_slow, tear_down, &name));
	return _cmocka_run_group_tests("share", tests.data(), tests.size(), nullptr, nullptr);
}
