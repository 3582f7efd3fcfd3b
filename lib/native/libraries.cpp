/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libraries that libusdma loads when they are needed. They are beside it, or in the dynamic linker's path. Each
 * requires the private names of its own libusdma, which have the build's id in their version (private_node.py): the
 * dynamic linker refuses one of another build, and says so.
 */
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/sim/transport.h"
#include "lib/core/check/entry.h"

#include <climits>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

namespace usdma {

/*
 * The file beside libusdma, if there is one; else its name, for the dynamic linker's path. libusdma's RUNPATH alone is
 * not enough: a dlopen() that is intercepted (by TSan) has the RUNPATH of the interceptor. A relative name would be one
 * of the current directory.
 */
static const char *beside_libusdma(const char *file, char (&path)[PATH_MAX])
{
	static const char here = 0;
	Dl_info self;

	if (!dladdr(&here, &self) || !self.dli_fname || *self.dli_fname != '/')
		return file;
	const int folder = int(strrchr(self.dli_fname, '/') - self.dli_fname);
	const int n = snprintf(path, sizeof(path), "%.*s/%s", folder, self.dli_fname, file);
	return n > 0 && n < int(sizeof(path)) && access(path, F_OK) == 0 ? path : file;
}

/* The errno of a text of dlerror() that is about lack of descriptors or memory; 0: of another. */
static int lack_of(const char *text)
{
	char what[64];

	for (const int err : {EMFILE, ENFILE, ENOMEM})
		if (strstr(text, strerror_r(err, what, sizeof(what))))
			return err;
	return 0;
}

static int fail_load(const char *what, const char *file, const char *package, const char *why)
{
	if ((errno = lack_of(why)))
		return fail_errno("%s cannot be loaded", file);
	return fail(ENOPKG, "%s is in %s, which cannot be loaded: %s; install the package %s %s", what, file, why,
		    package, USDMA_VERSION_TEXT);
}

/* file, package: of Debian; what: needs it. */
static int load(const char *what, const char *file, const char *package, const char *symbol, void **out)
{
	char path[PATH_MAX];
	void *const library = dlopen(beside_libusdma(file, path), RTLD_NOW | RTLD_LOCAL);
	const char *why = library ? nullptr : dlerror();

	*out = library ? dlsym(library, symbol) : nullptr;
	if (*out)
		return 0;
	why = why ? why : dlerror();
	return fail_load(what, file, package, why ? why : "it has no entry");
}

int dma::simulator(const software_parts **out)
{
	static const software_parts *found; /* atomic */
	void *entry;

	*out = load_acquire(&found);
	if (*out)
		return 0;
	if (const int err = load("the software device", USDMA_SIM_LIBRARY, "libusdma-sim0", "usdma_simulator", &entry))
		return err;
	*out = reinterpret_cast<decltype(&usdma_simulator)>(entry)();
	store_release(&found, *out);
	return 0;
}

int core::race_detector(const race_hooks **out)
{
	void *entry;
	const int err = load("the race detector", USDMA_CHECK_LIBRARY, "libusdma-check0", "usdma_race_detector",
			     &entry);

	if (!err)
		*out = reinterpret_cast<decltype(&usdma_race_detector)>(entry)();
	return err;
}

} // namespace usdma
