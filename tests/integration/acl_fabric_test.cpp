/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FABRIC handles and keys between two to four processes.  Each process has one device of USDMA_DEVICES: this process
 * the first one, its peers (the same program) the others.  A peer executes the orders that it receives on a socket.
 */
#include "acl/acl.h"
#include "tests/support/until.h"
#include "tests/support/test.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#pragma GCC diagnostic ignored "-Wpedantic" /* a ?: b is: b where a gave 0 */

#define GOOD(call) assert_int_equal(call, 0)

using usdma::test::sized;

static const size_t size = sized(4 << 20, 2 << 20), bytes = sized(size, 8192); /* number of bytes that are copied */
static constexpr int stale = 107017, refused = 507899, slots = 4;
static constexpr auto fabric = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;

enum class op { make, make_host, import, import_key, check, fill, drop, chain, copy_for_ever, count };

struct order {
	op what;
	int slot = 0, flags = 1;
	std::uint64_t seed = 0;
	aclrtMemFabricHandle handle = {};
	char key[65] = {};
};

struct answer {
	int code;
	aclrtMemFabricHandle handle;
	size_t free, fds, maps;
};

/* ---- operations of every process --------------------------------------------------------------------- */

struct slot {
	aclrtDrvMemHandle handle;
	void *va;
	char key[65];
};
static slot mine[slots];
static aclrtStream stream;

static std::vector<char> pattern(std::uint64_t seed)
{
	std::mt19937_64 gen(seed);
	std::vector<char> v(bytes);

	usdma::test::fill_random(v.data(), bytes, gen);
	return v;
}

static int map(slot *s)
{
	const int code = aclrtReserveMemAddress(&s->va, size, 0, nullptr, 1);

	return code ? code : aclrtMapMem(s->va, size, 0, s->handle, 0);
}

static int make(const order &o, answer *a)
{
	slot *s = &mine[o.slot];
	const std::vector<char> data = pattern(o.seed);
	aclrtPhysicalMemProp prop{};
	const bool host = o.what == op::make_host;
	int code;

	prop.memAttr = host ? ACL_DDR_MEM_NORMAL : ACL_HBM_MEM_HUGE;
	prop.location.type = host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
	code = aclrtMallocPhysical(&s->handle, size, &prop, 0);
	if (!code)
		code = map(s);
	if (!code)
		code = aclrtMemcpy(s->va, size, data.data(), bytes, ACL_MEMCPY_DEFAULT);
	return code ? code : aclrtMemExportToShareableHandleV2(s->handle, std::uint64_t(o.flags), fabric, &a->handle);
}

static int import(order o)
{
	slot *s = &mine[o.slot];
	int code;

	if (o.what == op::import_key) {
		code = aclrtIpcMemImportByKey(&s->va, o.key, 0);
		if (!code)
			memcpy(s->key, o.key, sizeof(s->key));
		return code;
	}
	code = aclrtMemImportFromShareableHandleV2(&o.handle, fabric, 0, &s->handle);
	return code ? code : map(s);
}

static int drop(slot *s)
{
	const slot was = *s;

	*s = {};
	if (*was.key)
		return aclrtIpcMemClose(was.key);
	return aclrtUnmapMem(was.va) ?: aclrtReleaseMemAddress(was.va) ?: aclrtFreePhysical(was.handle);
}

static int check(const slot &s, std::uint64_t seed)
{
	std::vector<char> got(bytes);
	const int code = aclrtMemcpy(got.data(), bytes, s.va, bytes, ACL_MEMCPY_DEFAULT);

	return code ? code : got == pattern(seed) ? 0 : -1;
}

/*
 * Reads the slot's memory into its own, then overwrites it, then reads it again in a second stream, which waits for an
 * event, and the first stream for that one's notify.
 */
