/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/frames.h"

#include "lib/core/base/slab.h"

#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string_view>
#include <unistd.h>

namespace usdma::core {

/* ---- lines of source ---------------------------------------------------------------------------------- */

namespace {

/*
 * libdwfl of elfutils, where the machine has it: loaded when the first report is written, so that no program needs it.
 * These are its declarations (elfutils/libdwfl.h), whose binary interface is stable.
 */
struct dwfl_callbacks {
	void *find_elf, *find_debuginfo, *section_address;
	char **debuginfo_path;
};

struct libdwfl {
	void *(*begin)(const dwfl_callbacks *callbacks);
	void (*report_begin)(void *dwfl);
	int (*linux_proc_report)(void *dwfl, int pid);
	int (*report_end)(void *dwfl, void *removed, void *arg);
	void *(*addrmodule)(void *dwfl, u64 address);
	void *(*module_getsrc)(void *module, u64 address);
	const char *(*module_addrname)(void *module, u64 address);
	const char *(*lineinfo)(void *line, u64 *addr, int *number, int *column, void *mtime, void *length);
	dwfl_callbacks callbacks;
	void *dwfl = nullptr; /* nullptr: it is not there */
	u64 changes = 0;      /* of the modules, when they were reported; 0: they were not */

	libdwfl();
	void *module_of(const void *address);

private:
	bool report();
};

template <class F> bool find_in(void *lib, const char *name, F *out)
{
	*out = reinterpret_cast<F>(dlsym(lib, name));
	return *out != nullptr;
}

/* Debug information of this machine only: by build id, in /usr/lib/debug. Nothing is downloaded. */
libdwfl::libdwfl()
{
	void *const lib = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);

	callbacks.debuginfo_path = nullptr;
	callbacks.section_address = nullptr;
	if (lib && find_in(lib, "dwfl_begin", &begin) && find_in(lib, "dwfl_report_begin", &report_begin) &&
	    find_in(lib, "dwfl_linux_proc_report", &linux_proc_report) &&
	    find_in(lib, "dwfl_report_end", &report_end) && find_in(lib, "dwfl_addrmodule", &addrmodule) &&
	    find_in(lib, "dwfl_module_getsrc", &module_getsrc) &&
	    find_in(lib, "dwfl_module_addrname", &module_addrname) && find_in(lib, "dwfl_lineinfo", &lineinfo) &&
	    find_in(lib, "dwfl_linux_proc_find_elf", &callbacks.find_elf) &&
	    find_in(lib, "dwfl_build_id_find_debuginfo", &callbacks.find_debuginfo))
		dwfl = begin(&callbacks);
}

/* The modules that the process has now. */
bool libdwfl::report()
{
	report_begin(dwfl);
	return !linux_proc_report(dwfl, getpid()) && !report_end(dwfl, nullptr, nullptr);
}

/* How often modules were loaded or unloaded: another one may be at an address then. */
u64 module_changes()
{
	u64 n = 0;

	dl_iterate_phdr(
		[](dl_phdr_info *info, size_t, void *arg) {
			*static_cast<u64 *>(arg) = info->dlpi_adds + info->dlpi_subs;
			return 1;
		},
		&n);
	return n;
}

/* Else a file that libdw opens may be one of them meanwhile, and children of the program inherit it. */
bool standard_streams_are_open()
{
	return fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0;
}

void *libdwfl::module_of(const void *address)
{
	const u64 now = dwfl ? module_changes() : 0;

	if (!dwfl || !standard_streams_are_open())
		return nullptr;
	if (changes != now)
		changes = report() ? now : 0;
	return changes ? addrmodule(dwfl, reinterpret_cast<u64>(address)) : nullptr;
}

std::string base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : nullptr;

	return slash ? slash + 1 : path ? path : "?";
}

void add_source(const void *at, frame *f)
{
	static no_destructor<libdwfl> dw;
	void *const module = dw->module_of(at);
	const u64 address = reinterpret_cast<u64>(at);
	void *const line = module ? dw->module_getsrc(module, address) : nullptr;
	const char *const file = line ? dw->lineinfo(line, nullptr, &f->line, nullptr, nullptr, nullptr) : nullptr;
	const char *const name = module && f->function.empty() ? dw->module_addrname(module, address) : nullptr;

	if (file)
		f->file = file;
	if (name)
		f->function = name;
}

/* ---- names -------------------------------------------------------------------------------------------- */

bool is_of_project(const std::string &module)
{
	static constexpr std::string_view names[] = {"libusdma.so",     "libusdma-check.so", "libascendcl.so",
						     "libacl_rt.so",    "libhccl",           "libruntime.so",
						     "libascend_hal.so"};

	for (const std::string_view name : names)
		if (module.starts_with(name))
			return true;
	return false;
}

/* "kv::load(int)" of "_ZN2kv4loadEi". */
std::string demangled(const std::string &name)
{
	int err;
	char *const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &err);
	std::string out = text ? text : name;

	free(text);
	return out;
}

} // namespace

frame frame_of(const void *address)
{
	/* A return address: the call lies before it. */
	const char *const at = static_cast<const char *>(address) - 1;
	Dl_info own = {}, i = {};
	frame f;

	if (!dladdr(at, &i))
		return f;
	dladdr(reinterpret_cast<const void *>(&frame_of), &own);
	f.module = base_name(i.dli_fname);
	f.offset = u64(at - static_cast<const char *>(i.dli_fbase));
	f.own = i.dli_fbase == own.dli_fbase || is_of_project(f.module);
	if (i.dli_sname)
		f.function = i.dli_sname;
	if (!f.own && !f.module.starts_with("libc.so"))
		add_source(at, &f);
	if (f.function.starts_with("_Z"))
		f.function = demangled(f.function);
	return f;
}

} // namespace usdma::core
