/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of a process: memory, addresses, descriptors.  Each is reported as an error that names the limit, never as a
 * signal, on an embedded device and on one in a process.  Run as: limits_test (USDMA_SIM names the device program).
 */
#include "tests/integration/native.h"
#include "tests/support/level.h"
#include "tests/support/sim_process.h"
#include "tests/support/until.h"
#include "usdma/uring.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static constexpr size_t MiB = 1 << 20;

static pid_t sim;
static std::string folder;
static std::string backends[2] = {"sim:mem=2G", ""};

#define EXPECT(x)                                                                                                      \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #x, usdma_error_text());                \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

/* Runs it in a child, whose failure fails the test. */
static void in_child(const std::function<void()> &run)
{
	int status = 0;
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void on_each(const std::function<void()> &run)
{
	for (const std::string &spec : backends) {
		setenv("USDMA_DEVICES", spec.c_str(), 1);
		in_child(run);
	}
}

static usdma_device *open_one()
{
	usdma_device *dev = nullptr;

	EXPECT(!usdma_open_index(0, &dev));
	return dev;
}

static bool names(const char *what)
{
	return strstr(usdma_error_text(), what);
}

static void limit(__rlimit_resource_t what, rlim_t n)
{
	const rlimit lim = {n, n};

	EXPECT(!setrlimit(what, &lim));
}

/* ---- memory ------------------------------------------------------------------------------------------ */

static void more_than_the_machine_has(void **)
{
	on_each([] {
		usdma_device *dev = open_one();
		void *p;

		EXPECT(usdma_host_alloc(dev, size_t(300) << 30, &p) == -ENOMEM && names("MemAvailable"));
		EXPECT(!usdma_host_alloc(dev, MiB, &p));
	});
}

/* Creates a group below our own; "": not possible here. */
static std::string make_group(size_t limit_bytes)
{
	std::ifstream groups("/proc/self/cgroup");
	std::string line;

	while (std::getline(groups, line)) {
		const bool v1 = line.find(":memory:") != std::string::npos;
		const std::string own = line.substr(line.rfind(':') + 1);
		const std::string dir = (v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup") + own + "/usdma-test-" +
					std::to_string(getpid());
		const std::string file = dir + (v1 ? "/memory.limit_in_bytes" : "/memory.max");

		if ((!v1 && line.compare(0, 3, "0::")) || mkdir(dir.c_str(), 0755))
			continue;
		if (!access(file.c_str(), W_OK) && std::ofstream(file) << limit_bytes << std::flush)
			return dir;
		rmdir(dir.c_str());
	}
	return "";
}

static void more_than_the_control_group_has(void **)
{
	const std::string group = make_group(512 * MiB);

	if (group.empty())
		skip();
	on_each([&] {
		usdma_device *dev;
		void *p, *m;

		EXPECT(std::ofstream(group + "/cgroup.procs") << getpid() << std::flush);
		dev = open_one();
		EXPECT(usdma_host_alloc(dev, 700 * MiB, &p) == -ENOMEM && names("control group"));
		m = mmap(nullptr, 700 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			 0);
		EXPECT(usdma_host_register(m, 700 * MiB, 0) == -ENOMEM && names("control group"));
		EXPECT(usdma_device_alloc(dev, 700 * MiB, &p) == -ENOMEM && names("control group"));
		EXPECT(!usdma_host_alloc(dev, 300 * MiB, &p));
		memset(p, 1, 300 * MiB);
	});
	assert_int_equal(rmdir(group.c_str()), 0);
}

static void a_limit_on_files(void **)
{
	on_each([] {
		usdma_device *dev = open_one();
		void *p;

		limit(RLIMIT_FSIZE, MiB);
		EXPECT(usdma_host_alloc(dev, 64 * MiB, &p) == -ENOMEM && names("RLIMIT_FSIZE"));
	});
}

static void a_limit_on_data(void **)
{
	if (sanitized)
		skip(); /* the sanitizer's own data exceed the limit */
	on_each([] {
		usdma_device *dev;
		void *p;

		limit(RLIMIT_DATA, 128 * MiB);
		dev = open_one();
		EXPECT(!usdma_host_alloc(dev, MiB, &p));
	});
}

static void a_limit_on_addresses(void **)
{
	if (sanitized)
		skip(); /* the sanitizer's own addresses exceed the limit */
	on_each([] {
		usdma_device *dev;
		void *p;

		limit(RLIMIT_AS, size_t(4800) * MiB);
		dev = open_one();
		EXPECT(!usdma_host_alloc(dev, MiB, &p));
		EXPECT(usdma_host_alloc(dev, size_t(6) << 30, &p) == -ENOMEM && names("RLIMIT_AS"));
	});
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

static void copy_and_wait(usdma_stream *s, void *mem, void *host)
{
	for (unsigned round = 0; round < 20; round++) {
		EXPECT(!usdma_copy(s, mem, host, 4096));
		EXPECT(!usdma_stream_sync(s, 60000));
	}
}

/* More threads than the device has interrupts, each sleeping on its own stream. */
static void sleep_in_all(usdma_device *dev, unsigned n)
{
	std::vector<std::thread> all;

	for (unsigned i = 0; i < n; i++)
		all.emplace_back([=] {
			usdma_stream_options opt = {};
			usdma_stream *s;
			void *host, *mem;

			opt.struct_size = sizeof(opt);
			opt.wait_mode = USDMA_WAIT_INTERRUPT;
			EXPECT(!usdma_stream_create(dev, &opt, &s));
			EXPECT(!usdma_host_alloc(dev, 4096, &host) && !usdma_device_alloc(dev, 4096, &mem));
			copy_and_wait(s, mem, host);
		});
	for (std::thread &t : all)
		t.join();
}

static void device_uses_few_descriptors(void **)
{
	on_each([] {
		const unsigned before = open_fds();
		usdma_device *dev = open_one();
		usdma_stream *s;

		for (unsigned i = 0; i < 64; i++)
			EXPECT(!usdma_stream_create(dev, nullptr, &s));
		EXPECT(open_fds() - before <= 40);
		sleep_in_all(dev, 24);
		EXPECT(open_fds() - before <= 40);
	});
}

static void many_devices(void **)
{
	const std::string one = "sim:mem=16M";
	std::string eight = one;

	for (unsigned i = 1; i < 8; i++)
		eight += "," + one;
	setenv("USDMA_DEVICES", eight.c_str(), 1);
	for (const rlim_t max_fds : {1024, 512, 300}) {
		in_child([=] {
			usdma_device *dev;

			limit(RLIMIT_NOFILE, max_fds);
			for (unsigned i = 0; i < 8; i++) {
				EXPECT(!usdma_open_index(i, &dev));
				sleep_in_all(dev, 2);
			}
		});
	}
}

/* Each number of free descriptors is enough, or the error names the limit. */
static void few_descriptors(void **)
{
	for (unsigned left = 0; left < 40; left++) {
		on_each([=] {
			usdma_device *dev;
			usdma_stream *s;
			int err;

			limit(RLIMIT_NOFILE, open_fds() + left);
			err = usdma_open_index(0, &dev);
			if (!err)
				err = usdma_stream_create(dev, nullptr, &s);
			EXPECT(!err || (err == -EMFILE && names("RLIMIT_NOFILE")));
			EXPECT(!err || left < 38);
		});
	}
}

/* A program that has opened all it needs allows itself none, and threads of the library poll up to three. */
static void fewer_than_are_polled(void **)
{
	for (rlim_t n = 0; n < 4; n++)
		on_each([=] {
			std::vector<char> plain(4096, 0x5a), back(4096);
			usdma_device *dev = open_one();
			usdma_stream *s;
			void *host, *mem;

			EXPECT(!usdma_stream_create(dev, nullptr, &s));
			EXPECT(!usdma_host_alloc(dev, 4096, &host) && !usdma_device_alloc(dev, 4096, &mem));
			limit(RLIMIT_NOFILE, n);
			EXPECT(!usdma_copy(s, mem, plain.data(), 4096));
			copy_and_wait(s, host, mem);
			EXPECT(!usdma_copy(s, back.data(), host, 4096) && back == plain);
			EXPECT(!usdma_close(dev));
		});
}

/* All but so many are taken. */
static void leave_descriptors(unsigned left)
{
	const rlimit few = {64, 4096};
	int last = -1;

	EXPECT(!setrlimit(RLIMIT_NOFILE, &few));
	for (int fd; (fd = dup(0)) >= 0;)
		last = fd;
	EXPECT(errno == EMFILE && last > int(left));
	for (unsigned i = 0; i < left; i++)
		EXPECT(!close(last - int(i)));
}

static bool is_lack(int err)
{
	return err == -EMFILE && names("RLIMIT_NOFILE");
}

/* The first calls of the process find none: what they could not read is read by a later one. */
static void use_before_and_after(unsigned left, int devices)
{
	const rlimit more = {1024, 4096};
	usdma_device *dev = nullptr;
	usdma_setting_info info = {};
	char text[64];

	info.struct_size = sizeof(info);
	leave_descriptors(left);
	const int count = usdma_device_count();
	EXPECT(count == devices || is_lack(count));
	const int open = usdma_open("sim:mem=24M", &dev);
	EXPECT(!open || is_lack(open));
	const int get = usdma_setting_get("hang_ms", text, sizeof(text));
	EXPECT(get ? is_lack(get) : !strcmp(text, "4321"));
	const int describe = usdma_setting_describe(0, &info);
	EXPECT(!describe || is_lack(describe));
	EXPECT(left || (is_lack(count) && is_lack(open) && is_lack(get) && is_lack(describe)));
	EXPECT(!setrlimit(RLIMIT_NOFILE, &more));
	EXPECT(usdma_device_count() == devices + (open ? 0 : 1));
	EXPECT(!usdma_open("sim:mem=24M", &dev) && !usdma_close(dev) && !usdma_open_index(0, &dev));
	EXPECT(!usdma_setting_get("hang_ms", text, sizeof(text)) && !strcmp(text, "4321"));
}

/* The settings, the list of devices, and libraries that are loaded when they are used. */
static void descriptors_are_free_again(void **)
{
	const std::string mine = folder + "/usdma", file = mine + "/usdma.conf";

	assert_int_equal(mkdir(mine.c_str(), 0700), 0);
	std::ofstream(file) << "hang_ms = 4321\ndevices = sim:mem=20M,sim:mem=21M\n";
	unsetenv("USDMA_DEVICES");
	for (const char *check : {"", "race"})
		for (const bool named : {false, true})
			for (unsigned left = 0; left < 4; left++)
				in_child([&] {
					setenv("USDMA_CHECK", check, 1);
					setenv(named ? "USDMA_CONFIG" : "XDG_CONFIG_HOME",
					       (named ? file : folder).c_str(), 1);
					use_before_and_after(left, 2);
				});
	assert_int_equal(unlink(file.c_str()), 0);
	assert_int_equal(rmdir(mine.c_str()), 0);
}

/* ---- standard streams that are closed ---------------------------------------------------------------- */

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0;
}

/* The library never uses descriptors 0 to 2, also when it sleeps, signals or receives descriptors. */
static void standard_descriptors_unused(void **)
{
	on_each([] {
		usdma_device *dev = open_one(); /* opened once for its messages, before 0 to 2 are closed */
		const int event = eventfd(0, EFD_CLOEXEC);
		usdma_completion *done;
		usdma_stream *s;

		EXPECT(!usdma_close(dev));
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		dev = open_one();
		EXPECT(!usdma_stream_create(dev, nullptr, &s));
		EXPECT(!usdma_stream_signal_fd(s, event) && !usdma_stream_sync(s, 60000));
		EXPECT(!usdma_completion_create(&done));
		sleep_in_all(dev, 8);
		for (int fd = 0; fd < 3; fd++)
			EXPECT(is_closed(fd));
	});
}

/* A tool opens /dev/null for them. */
static void closed_descriptors_of_a_tool(void **)
{
	const std::string socket = folder + "/bare";
	pid_t bare = fork();

	assert_true(bare >= 0);
	if (!bare) {
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		execl(getenv("USDMA_SIM"), "usdma-sim", "--socket", socket.c_str(), "--mem", "16M", nullptr);
		_exit(127);
	}
	until("usdma-sim listens", [&] { return !access(socket.c_str(), F_OK); });
	for (int fd = 0; fd < 3; fd++) {
		char is[64] = "";

		EXPECT(readlink(("/proc/" + std::to_string(bare) + "/fd/" + std::to_string(fd)).c_str(), is,
				sizeof(is) - 1) > 0);
		assert_string_equal(is, "/dev/null");
	}
	end_sim(bare);
	unlink(socket.c_str());
}

/* ---- core dumps -------------------------------------------------------------------------------------- */

/* Bytes of the mappings of this name that a core dump includes (in) and excludes (out). */
struct dumped {
	size_t in = 0, out = 0;

	explicit dumped(const char *name)
	{
		std::ifstream maps("/proc/self/smaps");
		std::string line;
		unsigned long from, to;
		size_t here = 0;

		while (std::getline(maps, line)) {
			if (sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
				here = line.find(name) == line.npos ? 0 : to - from;
			else if (line.rfind("VmFlags:", 0) == 0)
				(line.find(" dd") == line.npos ? in : out) += here;
		}
	}
};

static void core_dump_contents(void **)
{
	for (const char *dump : {"0", "1"}) {
		setenv("USDMA_TEST_DUMP_MEMORY", dump, 1);
		on_each([=] {
			const bool all = *dump == '1';
			usdma_device *dev = open_one();
			void *host, *mem, *small;
			usdma_stream *s;

			EXPECT(!usdma_stream_create(dev, nullptr, &s)); /* which maps its doorbell */
			EXPECT(!usdma_host_alloc(dev, 8 * MiB, &host) && !usdma_device_alloc(dev, 6 * MiB, &mem) &&
			       !usdma_device_alloc(dev, 100, &small));
			const dumped memory("memfd:sdma-memory"), bar("memfd:sdma-bar0"), pinned("memfd:usdma ");
			EXPECT(memory.out > size_t(2000) * MiB && bar.out && !bar.in);
			EXPECT(pinned.in >= 8 * MiB && !pinned.out);
			EXPECT(all ? memory.in >= 6 * MiB && memory.in < 64 * MiB : !memory.in);
			EXPECT(!usdma_device_free(mem));
			EXPECT(dumped("memfd:sdma-memory").in < 6 * MiB);
		});
	}
	unsetenv("USDMA_TEST_DUMP_MEMORY");
}

static int set_up(void **)
{
	char name[] = "/tmp/usdma-limits-XXXXXX";

	assert_non_null(mkdtemp(name));
	folder = name;
	sim = start_sim(getenv("USDMA_SIM"), folder + "/dev", {"--mem", "2G"});
	assert_true(sim > 0);
	backends[1] = "vfio-user:" + folder + "/dev";
	setenv("USDMA_LOG", "none", 1);
	return 0;
}

static int tear_down(void **)
{
	end_sim(sim);
	unlink((folder + "/dev").c_str());
	return rmdir(folder.c_str());
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(more_than_the_machine_has),
		cmocka_unit_test(more_than_the_control_group_has),
		cmocka_unit_test(a_limit_on_files),
		cmocka_unit_test(a_limit_on_data),
		cmocka_unit_test(a_limit_on_addresses),
		cmocka_unit_test(device_uses_few_descriptors),
		cmocka_unit_test(many_devices),
		cmocka_unit_test(few_descriptors),
		cmocka_unit_test(fewer_than_are_polled),
		cmocka_unit_test(descriptors_are_free_again),
		cmocka_unit_test(standard_descriptors_unused),
		cmocka_unit_test(closed_descriptors_of_a_tool),
		cmocka_unit_test(core_dump_contents),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