static int chain(const slot &s, std::uint64_t seed)
{
	std::vector<char> first(bytes), second(bytes);
	aclrtStream other;
	aclrtNotify read;
	aclrtEvent written;
	void *own, *again;
	int code = aclrtMalloc(&own, size, ACL_MEM_MALLOC_HUGE_FIRST)           ?:
			   aclrtMalloc(&again, size, ACL_MEM_MALLOC_HUGE_FIRST) ?:
			   aclrtCreateStream(&other)                            ?:
			   aclrtCreateNotify(&read, 0)                          ?:
			   aclrtCreateEventWithFlag(&written, ACL_EVENT_SYNC);

	if (code)
		return code;
	code = aclrtMemcpyAsync(own, size, s.va, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)          ?:
		       aclrtMemsetAsync(s.va, size, 0x5a, bytes, stream)                              ?:
		       aclrtRecordEvent(written, stream)                                              ?:
		       aclrtStreamWaitEvent(other, written)                                           ?:
		       aclrtMemcpyAsync(again, size, s.va, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, other) ?:
		       aclrtRecordNotify(read, other)                                                 ?:
		       aclrtWaitAndResetNotify(read, stream, 0)                                       ?:
		       aclrtMemsetAsync(s.va, size, 0x33, bytes, stream)                              ?:
		       aclrtSynchronizeStream(stream)                                                 ?:
		       aclrtMemcpy(first.data(), bytes, own, bytes, ACL_MEMCPY_DEFAULT)               ?:
		       aclrtMemcpy(second.data(), bytes, again, bytes, ACL_MEMCPY_DEFAULT);
	code = code ?: aclrtDestroyEvent(written) ?: aclrtDestroyNotify(read) ?: aclrtDestroyStream(other);
	code = code ?: aclrtFree(own) ?: aclrtFree(again);
	return code ? code : first != pattern(seed) ? -1 : second != std::vector<char>(bytes, 0x5a) ? -2 : 0;
}

static size_t count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	size_t n = 0;

	for (int c; f && (c = getc(f)) != EOF;)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static int act(const order &o, answer *a)
{
	size_t total;

	switch (o.what) {
	case op::make:
	case op::make_host:
		return make(o, a);
	case op::import:
	case op::import_key:
		return import(o);
	case op::check:
		return check(mine[o.slot], o.seed);
	case op::fill:
		return aclrtMemcpy(mine[o.slot].va, size, pattern(o.seed).data(), bytes, ACL_MEMCPY_DEFAULT);
	case op::drop:
		return drop(&mine[o.slot]);
	case op::chain:
		return chain(mine[o.slot], o.seed);
	case op::count:
		a->fds = usdma::test::fds_without_rings();
		a->maps = count_lines("/proc/self/maps");
		return aclrtGetMemInfo(ACL_HBM_MEM, &a->free, &total);
	case op::copy_for_ever:
		break;
	}
	return -1;
}

static answer here(const order &o)
{
	answer a{};

	a.code = act(o, &a);
	return a;
}

/* ---- the peers --------------------------------------------------------------------------------------- */

static constexpr int peer_fd = 3;

