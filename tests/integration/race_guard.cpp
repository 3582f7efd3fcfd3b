/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of race_cases for USDMA_CHECK=race,guard: the CPU accesses pages that a copy uses. */
#include "race_program.h"

#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace race {

namespace {

void stores(char *p)
{
	*static_cast<volatile char *>(p) = 3; /* the store */
}

char loads(const char *p)
{
	return *static_cast<const volatile char *>(p); /* the load */
}

void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

void guard_store(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	stores(p.host + half);
	check(p.host[half] == 3, "the program went on without its store");
}

void guard_load(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.save(p.a, p.out, p.cache);
	if (p.fixed)
		p.sync(p.a);
	loads(p.out + half);
	p.sync(p.a);
	check(!memcmp(p.out, p.host, size), "the copies are wrong");
}

/* Two streams read the source, and the last one is waited for. */
void guard_waited(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.load(p.b, p.other, p.host);
	p.sync(p.b);
	if (p.fixed)
		p.sync(p.a);
	stores(p.host + half);
	p.sync(p.a);
}

/* A load of data that a copy only reads is no race. Partly used pages are not guarded: the rest may be in use. */
void guard_shared(program &p)
{
	p.load(p.a, p.cache, p.host + 1, half);
	loads(p.host + half / 4);
	stores(p.host);
	stores(p.host + half + 1);
	if (p.fixed)
		p.sync(p.a);
	stores(p.host + half / 2);
}

/* Several threads store at once, each to its own pages. */
void guard_threads(program &p)
{
	std::vector<std::thread> all;

	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	for (size_t i = 0; i < 4; i++)
		all.emplace_back([&p, i] {
			for (size_t at = i * size / 4; at < (i + 1) * size / 4; at += 1024)
				stores(p.host + at);
		});
	for (std::thread &t : all)
		t.join();
}

/* The program's signal handler, for a page of the program. */
char *own_page;
volatile sig_atomic_t own_faults;

void on_fault(int, siginfo_t *info, void *)
{
	if (info->si_addr != own_page)
		_exit(3);
	own_faults = own_faults + 1;
	mprotect(own_page, 4096, PROT_READ | PROT_WRITE);
}

void guard_chained(program &p)
{
	struct sigaction own = {};

	own.sa_sigaction = on_fault;
	own.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &own, nullptr);
	own_page = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	check(own_page != MAP_FAILED, "mmap");
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	own_page[0] = 1;
	check(own_faults == 1, "the program's handler was not called");
	stores(p.host);
	check(own_faults == 1, "the program's handler was called for a guarded page");
}

/* A child has its own copy of registered memory, which no device uses. */
void guard_fork(program &p)
{
	char *const mine = static_cast<char *>(aligned_alloc(4096, size));
	void *device;
	int status;

	memset(mine, 1, size);
	WORKS(aclrtHostRegister(mine, size, ACL_HOST_REGISTER_MAPPED, &device));
	p.load(p.a, p.cache, mine);
	const pid_t child = fork();
	if (!child) {
		int end[2];

		/* Kernel accesses raise no signal: the pages are accessible from the start. */
		if (pipe(end) || write(end[1], "x", 1) != 1 || read(end[0], mine, 1) != 1)
			_exit(1);
		stores(mine);
		_exit(loads(mine) == 3 ? 0 : 1);
	}
	check(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status),
	      "the child failed");
	if (p.fixed)
		p.sync(p.a);
	stores(mine + half);
	p.sync(p.a);
	WORKS(aclrtHostUnregister(mine));
	free(mine);
}

constexpr one all[] = {
	{"guard_store", guard_store},     {"guard_load", guard_load},       {"guard_shared", guard_shared},
	{"guard_threads", guard_threads}, {"guard_chained", guard_chained}, {"guard_fork", guard_fork},
	{"guard_waited", guard_waited},
};

} // namespace

const std::vector<one> guard_cases(std::begin(all), std::end(all));

} // namespace race
