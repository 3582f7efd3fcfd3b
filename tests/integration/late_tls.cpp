/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: before main() it uses up the static TLS that the loader reserves
 * for libraries that are loaded later, as large programs do.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

static constexpr size_t file_most = 1 << 20;
static constexpr unsigned copies_most = 2000; /* of 8 bytes each: much more than the loader reserves */

/* Loads a new copy of the library, from a file that stays open, so that each copy has another name. */
static void *load_copy()
{
	const int from = open(LATE_TLS_WORD, O_RDONLY | O_CLOEXEC), to = memfd_create("late", MFD_CLOEXEC);
	char name[64];

	if (from < 0 || to < 0 || sendfile(to, from, nullptr, file_most) <= 0)
		perror(LATE_TLS_WORD);
	close(from);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", to);
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

__attribute__((constructor)) static void use_up()
{
	for (unsigned i = 0; i < copies_most; i++)
		if (!load_copy()) {
			const char *const why = dlerror();

			if (why && strstr(why, "static TLS block"))
				return;
			fprintf(stderr, "late_tls: %s\n", why);
			abort();
		}
	fprintf(stderr, "late_tls: static TLS is not used up by %u libraries\n", copies_most);
	abort();
}
