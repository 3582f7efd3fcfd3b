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

/* Names that CANN's programs link with. Of securec and the profiler only the name is here. */
static void link_names(const fs::path &lib64)
{
	for (const char *name : {"libacl_rt_impl.so", "libacl_tdt_channel.so", "libacl_tdt_queue.so",
				 "libascend_dump.so", "libmsprofiler.so", "libprofapi.so", "libc_sec.so"})
		link_to("libascendcl.so", lib64 / name);
}

static void write_package_versions(const fs::path &top)
{
	for (const char *package : {"runtime", "hccl", "toolkit", "driver"}) {
		const fs::path dir = top / "share/info" / package;

		fs::create_directories(dir);
		write_file(dir / "version.info", fmt::format("Version={}\n", acl::runtime_version.text));
	}
}

/* In the role of the compiler of kernels: the program's own functions for the host, in streams. */
static constexpr const char *launch_header =
	R"(/* Made by usdmactl ascend-home. Kernels that the host runs, in place of those of a device. */
#pragma once

#include <acl/acl.h>

#include <cstdint>
#include <memory>
#include <utility>

/* Runs f() behind the stream's earlier work. The data is in memory that the host can access: aclrtMallocHost. */
template <class F> aclError host_kernel(void *stream, F f)
{
	auto call = std::make_unique<F>(std::move(f));
	const auto run = [](void *arg) { (*std::unique_ptr<F>(static_cast<F *>(arg)))(); };
	const aclError err = aclrtLaunchHostFunc(stream, run, call.get());

	if (!err)
		(void)call.release();
	return err;
}
)";
static constexpr const char *launch_cmake = R"(# Made by usdmactl ascend-home.
# ascendc_library(NAME STATIC|SHARED FILE...): of each FILE with kernels, the file of the same name in HOST_KERNELS,
# which defines the functions that launch them, by host_kernel() of host_kernel.h.
function(ascendc_library name type)
  if(NOT HOST_KERNELS)
    message(FATAL_ERROR "usdma runs no kernels: set HOST_KERNELS to a folder with functions for the host instead")
  endif()
  foreach(file ${ARGN})
    get_filename_component(base ${file} NAME)
    list(APPEND sources ${HOST_KERNELS}/${base})
  endforeach()
  add_library(${name} ${type} ${sources})
  target_compile_features(${name} PUBLIC cxx_std_17)
  get_filename_component(home ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../.. ABSOLUTE)
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_FUNCTION_LIST_DIR} ${home}/include)
  target_link_libraries(${name} PUBLIC ${home}/lib64/libascendcl.so)
endfunction()
# Settings of the compiler of kernels.
function(ascendc_include_directories)
endfunction()
function(ascendc_compile_definitions)
endfunction()
function(ascendc_compile_options)
endfunction()
)";

static void write_launches(const fs::path &top)
{
	const fs::path dir = top / "compiler/tikcpp/ascendc_kernel_cmake";

	fs::create_directories(dir);
	fs::create_directories(top / "tools/tikcpp");
	write_file(dir / "ascendc.cmake", launch_cmake);
	write_file(dir / "host_kernel.h", launch_header);
	link_to("../../compiler/tikcpp/ascendc_kernel_cmake", top / "tools/tikcpp/ascendc_kernel_cmake");
}

/* The folders in which CANN has these headers, older and newer. */
static void link_runtime(const fs::path &headers, const fs::path &top)
{
	for (const fs::path &dir : {top / "include/experiment/runtime", top / "pkg_inc/runtime"}) {
		fs::create_directories(dir);
		link_to(headers, dir / "runtime");
	}
	for (const fs::directory_entry &e : fs::directory_iterator(headers))
		link_to(e.path(), top / "pkg_inc/runtime" / e.path().filename());
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
	for (const char *headers : {"acl", "aclnn", "driver", "runtime"})
		link_to(at.include / "usdma" / headers, top / "include" / headers);
	link_runtime(at.include / "usdma/runtime", top);
	link_to(at.include / "usdma-hccl/hccl", top / "include/hccl");
	link_to(at.include / "usdma-hccl/hccl", top / "include/hcomm");
	link_libraries(at, top / "lib64");
	link_names(top / "lib64");
	write_package_versions(top);
	write_launches(top);
	link_to("../set_env.sh", top / "bin/setenv.bash");
	link_to("../include", arch / "include");
	link_to("../lib64", arch / "lib64");
	link_to("../pkg_inc", arch / "pkg_inc");
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