/* Copies between the slot and private memory until the process is killed. */
static void copy_for_ever(int slot)
{
	void *own;
	answer a{};

	a.code = aclrtMalloc(&own, size, ACL_MEM_MALLOC_HUGE_FIRST);
	for (unsigned n = 0; !a.code; n++) {
		a.code = aclrtMemcpyAsync(own, size, mine[slot].va, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream) ?:
				 aclrtMemcpyAsync(mine[slot].va, size, own, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
		if (n % 8 == 7 && !a.code)
			a.code = aclrtSynchronizeStream(stream);
		if (n == 8 && send(peer_fd, &a, sizeof(a), 0) < 0)
			return;
	}
	send(peer_fd, &a, sizeof(a), 0);
}

/* usdma-sim serves one client of a device at a time: opening fails until the previous process has ended. */
static int open_device()
{
	usdma::test::until("the server takes the next client", [] { return !aclrtSetDevice(0); });
	return aclrtCreateStream(&stream);
}

static int peer_main()
{
	order o;
	answer a{};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	a.code = open_device();
	send(peer_fd, &a, sizeof(a), 0);
	while (recv(peer_fd, &o, sizeof(o), 0) == ssize_t(sizeof(o))) {
		if (o.what == op::copy_for_ever)
			copy_for_ever(o.slot);
		a = here(o);
		if (const char *text = a.code > 0 ? aclGetRecentErrMsg() : nullptr)
			fprintf(stderr, "# peer: %s\n", text);
		send(peer_fd, &a, sizeof(a), 0);
	}
	return aclrtDestroyStream(stream) ?: aclrtResetDevice(0);
}

static std::vector<std::string> devices; /* one per process */

class peer {
public:
	explicit peer(size_t device)
	{
		int sockets[2];

		GOOD(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
		setenv("USDMA_DEVICES", devices.at(device).c_str(), 1);
		pid = fork();
		if (!pid) {
			dup2(sockets[1], peer_fd);
			fcntl(peer_fd, F_SETFD, 0);
			dup2(STDERR_FILENO, STDOUT_FILENO); /* keeps it out of this program's TAP output */
			execl("/proc/self/exe", "acl-fabric", "peer", nullptr);
			_exit(127);
		}
		close(sockets[1]);
		fd = sockets[0];
		GOOD(hear().code);
	}
	~peer()
	{
		int status = 0;

		close(fd);
		waitpid(pid, &status, 0);
		assert_true(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	answer call(const order &o)
	{
		say(o);
		return hear();
	}
	void say(const order &o) const { assert_int_equal(send(fd, &o, sizeof(o), 0), sizeof(o)); }
	answer hear() const
	{
		answer a{};

		assert_int_equal(recv(fd, &a, sizeof(a), 0), sizeof(a));
		return a;
	}
	void kill()
	{
		::kill(pid, SIGKILL);
		killed = true;
	}
	pid_t pid;

private:
	int fd;
	bool killed = false;
};

/* ---- the tests --------------------------------------------------------------------------------------- */

/* Allocates and overwrites all the device memory that is free. */
static void use_up()
{
	std::vector<void *> all;
	void *p;

	while (!aclrtMalloc(&p, 2 << 20, ACL_MEM_MALLOC_HUGE_FIRST)) {
		all.push_back(p);
		GOOD(aclrtMemset(p, 2 << 20, 0xee, sized(2 << 20, bytes)));
	}
	assert_false(all.empty());
	for (void *q : all)
		GOOD(aclrtFree(q));
}

static size_t free_bytes()
{
	const answer a = here({op::count});

	GOOD(a.code);
	assert_true(a.free > 0);
	return a.free;
}

/* The export is released first: both imports stay valid, and the memory is free when they are released. */
static void released_first(op what)
{
	const std::uint64_t seed = usdma::test::seed();
	const size_t free = free_bytes();
	peer p(1);
	const answer made = here({what, 0, 1, seed});

	GOOD(made.code);
	for (int slot : {0, 1})
		GOOD(p.call({op::import, slot, 1, 0, made.handle}).code);
	GOOD(p.call({op::check, 0, 1, seed}).code);
	GOOD(p.call({op::fill, 0, 1, seed + 1}).code);
	GOOD(here({op::check, 0, 1, seed + 1}).code);
	GOOD(p.call({op::check, 1, 1, seed + 1}).code);
	GOOD(here({op::drop, 0}).code);
	use_up();
	assert_int_equal(p.call({op::import, 2, 1, 0, made.handle}).code, stale);
	GOOD(p.call({op::check, 0, 1, seed + 1}).code);
	GOOD(p.call({op::drop, 0}).code);
	use_up();
	GOOD(p.call({op::check, 1, 1, seed + 1}).code);
	GOOD(p.call({op::drop, 1}).code);
	assert_int_equal(free_bytes(), free);
}

static void test_released_first(void **)
{
	released_first(op::make);
	released_first(op::make_host);
}

static void test_same_process(void **)
{
	const std::uint64_t seed = usdma::test::seed();
	const size_t free = free_bytes();

	for (op what : {op::make, op::make_host}) {
		const answer made = here({what, 0, 1, seed});

		GOOD(made.code);
		for (int slot : {1, 2})
			GOOD(here({op::import, slot, 1, 0, made.handle}).code);
		GOOD(here({op::check, 1, 1, seed}).code);
		GOOD(here({op::fill, 2, 1, seed + 1}).code);
		GOOD(here({op::check, 0, 1, seed + 1}).code);
		if (what == op::make) /* of host memory aclrtMemsetAsync is immediate */
			GOOD(here({op::chain, 1, 1, seed + 1}).code);
		GOOD(here({op::fill, 1, 1, seed + 2}).code);
		GOOD(here({op::drop, 0}).code);
		use_up();
		GOOD(here({op::check, 2, 1, seed + 2}).code);
		GOOD(here({op::drop, 2}).code);
		GOOD(here({op::drop, 1}).code);
		assert_int_equal(free_bytes(), free);
	}
}

static void test_who_may(void **)
{
	const std::uint64_t seed = usdma::test::seed();
	answer made = here({op::make, 0, 0, seed});
	aclrtMemFabricHandle wrong = made.handle;

	GOOD(made.code);
	wrong.data[50] ^= 1; /* part of the key */
	{
		peer a(1);
		std::int32_t pids[2] = {0, a.pid};

		assert_int_equal(a.call({op::import, 0, 1, 0, made.handle}).code, refused);
		GOOD(aclrtMemSetPidToShareableHandleV2(&made.handle, fabric, pids, 2));
		GOOD(a.call({op::import, 0, 1, 0, made.handle}).code);
		GOOD(a.call({op::check, 0, 1, seed}).code);
		assert_int_equal(here({op::import, 1, 1, 0, made.handle}).code, refused);
		assert_int_equal(a.call({op::import, 1, 1, 0, wrong}).code, stale);
		GOOD(a.call({op::drop, 0}).code);
	}
	peer b(1);
	assert_int_equal(b.call({op::import, 0, 1, 0, made.handle}).code, refused);
	GOOD(here({op::drop, 0}).code);
}

/* Each process imports the memory of all others, then runs chain() on its neighbour's memory. */
static void test_four_processes(void **)
{
	const std::uint64_t seed = usdma::test::seed();
	const int n = int(devices.size());
	std::deque<peer> peers;
	const auto on = [&](int i, const order &o) { return i ? peers[size_t(i) - 1].call(o) : here(o); };
	answer made[slots];

	for (int i = 1; i < n; i++)
		peers.emplace_back(i);
	for (int i = 0; i < n; i++) {
		made[i] = on(i, {op::make, i, 1, seed + std::uint64_t(i)});
		GOOD(made[i].code);
	}
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			if (i != j)
				GOOD(on(i, {op::import, j, 1, 0, made[j].handle}).code);
			GOOD(on(i, {op::check, j, 1, seed + std::uint64_t(j)}).code);
		}
	for (int i = 1; i < n; i++)
		peers[size_t(i) - 1].say({op::chain, (i + 1) % n, 1, seed + std::uint64_t(i + 1) % std::uint64_t(n)});
	GOOD(here({op::chain, 1, 1, seed + 1}).code);
	for (const peer &p : peers)
		GOOD(p.hear().code);
	/* All processes read the data of the last memset. */
	std::vector<char> got(bytes);
	GOOD(aclrtMemcpy(got.data(), bytes, mine[n / 2].va, bytes, ACL_MEMCPY_DEFAULT));
	assert_true(got == std::vector<char>(bytes, 0x33));
	for (int j = 0; j < n; j++)
		for (int i : {2, 0, 3, 1})
			if (i < n)
				GOOD(on(i, {op::drop, j}).code);
}

/* Copies with the memory of a killed process still work; new imports of its memory fail. */
static void test_exporter_killed(void **)
{
	const std::uint64_t seed = usdma::test::seed();
	peer p(1);
	const answer made = p.call({op::make, 0, 1, seed});
	void *own;

	GOOD(made.code);
	GOOD(here({op::import, 0, 1, 0, made.handle}).code);
	GOOD(aclrtMalloc(&own, size, ACL_MEM_MALLOC_HUGE_FIRST));
	p.say({op::copy_for_ever, 0});
	GOOD(p.hear().code);
	for (int i = 0; i < 64; i++) {
		GOOD(aclrtMemcpyAsync(own, size, mine[0].va, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
		if (i == 32)
			p.kill();
	}
	GOOD(aclrtSynchronizeStream(stream));
	GOOD(waitid(P_PID, id_t(p.pid), nullptr, WEXITED | WNOWAIT));
	GOOD(here({op::chain, 0, 1, seed}).code);
	assert_int_equal(here({op::import, 1, 1, 0, made.handle}).code, stale);
	GOOD(aclrtFree(own));
	GOOD(here({op::drop, 0}).code);
}

/* The exporter still works, and its memory can be freed. */
static void test_importer_killed(void **)
{
	const std::uint64_t seed = usdma::test::seed();
	const size_t free = free_bytes();
	peer p(1);
	const answer made = here({op::make, 0, 1, seed});

	GOOD(made.code);
	GOOD(p.call({op::import, 0, 1, 0, made.handle}).code);
	p.say({op::copy_for_ever, 0});
	GOOD(p.hear().code);
	p.kill();
	GOOD(waitid(P_PID, id_t(p.pid), nullptr, WEXITED | WNOWAIT));
	GOOD(here({op::fill, 0, 1, seed + 1}).code);
	GOOD(here({op::check, 0, 1, seed + 1}).code);
	GOOD(here({op::drop, 0}).code);
	use_up();
	assert_int_equal(free_bytes(), free);
}

/* A key becomes invalid with its memory, which is not reused while it is imported. */
static void test_key_of_freed_memory(void **)
{
	const std::uint64_t seed = usdma::test::seed();
	const size_t free = free_bytes();
	const std::vector<char> data = pattern(seed);
	peer a(1);
	order o{op::import_key};
	void *p;

	GOOD(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMemcpy(p, size, data.data(), bytes, ACL_MEMCPY_DEFAULT));
	GOOD(aclrtIpcMemGetExportKey(p, size, o.key, sizeof(o.key), 1));
	GOOD(a.call(o).code);
	GOOD(here(o).code);
	GOOD(here({op::check, 0, 1, seed}).code);
	GOOD(here({op::drop, 0}).code);
	GOOD(aclrtFree(p));
	use_up();
	if (devices.size() > 2)
		assert_int_equal(peer(2).call(o).code, 107000);
	GOOD(a.call({op::check, 0, 1, seed}).code);
	assert_true(free_bytes() < free);
	GOOD(a.call({op::drop, 0}).code);
	assert_int_equal(free_bytes(), free);
	GOOD(aclrtIpcMemClose(o.key));
}

/* Exported by one process, imported by both, released in each order. */
static void rounds(peer *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const answer made = i & 1 ? here({op::make, 0}) : p->call({op::make, 0});
		const order other = {op::import, 1, 1, 0, made.handle};

		GOOD(made.code);
		GOOD(here(other).code);
		GOOD(p->call(other).code);
		if (i & 2)
			GOOD(i & 1 ? here({op::drop, 0}).code : p->call({op::drop, 0}).code);
		GOOD(i & 4 ? here({op::drop, 1}).code : p->call({op::drop, 1}).code);
		GOOD(i & 4 ? p->call({op::drop, 1}).code : here({op::drop, 1}).code);
		if (!(i & 2))
			GOOD(i & 1 ? here({op::drop, 0}).code : p->call({op::drop, 0}).code);
	}
}

static void test_nothing_leaks(void **)
{
	peer p(1);
	answer before[2], after[2];

	rounds(&p, 8);
	before[0] = here({op::count}), before[1] = p.call({op::count});
	rounds(&p, unsigned(sized(100, 12)) * usdma::test::scale());
	after[0] = here({op::count}), after[1] = p.call({op::count});
	for (int i : {0, 1}) {
		GOOD(before[i].code);
		GOOD(after[i].code);
		assert_int_equal(after[i].free, before[i].free);
		assert_int_equal(after[i].fds, before[i].fds);
		assert_in_range(after[i].maps, 1, before[i].maps + 16); /* stacks and malloc arenas vary */
	}
}

static void split_devices()
{
	const std::string all = getenv("USDMA_DEVICES");

	for (size_t at = 0, end; at <= all.size(); at = end + 1) {
		end = std::min(all.find(',', at), all.size());
		devices.push_back(all.substr(at, end - at));
	}
}

static int set_up(void **)
{
	setenv("USDMA_DEVICES", devices[0].c_str(), 1);
	return aclrtSetDevice(0) ?: aclrtCreateStream(&stream);
}

static int tear_down(void **)
{
	return aclrtDestroyStream(stream) ?: aclrtResetDevice(0);
}

int main(int argc, char **)
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_released_first),
		cmocka_unit_test(test_same_process),
		cmocka_unit_test(test_who_may),
		cmocka_unit_test(test_four_processes),
		cmocka_unit_test(test_exporter_killed),
		cmocka_unit_test(test_importer_killed),
		cmocka_unit_test(test_key_of_freed_memory),
		cmocka_unit_test(test_nothing_leaks),
	};

	if (argc > 1)
		return peer_main();
	split_devices();
	if (devices.size() < 2 || devices.size() > slots)
		return 1;
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
