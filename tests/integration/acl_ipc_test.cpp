/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes share memory by a key, physical memory by a number, a notify and
 * an event.  The child is forked before the library is used and opens its own
 * software device; the processes communicate by pipes.
 */
#include "acl/acl.h"
#include "usdma/usdma.h"
#include "tests/support/sleeps.h"
#include "tests/support/test.h"
#include "tests/support/until.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using usdma::test::sleeps_of;
using usdma::test::sleeps_while_waiting;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t size = 4 << 20;

/* Message from the parent to the child. */
struct message {
	char memory[65], secret_memory[65], notify[65], used_notify[65];
	aclrtIpcEventHandle event;
	std::uint64_t physical, secret_physical;
	std::uint64_t seed;
};
/* The victim is a child that is killed after it recorded an event of the parent, which it does not reach. */
static int to_victim[2], from_victim[2];
static pid_t victim;
/* A teller is a child that records what the parent waits for, command by command. */
static struct teller_pipes {
	int to[2], from[2];
} pipes_of_all, pipes_of_some;

static int to_child[2];
static pid_t child;

static void send_all(int fd, const void *what, size_t n)
{
	assert_int_equal(write(fd, what, n), n);
}

static void receive_all(int fd, void *what, size_t n)
{
	for (size_t got = 0; got < n;) {
		const ssize_t k = read(fd, static_cast<char *>(what) + got, n - got);

		assert_true(k > 0);
		got += size_t(k);
	}
}

static std::vector<char> pattern(std::uint64_t seed)
{
	std::mt19937_64 gen(seed);
	std::vector<char> v(size);

	usdma::test::fill_random(v.data(), size, gen);
	return v;
}

/* ---- the child: the exit code is the number of the failed check --------------------------------------- */

#define MUST(n, cond)                                                                                                  \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			const char *text = aclGetRecentErrMsg();                                                       \
			fprintf(stderr, "# child, check %d: %s\n", n, text ? text : "");                               \
			return n;                                                                                      \
		}                                                                                                      \
	} while (0)

/* The child's device refuses to map memory of another process. */
static int child_without_mapping(const message &m)
{
	usdma_device *dev;
	aclrtDrvMemHandle h;
	void *p;

	MUST(50, usdma_open(nullptr, &dev) == 0 && usdma_device_inject(dev, "refuse-map@1") == 0);
	MUST(51, aclrtIpcMemImportByKey(&p, m.memory, 0) == 207001);
	MUST(52, usdma_device_inject(dev, "refuse-map@1") == 0);
	MUST(53, aclrtMemImportFromShareableHandle(m.physical, 0, &h) == 207001);
	MUST(54, usdma_device_inject(dev, "") == 0 && usdma_close(dev) == 0);
	return 0;
}

