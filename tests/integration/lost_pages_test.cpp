/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is unmapped while it is registered, or that is read-only: each use of it fails with an error of the call
 * or of the stream, for accesses by the CPU and by the device, and the stream still works.
 */
#include "acl/acl.h"
#include "tests/integration/native.h"

#include <csetjmp>
#include <csignal>
#include <functional>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace usdma::test;

static constexpr size_t most = 1 << 20;
static constexpr size_t lengths[] = {8, 64, 4096, 64 << 10, (64 << 10) + 8, most};

#define FAIL_AS(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

/* ---- how memory is lost ------------------------------------------------------------------------------- */

/*
 * An address 400 GiB below the lowest mapping, where the kernel maps nothing else: other threads, or the runtime of a
 * sanitizer, could map something at an address that is unmapped for the test.
 */
static void *unused_address()
{
	void *const p = mmap(nullptr, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	munmap(p, most);
	return static_cast<unsigned char *>(p) - (size_t(400) << 30);
}

/* A mapping, of a file or anonymous, that a test loses and restores. */
struct lost_memory {
	int fd = -1;
	unsigned char *p;

	explicit lost_memory(bool of_file)
	{
		if (of_file) {
			fd = memfd_create("lost", MFD_CLOEXEC);
			assert_int_equal(ftruncate(fd, most), 0);
		}
		p = static_cast<unsigned char *>(mmap(unused_address(), most, PROT_READ | PROT_WRITE,
						      of_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0));
		assert_ptr_not_equal(p, MAP_FAILED);
		memset(p, 1, most);
	}
	lost_memory(const lost_memory &) = delete;
	~lost_memory()
	{
		munmap(p, most);
		if (fd >= 0)
			close(fd);
	}
};

struct loss {
	const char *name;
	bool of_file, readable;
	void (*lose)(lost_memory &m);
	void (*restore)(lost_memory &m);
};

static void map_again(lost_memory &m)
{
	assert_ptr_equal(
		mmap(m.p, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), m.p);
}

static void protect(lost_memory &m, int how)
{
	assert_int_equal(mprotect(m.p, most, how), 0);
}

static const loss losses[] = {
	{"truncated file", true, false, [](lost_memory &m) { assert_int_equal(ftruncate(m.fd, 0), 0); },
	 [](lost_memory &m) { assert_int_equal(ftruncate(m.fd, most), 0); }},
	{"unmapped", false, false, [](lost_memory &m) { munmap(m.p, most); }, map_again},
	{"no access", false, false, [](lost_memory &m) { protect(m, PROT_NONE); },
	 [](lost_memory &m) { protect(m, PROT_READ | PROT_WRITE); }},
	{"read-only", false, true, [](lost_memory &m) { protect(m, PROT_READ); },
	 [](lost_memory &m) { protect(m, PROT_READ | PROT_WRITE); }},
};

/* ---- uses ---------------------------------------------------------------------------------------------- */

struct bench {
	device dev;
	stream s{dev};
	block mem{dev, kind::device, most};

	/* With the kernel's VFIO the pages stay pinned, and the device can access them after the program lost them. */
	bool pins_pages() const
	{
		struct usdma_device_info info = {.struct_size = sizeof(info)};

		WORKS(usdma_device_get_info(dev, &info));
		return !strcmp(info.transport, "type1") || !strcmp(info.transport, "iommufd");
	}
};

/* The error of the call, or of its stream. */
static int result_of(usdma_stream *s, int err)
{
	const int late = usdma_stream_sync(s, long_ms);

	return err ? err : late;
}

struct use {
	const char *name;
	bool writes, plain; /* plain: memory that is not registered is allowed, too */
	size_t most;
	int (*run)(bench &b, unsigned char *p, size_t len);
};

static const use uses[] = {
	{"copy from", false, true, most,
	 [](bench &b, unsigned char *p, size_t n) { return result_of(b.s, usdma_copy(b.s, b.mem.data(), p, n)); }},
	{"copy to", true, true, most,
	 [](bench &b, unsigned char *p, size_t n) { return result_of(b.s, usdma_copy(b.s, p, b.mem.data(), n)); }},
	{"copy from, sync", false, true, most,
	 [](bench &b, unsigned char *p, size_t n) { return usdma_copy_sync(b.dev, b.mem.data(), p, n, long_ms); }},
	{"copy to, sync", true, true, most,
	 [](bench &b, unsigned char *p, size_t n) { return usdma_copy_sync(b.dev, p, b.mem.data(), n, long_ms); }},
	{"rows from", false, true, most,
	 [](bench &b, unsigned char *p, size_t n) {
		 const usdma_copy_rect rect = {b.mem.data(), n / 2, p, n / 2, n / 4, 2};
		 return result_of(b.s, usdma_copy_2d(b.s, &rect));
	 }},
	{"fill", true, false, most,
	 [](bench &b, unsigned char *p, size_t n) { return result_of(b.s, usdma_fill(b.s, p, 3, 1, n)); }},
	{"fill, sync", true, true, most,
	 [](bench &b, unsigned char *p, size_t n) { return usdma_fill_sync(b.dev, p, 3, 1, n, long_ms); }},
	{"reduce into", true, false, most,
	 [](bench &b, unsigned char *p, size_t n) {
		 return result_of(b.s, usdma_reduce(b.s, p, b.mem.data(), n, USDMA_INT8, USDMA_SUM));
	 }},
	{"write a value", true, false, 8,
	 [](bench &b, unsigned char *p, size_t) { return result_of(b.s, usdma_write_value(b.s, p, 1)); }},
	{"wait for a value", false, false, 8,
	 [](bench &b, unsigned char *p, size_t) { return result_of(b.s, usdma_wait_value(b.s, p, USDMA_NOR, 5)); }},
};

/* With TSan, a fault in an atomic access is fatal: TSan holds a lock during the access. */
static bool can_fault(const use &u)
{
#if defined(__SANITIZE_THREAD__)
	return u.most > 8;
#else
	return u.most;
#endif
}

static void each_use(const std::function<void(const use &u, size_t len)> &fn)
{
	for (const use &u : uses)
		for (const size_t len : lengths)
			if (len <= u.most && len <= sized(most, 4096))
				fn(u, len);
}

/* ---- tests ------------------------------------------------------------------------------------------- */

static void check_lost(bench &b, const loss &l, const use &u, size_t len, lost_memory &m, bool registered)
{
	const bool works = l.readable && !u.writes;
	const bool may_work = works || (registered && b.pins_pages());

	l.lose(m);
	const int err = u.run(b, m.p, len);
	l.restore(m);
	if ((works && err) || (!may_work && !err) || (err && err != -EIO && err != -EFAULT))
		FAIL_AS("%s, %s, %zu bytes: %d", l.name, u.name, len, err);
	/* Restored memory is usable again. */
	const int after = u.run(b, m.p, len);
	if (after)
		FAIL_AS("%s, %s, %zu bytes, restored: %d (%s)", l.name, u.name, len, after, usdma_error_text());
}

static void registered_memory_is_lost(void **)
{
	bench b;

	for (const loss &l : losses)
		each_use([&](const use &u, size_t len) {
			lost_memory m(l.of_file);

			if (!can_fault(u))
				return;
			WORKS(usdma_host_register(m.p, most, 0));
			check_lost(b, l, u, len, m, true);
			WORKS(usdma_host_unregister(m.p));
		});
}

static sigset_t blocked_now()
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, nullptr, &now);
	return now;
}

