/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdmactl ascend-home: a folder laid out as a CANN installation, for build systems and programs that expect one.
 * Headers and libraries are links to the installed ones.
 */
#include "lib/acl/soc.h"
#include "tools/usdmactl/ctl.h"
#include "tools/usdmactl/doctor.h"

#include <nlohmann/json.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/utsname.h>

namespace fs = std::filesystem;

namespace usdma::ctl {

static constexpr const char *mark = "# Made by usdmactl ascend-home.";

namespace {

/* Where usdma is installed. */
struct installed {
	fs::path include, lib, libexec;
};

struct failure {
	std::string text;
};

} // namespace

/* Beside this program, in the folders that it was configured for: an installation may have been moved. */
static installed find_installed()
{
	const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
	const auto beside = [&](const char *configured) {
		return (bin / fs::path(configured).lexically_relative(USDMA_BINDIR)).lexically_normal();
	};
	installed at = {beside(USDMA_INCLUDEDIR), beside(USDMA_LIBDIR), beside(USDMA_LIBDIR "/usdma")};

	for (const fs::path &need : {at.include / "usdma/acl/acl.h", at.libexec / "libascendcl.so"})
		if (!fs::exists(need))
			throw failure{need.string() +
				      " is missing: install usdma with its headers (meson install, or the "
				      "packages libusdma-acl and libusdma-dev)"};
	return at;
}

static void link_to(const fs::path &target, const fs::path &name)
{
	if (fs::is_symlink(name))
		fs::remove(name);
	fs::create_symlink(target, name);
}

static void write_file(const fs::path &name, const std::string &text, fs::perms mode = fs::perms(0644))
{
	std::ofstream out(name, std::ios::trunc);

	out << text;
	out.close();
	if (!out)
		throw failure{name.string() + ": cannot be written"};
	fs::permissions(name, mode);
}

/* A folder that is missing, empty, or made by this command. */
static void check_folder(const fs::path &top)
{
	if (!fs::exists(top) || (fs::is_directory(top) && fs::is_empty(top)))
		return;
	if (!fs::is_directory(top) || read_all(top / "set_env.sh").find(mark) == std::string::npos)
		throw failure{top.string() + " has something else in it: name a new folder"};
}

static std::string environment(const fs::path &top)
{
	return fmt::format("{}\n"
			   "export ASCEND_HOME_PATH={}\n"
			   "export ASCEND_TOOLKIT_HOME=\"$ASCEND_HOME_PATH\"\n"
			   "export LD_LIBRARY_PATH=\"$ASCEND_HOME_PATH/lib64${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"\n"
			   "export PATH=\"$ASCEND_HOME_PATH/bin:$PATH\"\n",
			   mark, shell_word(top.string()));
}

static std::string versions()
{
	std::string text = "# version: 1.0\n";

	for (const char *state : {"running", "upgrade", "installed"})
		for (const char *package : {"runtime", "toolkit"})
			text += fmt::format("{}_{}_version=[{}:{}]\n", package, state, acl::runtime_version.text,
					    acl::runtime_version.text);
	return text;
}

static void link_libraries(const installed &at, const fs::path &lib64)
{
	for (const fs::directory_entry &e : fs::directory_iterator(at.libexec))
		if (e.path().extension() == ".so")
			link_to(e.path(), lib64 / e.path().filename());
	for (const char *below : {"libusdma.so.0", "libusdma-hccl.so.0"})
		link_to(at.lib / below, lib64 / below);
}

static void make_tree(const installed &at, const fs::path &top)
{
	utsname machine = {};

	uname(&machine);
	const fs::path arch = top / fmt::format("{}-linux", machine.machine);
	for (const fs::path &dir : {top / "include", top / "lib64", top / "bin", arch})
		fs::create_directories(dir);
	/* First, so that a second run goes on where one was interrupted. */
	write_file(top / "set_env.sh", environment(top));
	for (const char *headers : {"acl", "driver"})
		link_to(at.include / "usdma" / headers, top / "include" / headers);
	link_to(at.include / "usdma-hccl/hccl", top / "include/hccl");
	link_libraries(at, top / "lib64");
	link_to("../include", arch / "include");
	link_to("../lib64", arch / "lib64");
	write_file(top / "bin/npu-smi",
		   fmt::format("#!/bin/sh\n{}\n[ \"$1\" != info ] || shift\nexec {} npu-smi \"$@\"\n", mark,
			       shell_word(fs::read_symlink("/proc/self/exe").string())),
		   fs::perms(0755));
	write_file(top / "version.cfg", versions());
}

int run_ascend_home(const context &ctx, const std::string &folder)
{
	try {
		fs::path top = fs::absolute(folder).lexically_normal();

		if (!top.has_filename()) /* a slash at the end */
			top = top.parent_path();
		check_folder(top);
		make_tree(find_installed(), top);
		if (ctx.json)
			print_json({{"ascend_home", top.string()}});
		else
			print_line(". " + shell_word((top / "set_env.sh").string()));
		return exit_ok;
	} catch (const failure &f) {
		return report(ctx, f.text);
	} catch (const fs::filesystem_error &e) {
		return report(ctx, e.path1().string() + ": " + e.code().message());
	}
}

} // namespace usdma::ctl