static int child_memory(const message &m, aclrtStream s)
{
	const std::vector<char> want = pattern(m.seed), mine = pattern(m.seed + 1);
	std::vector<char> got(size);
	aclrtPtrAttributes attr;
	void *p = nullptr, *pin = nullptr, *dev = nullptr;
	char key[128];

	MUST(10, aclrtIpcMemImportByKey(&p, m.secret_memory, 0) == 207006);
	MUST(11, aclrtIpcMemImportByKey(&p, m.memory, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS) == 0);
	MUST(12, aclrtPointerGetAttributes(p, &attr) == 0 && attr.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
	MUST(25, aclrtIpcMemGetExportKey(p, size, key, sizeof(key), 0) == 207000);
	MUST(13, aclrtMemcpy(got.data(), size, p, size, ACL_MEMCPY_DEVICE_TO_HOST) == 0 && got == want);
	MUST(14, aclrtMallocHost(&pin, size) == 0 && aclrtMalloc(&dev, size, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
	memcpy(pin, mine.data(), size);
	MUST(15, aclrtMemcpyAsync(dev, size, pin, size, ACL_MEMCPY_DEFAULT, s) == 0);
	MUST(16, aclrtMemcpyAsync(p, size, dev, size, ACL_MEMCPY_DEVICE_TO_DEVICE, s) == 0);
	MUST(17, aclrtSynchronizeStream(s) == 0);
	MUST(18, aclrtMemcpyAsync(static_cast<char *>(p) + size - 8, 16, dev, 16, ACL_MEMCPY_DEFAULT, s) == 107000);
	MUST(19, aclrtIpcMemClose(m.memory) == 0 && aclrtMemcpy(p, 8, pin, 8, ACL_MEMCPY_DEFAULT) == 107000);
	aclrtFree(p); /* programs do this and ignore the error */
	return aclrtFree(dev) | aclrtFreeHost(pin);
}

/* A second device of the process gets its own mapping. */
static int child_second_device(const message &m)
{
	const std::vector<char> want = pattern(m.seed);
	aclrtMemcpyBatchAttr from_second = {{0, ACL_MEM_LOCATION_TYPE_HOST}, {1, ACL_MEM_LOCATION_TYPE_DEVICE}, {}};
	void *first = nullptr, *again = nullptr, *second = nullptr, *pin = nullptr;
	size_t len = size, zero = 0, failed;
	std::vector<char> got(size);
	aclrtContext context;
	aclrtPtrAttributes a;

	MUST(60, aclrtGetCurrentContext(&context) == 0 && aclrtIpcMemImportByKey(&first, m.memory, 0) == 0);
	MUST(61, aclrtIpcMemImportByKey(&again, m.memory, 0) == 0 && again == first);
	MUST(62, aclrtSetDevice(1) == 0 && aclrtIpcMemImportByKey(&second, m.memory, 0) == 0 && second != first);
	MUST(63, aclrtPointerGetAttributes(second, &a) == 0 && a.location.id == 1);
	MUST(64, aclrtPointerGetAttributes(first, &a) == 0 && a.location.id == 0);
	MUST(65, aclrtMallocHost(&pin, size) == 0);
	MUST(66, aclrtMemcpyBatchAsync(&pin, &len, &second, &len, 1, &from_second, &zero, 1, &failed, nullptr) == 0);
	MUST(67, aclrtSynchronizeStream(nullptr) == 0 && !memcmp(pin, want.data(), size));
	/* The mapping of the current device is closed first. */
	MUST(68, aclrtIpcMemClose(m.memory) == 0 && aclrtMemcpy(pin, 8, second, 8, ACL_MEMCPY_DEFAULT) == 107000);
	MUST(69, aclrtMemcpy(got.data(), size, first, size, ACL_MEMCPY_DEVICE_TO_HOST) == 0 && got == want);
	MUST(70, aclrtFreeHost(pin) == 0 && aclrtResetDevice(1) == 0 && aclrtSetCurrentContext(context) == 0);
	MUST(71, aclrtIpcMemClose(m.memory) == 0 && aclrtMemcpy(got.data(), 8, first, 8, ACL_MEMCPY_DEFAULT) == 0);
	MUST(72, aclrtIpcMemClose(m.memory) == 0 && aclrtIpcMemClose(m.memory) == 107000);
	return 0;
}

static int child_physical(const message &m)
{
	aclrtDrvMemHandle h;
	std::vector<char> got(size);
	std::uint64_t number;
	void *va;

	MUST(26, aclrtMemImportFromShareableHandle(m.secret_physical, 0, &h) == 207006);
	MUST(20, aclrtMemImportFromShareableHandle(m.physical, 0, &h) == 0);
	MUST(27, aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, 0, &number) == 207000);
	MUST(21, aclrtReserveMemAddress(&va, size, 0, nullptr, 1) == 0 && aclrtMapMem(va, size, 0, h, 0) == 0);
	MUST(22, aclrtMemcpy(got.data(), size, va, size, ACL_MEMCPY_DEVICE_TO_HOST) == 0 && got == pattern(m.seed + 2));
	MUST(23, aclrtMemset(va, size, 0x6b, size) == 0);
	MUST(24, aclrtUnmapMem(va) == 0 && aclrtReleaseMemAddress(va) == 0 && aclrtFreePhysical(h) == 0);
	return 0;
}

static int child_order(const message &m, aclrtStream s)
{
	aclrtNotify n;
	aclrtEvent e;

	MUST(30, aclrtNotifyImportByKey(&n, m.notify, 0) == 0);
	MUST(31, aclrtWaitAndResetNotify(n, s, 0) == 107000);
	MUST(32, aclrtRecordNotify(n, s) == 0 && aclrtSynchronizeStream(s) == 0 && aclrtDestroyNotify(n) == 0);
	MUST(33, aclrtIpcOpenEventHandle(m.event, &e) == 0);
	MUST(34, aclrtStreamWaitEvent(s, e) == 0 && aclrtSynchronizeStreamWithTimeout(s, 60000) == 0);
	MUST(35, aclrtSynchronizeEvent(e) == 0 && aclrtDestroyEvent(e) == 0);
	MUST(36, aclrtNotifyImportByKey(&n, m.used_notify, 0) == 0 && aclrtRecordNotify(n, s) == 0);
	MUST(37, aclrtSynchronizeStream(s) == 0 && aclrtDestroyNotify(n) == 0);
	return 0;
}

static int child_main()
{
	aclrtStream s;
	message m;
	int err;

	receive_all(to_child[0], &m, sizeof(m));
	MUST(1, aclrtSetDevice(0) == 0 && aclrtCreateStream(&s) == 0);
	err = child_without_mapping(m);
	if (!err)
		err = child_second_device(m);
	if (!err)
		err = child_memory(m, s);
	if (!err)
		err = child_physical(m);
	if (!err)
		err = child_order(m, s);
	if (!err)
		err = aclrtDestroyStream(s) | aclrtResetDevice(0);
	return err;
}

/* The stream waits for a notify that never comes, so that the event is not reached. */
static int victim_main()
{
	aclrtIpcEventHandle handle;
	aclrtNotify n;
	aclrtStream s;
	aclrtEvent e;

	receive_all(to_victim[0], &handle, sizeof(handle));
	MUST(1, aclrtSetDevice(0) == 0 && aclrtCreateStream(&s) == 0);
	MUST(40, aclrtIpcOpenEventHandle(handle, &e) == 0);
	MUST(42, aclrtCreateNotify(&n, 0) == 0 && aclrtWaitAndResetNotify(n, s, 0) == 0);
	MUST(43, aclrtRecordEvent(e, s) == 0);
	send_all(from_victim[1], "r", 1);
	pause();
	return 0;
}

struct exports {
	char unreported[65], notify[65];
	aclrtIpcEventHandle event;
};

/* It cannot open anything then. */
static int limit_files(bool limited)
{
	static rlimit before;
	rlimit none;

	if (!limited)
		return setrlimit(RLIMIT_NOFILE, &before);
	getrlimit(RLIMIT_NOFILE, &before);
	none = {3, before.rlim_max};
	return setrlimit(RLIMIT_NOFILE, &none);
}

struct teller {
	aclrtStream s = nullptr;
	aclrtNotify unreported = nullptr, theirs = nullptr, own = nullptr;
	aclrtEvent event = nullptr;

	int start(const teller_pipes &p);
	int run(char command);
	int gated_record();
};

int teller::start(const teller_pipes &p)
{
	char key[65];
	exports m;

	receive_all(p.to[0], &m, sizeof(m));
	MUST(80, aclrtSetDevice(0) == 0 && aclrtCreateStream(&s) == 0 && aclrtCreateNotify(&own, 0) == 0);
	/* A time limit: the library's thread has started when files are limited. */
	MUST(79, aclrtRecordNotify(own, s) == 0 && aclrtWaitAndResetNotify(own, s, 100) == 0);
	MUST(81, aclrtSynchronizeStream(s) == 0 && aclrtNotifyImportByKey(&unreported, m.unreported, 0) == 0);
	MUST(82, aclrtNotifyImportByKey(&theirs, m.notify, 0) == 0 && aclrtIpcOpenEventHandle(m.event, &event) == 0);
	MUST(83, aclrtNotifyGetExportKey(own, key, sizeof(key), ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) == 0);
	send_all(p.from[1], key, sizeof(key));
	return 0;
}

/* The event, behind the notify that the parent records. */
int teller::gated_record()
{
	MUST(85, aclrtWaitAndResetNotify(own, s, 0) == 0 && aclrtRecordEvent(event, s) == 0);
	return 0;
}

int teller::run(char command)
{
	switch (command) {
	case 'l':
	case 'u':
		MUST(86, limit_files(command == 'l') == 0);
		return 0;
	case 'e':
		return gated_record();
	default:
		MUST(87, aclrtRecordNotify(command == 'd' ? unreported : theirs, s) == 0);
		MUST(88, aclrtSynchronizeStream(s) == 0);
		return 0;
	}
}

template <teller_pipes *p> static int teller_main()
{
	teller t;
	int err = t.start(*p);

	for (char c; !err && read(p->to[0], &c, 1) == 1 && c != 'q';) {
		err = t.run(c);
		send_all(p->from[1], "d", 1);
	}
	return err;
}

/* ---- the parent -------------------------------------------------------------------------------------- */

static void test_two_processes(void **)
{
	std::vector<char> got(size), data;
	aclrtPhysicalMemProp prop{};
	aclrtDrvMemHandle h, secret;
	aclrtNotify n, used;
	aclrtEvent e;
	aclrtStream s, waits;
	void *p, *q, *va;
	std::int32_t pid = child;
	message m{};
	int status;

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtCreateStream(&waits));
	GOOD(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMalloc(&q, size, ACL_MEM_MALLOC_HUGE_FIRST));
	m.seed = usdma::test::seed();
	data = pattern(m.seed);
	GOOD(aclrtMemcpy(p, size, data.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
	GOOD(aclrtIpcMemGetExportKey(p, size, m.memory, sizeof(m.memory), 0));
	GOOD(aclrtIpcMemSetImportPid(m.memory, &pid, 1));
	GOOD(aclrtIpcMemGetExportKey(q, size, m.secret_memory, sizeof(m.secret_memory), 0));
	prop.memAttr = ACL_HBM_MEM_HUGE;
	prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	GOOD(aclrtMallocPhysical(&h, size, &prop, 0));
	GOOD(aclrtReserveMemAddress(&va, size, 0, nullptr, 0));
	GOOD(aclrtMapMem(va, size, 0, h, 0));
	data = pattern(m.seed + 2);
	GOOD(aclrtMemcpy(va, size, data.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
	GOOD(aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, 0, &m.physical));
	GOOD(aclrtMemSetPidToShareableHandle(m.physical, &pid, 1));
	GOOD(aclrtMallocPhysical(&secret, size, &prop, 0));
	GOOD(aclrtMemExportToShareableHandle(secret, ACL_MEM_HANDLE_TYPE_NONE, 0, &m.secret_physical));
	GOOD(aclrtCreateNotify(&n, 0));
	GOOD(aclrtNotifyGetExportKey(n, m.notify, sizeof(m.notify), ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	/* This process and the other one set a word each. */
	GOOD(aclrtCreateNotify(&used, 0));
	GOOD(aclrtRecordNotify(used, s));
	GOOD(aclrtNotifyGetExportKey(used, m.used_notify, sizeof(m.used_notify),
				     ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	GOOD(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
	GOOD(aclrtIpcGetEventHandle(e, &m.event));
	/* The event, for which the child waits, is reached after the child's notify. */
	GOOD(aclrtWaitAndResetNotify(n, waits, 0));
	GOOD(aclrtRecordEvent(e, waits));
	send_all(to_child[1], &m, sizeof(m));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	GOOD(aclrtSynchronizeStreamWithTimeout(waits, 60000));
	GOOD(aclrtNotifyBatchReset(&used, 1));
	GOOD(aclrtWaitAndResetNotify(used, waits, 0));
	assert_int_equal(aclrtSynchronizeStreamWithTimeout(waits, 20), 507046);
	GOOD(aclrtRecordNotify(used, s));
	GOOD(aclrtSynchronizeStreamWithTimeout(waits, 60000));
	GOOD(aclrtDestroyNotify(used));
	GOOD(aclrtMemcpy(got.data(), size, p, size, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_true(got == pattern(m.seed + 1));
	GOOD(aclrtMemcpy(got.data(), size, va, size, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_true(got == std::vector<char>(size, 0x6b));
	GOOD(aclrtIpcMemClose(m.memory));
	GOOD(aclrtIpcMemClose(m.secret_memory));
	GOOD(aclrtUnmapMem(va));
	GOOD(aclrtReleaseMemAddress(va));
	GOOD(aclrtFreePhysical(h));
	GOOD(aclrtFreePhysical(secret));
	GOOD(aclrtDestroyNotify(n));
	GOOD(aclrtDestroyEvent(e));
	GOOD(aclrtFree(p));
	GOOD(aclrtFree(q));
	GOOD(aclrtDestroyStream(s));
	GOOD(aclrtDestroyStream(waits));
	GOOD(aclrtResetDevice(0));
}

/* A wait for an event whose recording process died fails, even without a timeout. */
static void test_recorder_dies(void **)
{
	aclrtIpcEventHandle handle;
	aclrtStream s;
	aclrtEvent e;
	char c;

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
	GOOD(aclrtIpcGetEventHandle(e, &handle));
	send_all(to_victim[1], &handle, sizeof(handle));
	receive_all(from_victim[0], &c, 1);
	GOOD(aclrtStreamWaitEvent(s, e));
	kill(victim, SIGKILL);
	assert_int_equal(aclrtSynchronizeEvent(e), ACL_ERROR_RT_LOST_HEARTBEAT);
	assert_non_null(strstr(aclGetRecentErrMsg(), "has ended"));
	assert_int_equal(aclrtSynchronizeStreamWithTimeout(s, 60000), ACL_ERROR_RT_LOST_HEARTBEAT);
	/* The event is usable again: a new record is reached. */
	GOOD(aclrtRecordEvent(e, s));
	GOOD(aclrtSynchronizeEvent(e));
	waitpid(victim, nullptr, 0);
	GOOD(aclrtDestroyEvent(e));
	GOOD(aclrtDestroyStream(s));
	GOOD(aclrtResetDevice(0));
}

/* The greatest number counts, whichever stream reaches its record first. */
static void test_records_in_any_order(void **)
{
	aclrtEventRecordedStatus st;
	aclrtStream first, second;
	aclrtNotify n;
	aclrtEvent e;

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtCreateStream(&first));
	GOOD(aclrtCreateStream(&second));
	GOOD(aclrtCreateNotify(&n, 0));
	GOOD(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
	GOOD(aclrtWaitAndResetNotify(n, first, 0));
	GOOD(aclrtRecordEvent(e, first));
	GOOD(aclrtRecordEvent(e, second));
	GOOD(aclrtSynchronizeEventWithTimeout(e, 60000));
	GOOD(aclrtRecordNotify(n, second));
	GOOD(aclrtSynchronizeStreamWithTimeout(first, 60000));
	GOOD(aclrtQueryEventStatus(e, &st));
	assert_int_equal(st, ACL_EVENT_RECORDED_STATUS_COMPLETE);
	GOOD(aclrtSynchronizeEventWithTimeout(e, 60000));
	GOOD(aclrtDestroyStream(first));
	GOOD(aclrtDestroyStream(second));
	GOOD(aclrtDestroyNotify(n));
	GOOD(aclrtDestroyEvent(e));
	GOOD(aclrtResetDevice(0));
}

/* Of the parent: the teller's commands, and what it waits for. */
struct listener {
	const teller_pipes &pipes;
	aclrtStream s, second;
	aclrtNotify unreported, own, theirs;
	aclrtEvent event;

	explicit listener(const teller_pipes &p);
	~listener();
	listener(const listener &) = delete;
	listener &operator=(const listener &) = delete;
	void command(char command) const
	{
		char c;

		send_all(pipes.to[1], &command, 1);
		receive_all(pipes.from[0], &c, 1);
	}
	void wait(aclrtNotify n, std::uint32_t limit_s) const { GOOD(aclrtWaitAndResetNotify(n, s, limit_s)); }
	void goes_on() const { GOOD(aclrtSynchronizeStreamWithTimeout(s, 60000)); }
};

listener::listener(const teller_pipes &p) : pipes(p)
{
	exports m{};
	char key[65];

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtCreateStream(&second));
	for (aclrtNotify *n : {&unreported, &own}) {
		GOOD(aclrtCreateNotify(n, 0));
		GOOD(aclrtNotifyGetExportKey(*n, n == &own ? m.notify : m.unreported, sizeof(m.notify),
					     ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	}
	GOOD(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
	GOOD(aclrtIpcGetEventHandle(event, &m.event));
	send_all(pipes.to[1], &m, sizeof(m));
	receive_all(pipes.from[0], key, sizeof(key));
	GOOD(aclrtNotifyImportByKey(&theirs, key, 0));
}

listener::~listener()
{
	send_all(pipes.to[1], "q", 1);
	for (aclrtNotify n : {unreported, own, theirs})
		GOOD(aclrtDestroyNotify(n));
	GOOD(aclrtDestroyEvent(event));
	GOOD(aclrtDestroyStream(s));
	GOOD(aclrtDestroyStream(second));
	GOOD(aclrtResetDevice(0));
}

/* Nothing polls for it, and this process gets reports; not each time, as another pass may have found the record before.
 */
static void each_is_reported(const listener &l, const std::function<void()> &wait, const std::function<void()> &record)
{
	const long before = sleeps_of("usdma-bell");

	for (int i = 0; i < 10; i++) {
		wait();
		if (!i)
			assert_in_range(sleeps_while_waiting(), 0, 100);
		record();
		l.goes_on();
	}
	usdma::test::until("a report", [&] { return sleeps_of("usdma-bell") > before; });
}

static void test_records_are_reported(void **)
{
	const listener l(pipes_of_all);
	const auto notify = [&] { l.command('n'); };

	each_is_reported(
		l, [&] { l.wait(l.own, 0); }, notify);
	each_is_reported(
		l, [&] { l.wait(l.own, 100); }, notify);
	each_is_reported(
		l,
		[&] {
			l.command('e');
			GOOD(aclrtStreamWaitEvent(l.s, l.event));
		},
		[&] { GOOD(aclrtRecordNotify(l.theirs, l.second)); });
	/* A thread. */
	l.command('e');
	GOOD(aclrtRecordNotify(l.theirs, l.second));
	GOOD(aclrtSynchronizeEvent(l.event));
}

/* Who cannot get reports polls from then on. */
static void test_records_that_cannot_be_reported(void **)
{
	const listener l(pipes_of_some);
	long polls = 0;

	l.command('l');
	for (int i = 0; i < 50 && polls < 200; i++) {
		l.wait(l.unreported, 100);
		polls = sleeps_while_waiting();
		l.command('d');
		l.goes_on();
	}
	l.command('u');
	assert_true(polls >= 200);
}

/* The exporting device closes its export; the other device's import of the same key stays. */
static void test_export_is_closed(void **)
{
	std::vector<char> got(size);
	const std::vector<char> data = pattern(usdma::test::seed());
	aclrtContext exports, imports;
	void *p, *second, *none;
	char key[65];

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtGetCurrentContext(&exports));
	GOOD(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMemcpy(p, size, data.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
	GOOD(aclrtIpcMemGetExportKey(p, size, key, sizeof(key), ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	GOOD(aclrtSetDevice(1));
	GOOD(aclrtGetCurrentContext(&imports));
	GOOD(aclrtIpcMemImportByKey(&second, key, 0));
	GOOD(aclrtSetCurrentContext(exports));
	GOOD(aclrtIpcMemClose(key));
	assert_int_equal(aclrtIpcMemImportByKey(&none, key, 0), 107000);
	GOOD(aclrtSetCurrentContext(imports));
	GOOD(aclrtMemcpy(got.data(), size, second, size, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_true(got == data);
	GOOD(aclrtIpcMemClose(key));
	assert_int_equal(aclrtIpcMemClose(key), 107000);
	GOOD(aclrtResetDevice(1));
	GOOD(aclrtSetCurrentContext(exports));
	GOOD(aclrtFree(p));
	GOOD(aclrtResetDevice(0));
}

/* Called before the library is used. */
static pid_t start(int (*run)())
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	close(STDOUT_FILENO); /* the parent prints the results */
	setenv("USDMA_DEVICES", "sim:mem=64M:faults=,sim:mem=64M:faults=", 1);
	_exit(run());
}

/* By a thread with a context: of its device the import, without one the export, without that any import. */
static void test_close_by_context(void **)
{
	void *p, *one, *two, *none;
	char key[65], got[8];

	GOOD(aclrtSetDevice(0));
	GOOD(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtIpcMemGetExportKey(p, size, key, sizeof(key), ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	GOOD(aclrtIpcMemImportByKey(&one, key, 0));
	GOOD(aclrtSetDevice(1));
	GOOD(aclrtIpcMemImportByKey(&two, key, 0));
	std::thread([&] {
		int32_t me = getpid();

		assert_int_equal(aclrtIpcMemClose(key), 107002);
		assert_int_equal(aclrtIpcMemSetImportPid(key, &me, 1), 107002);
	}).join();
	GOOD(aclrtIpcMemClose(key));
	assert_int_equal(aclrtMemcpy(got, sizeof(got), two, sizeof(got), ACL_MEMCPY_DEFAULT), 107000);
	GOOD(aclrtIpcMemClose(key));
	assert_int_equal(aclrtIpcMemImportByKey(&none, key, 0), 107000);
	GOOD(aclrtIpcMemClose(key));
	assert_int_equal(aclrtMemcpy(got, sizeof(got), one, sizeof(got), ACL_MEMCPY_DEFAULT), 107000);
	GOOD(aclrtResetDevice(1));
	GOOD(aclrtSetDevice(0));
	GOOD(aclrtFree(p));
	GOOD(aclrtResetDevice(0));
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(test_two_processes),
				    cmocka_unit_test(test_recorder_dies),
				    cmocka_unit_test(test_records_in_any_order),
				    cmocka_unit_test(test_export_is_closed),
				    cmocka_unit_test(test_close_by_context),
				    cmocka_unit_test(test_records_are_reported),
				    cmocka_unit_test(test_records_that_cannot_be_reported)};

	if (pipe(to_child) || pipe(to_victim) || pipe(from_victim))
		return 1;
	for (teller_pipes *p : {&pipes_of_all, &pipes_of_some})
		if (pipe(p->to) || pipe(p->from))
			return 1;
	victim = start(victim_main);
	close(from_victim[1]); /* so that a read returns if the victim exits too early */
	child = start(child_main);
	start(teller_main<&pipes_of_all>);
	start(teller_main<&pipes_of_some>);
	alarm(100);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