/* Their signal would end the process. */
static void block_all_signals()
{
	sigset_t all;

	sigfillset(&all);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
}

static void losses_while_signals_are_blocked(bench &b, size_t from)
{
	for (const loss &l : losses)
		each_use([&](const use &u, size_t len) {
			lost_memory m(l.of_file);

			if (!can_fault(u) || len < from)
				return;
			if (u.plain)
				check_lost(b, l, u, len, m, false);
			WORKS(usdma_host_register(m.p, most, 0));
			check_lost(b, l, u, len, m, true);
			WORKS(usdma_host_unregister(m.p));
		});
	const sigset_t now = blocked_now();
	assert_true(sigismember(&now, SIGSEGV) && sigismember(&now, SIGBUS) && sigismember(&now, SIGUSR1));
}

/* From its start, as threads of services do; or later, when long accesses notice that. */
static void threads_that_block_signals(bench &b)
{
	std::thread([&] {
		block_all_signals();
		losses_while_signals_are_blocked(b, 0);
	}).join();
	std::thread([&] {
		lost_memory m(false);

		WORKS(usdma_copy(b.s, b.mem.data(), m.p, 64));
		block_all_signals();
		losses_while_signals_are_blocked(b, most);
	}).join();
}

static void pageable_memory_is_lost(void **)
{
	bench b;

	for (const loss &l : losses)
		each_use([&](const use &u, size_t len) {
			lost_memory m(l.of_file);

			if (u.plain)
				check_lost(b, l, u, len, m, false);
		});
	/* Not a case of its own: cmocka replaces the handlers for each, which the library allows for eight times. */
	threads_that_block_signals(b);
}

