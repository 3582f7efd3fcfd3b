/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that steady.py traces: a loop of pinned copies in poll mode
 * between two marks (getppid, which nothing else calls), then a control section
 * that allocates once and makes one system call, to show that both are counted.
 * Prints: allocations in the loop, allocations in the control section.
 */
#include "usdma/usdma.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
}

static thread_local bool counting;
static thread_local unsigned long counted;

static void *count_allocation(void *p)
{
	counted += counting;
	return p;
}

extern "C" {
void *malloc(size_t size)
{
	return count_allocation(__libc_malloc(size));
}
void *calloc(size_t n, size_t size)
{
	return count_allocation(__libc_calloc(n, size));
}
void *realloc(void *p, size_t size)
{
	return count_allocation(__libc_realloc(p, size));
}
void *aligned_alloc(size_t align, size_t size)
{
	return count_allocation(__libc_memalign(align, size));
}
int posix_memalign(void **out, size_t align, size_t size)
{
	*out = count_allocation(__libc_memalign(align, size));
	return *out ? 0 : 12;
}
}

static void mark()
{
	syscall(SYS_getppid);
}

static void must(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, ret, usdma_error_text());
	exit(1);
}

static constexpr size_t size = 1 << 20, small = 64;

static void copies(usdma_stream *s, char *mem, char *host, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		for (size_t k = 0; k < size_t(i % 40);
		     k++) /* different numbers of copies in flight, sometimes a large one */
			must(usdma_copy(s, mem + k * small, host + k * small, small), "copy");
		must(usdma_copy(s, host, mem, i % 64 ? small : size), "copy back");
		must(usdma_stream_sync(s, 60000), "sync");
	}
}

int main()
{
	usdma_stream_options opt = {sizeof(opt), USDMA_WAIT_POLL, 0, 0};
	usdma_device *dev;
	usdma_stream *s;
	void *host, *mem;

	must(usdma_open(nullptr, &dev), "open");
	must(usdma_stream_create(dev, &opt, &s), "stream");
	must(usdma_host_alloc(dev, size, &host), "host_alloc");
	must(usdma_device_alloc(dev, size, &mem), "device_alloc");
	copies(s, static_cast<char *>(mem), static_cast<char *>(host), 200);
	mark();
	counting = true;
	copies(s, static_cast<char *>(mem), static_cast<char *>(host), 2000);
	counting = false;
	mark();
	const unsigned long in_loop = counted;
	counting = true;
	free(strdup("one allocation"));
	syscall(SYS_getuid);
	counting = false;
	mark();
	printf("%lu %lu\n", in_loop, counted - in_loop);
	must(usdma_stream_destroy(s), "destroy");
	must(usdma_host_free(host), "host_free");
	must(usdma_device_free(mem), "device_free");
	must(usdma_close(dev), "close");
	return 0;
}