/* The memory is writable, but registered read-only. */
static void readonly_registration_is_enforced(void **)
{
	bench b;
	lost_memory m(false);

	WORKS(usdma_fill_sync(b.dev, b.mem.data(), 7, 1, most, long_ms));
	WORKS(usdma_host_register(m.p, most, USDMA_REGISTER_READ_ONLY));
	each_use([&](const use &u, size_t len) {
		const int err = u.run(b, m.p, len);

		if (err != (u.writes ? -EFAULT : 0))
			FAIL_AS("%s, %zu bytes: %d", u.name, len, err);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(m.p[i], 1);
	});
	WORKS(usdma_host_unregister(m.p));
}

static void acl_memset_of_lost_or_readonly_memory(void **)
{
	lost_memory m(false);

	assert_int_equal(aclrtSetDevice(0), 0);
	assert_int_equal(aclrtHostRegisterV2(m.p, most, ACL_HOST_REG_READONLY), 0);
	assert_int_not_equal(aclrtMemset(m.p, 64, 3, 64), 0);
	assert_int_not_equal(aclrtMemsetAsync(m.p, 64, 3, 64, nullptr), 0);
	assert_int_equal(m.p[0], 1);
	assert_int_equal(aclrtHostUnregister(m.p), 0);
	munmap(m.p, most);
	assert_int_not_equal(aclrtMemset(m.p, 64, 3, 64), 0);
	map_again(m);
	assert_int_equal(aclrtResetDevice(0), 0);
}

/* ---- the program's own handlers ------------------------------------------------------------------------ */

static sigjmp_buf after_fault;
static volatile sig_atomic_t handler_calls;

static void program_handler(int, siginfo_t *, void *)
{
	handler_calls = handler_calls + 1;
	siglongjmp(after_fault, 1);
}

static void install_program_handler()
{
	struct sigaction act = {};

	act.sa_sigaction = program_handler;
	act.sa_flags = SA_SIGINFO;
	assert_int_equal(sigaction(SIGSEGV, &act, nullptr), 0);
	assert_int_equal(sigaction(SIGBUS, &act, nullptr), 0);
}

/* A fault of the program itself calls the program's handler. */
static void fault_in_program(lost_memory &m)
{
	const int before = handler_calls;

	protect(m, PROT_NONE);
	if (!sigsetjmp(after_fault, 1))
		*static_cast<volatile unsigned char *>(m.p) = 1;
	protect(m, PROT_READ | PROT_WRITE);
	assert_int_equal(handler_calls, before + 1);
}

static void fault_in_library(bench &b, lost_memory &m)
{
	const int before = handler_calls;

	WORKS(usdma_host_register(m.p, most, 0));
	check_lost(b, losses[2], uses[0], 4096, m, true);
	check_lost(b, losses[2], uses[3], most, m, true);
	WORKS(usdma_host_unregister(m.p));
	assert_int_equal(handler_calls, before);
}

static void program_handlers_still_run(void **)
{
	lost_memory m(false);

	install_program_handler();
	bench b;
	fault_in_library(b, m);
	fault_in_program(m);
	/* The program replaces the library's handler: the next registration installs it again. */
	for (int i = 0; i < 3; i++) {
		install_program_handler();
		fault_in_library(b, m);
		fault_in_program(m);
	}
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
}

int main(void)
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(registered_memory_is_lost),
		cmocka_unit_test(pageable_memory_is_lost),
		cmocka_unit_test(readonly_registration_is_enforced),
		cmocka_unit_test(acl_memset_of_lost_or_readonly_memory),
		cmocka_unit_test(program_handlers_still_run),
	};

	return cmocka_run_group_tests_name("lost-pages", tests, nullptr, nullptr);
}
