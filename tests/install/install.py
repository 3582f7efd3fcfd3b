#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs a built tree into its prefix (which must be empty), builds and runs programs with it, uninstalls it.  TAP.

install.py BUILD_DIR
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
EXPECTED = ["{lib}/libusdma.so", "{lib}/libusdma.so.0", "{lib}/libusdma-sim.so.0", "{lib}/libusdma-check.so.0", "{lib}/pkgconfig/usdma.pc", "{lib}/pkgconfig/usdma-acl.pc",
            "{lib}/pkgconfig/usdma-hccl.pc", "{lib}/cmake/usdma/usdmaConfig.cmake", "{lib}/cmake/usdma/usdma-acl.cmake",
            "{lib}/usdma/libascendcl.so", "{lib}/usdma/libacl_rt.so", "{lib}/usdma/libruntime.so", "{lib}/usdma/libnnopbase.so", "include/usdma/aclnn/acl_meta.h", "{lib}/usdma/libascend_hal.so",
            "{lib}/usdma/libdrvdsmi_host.so", "{lib}/usdma/libhccl.so", "{lib}/usdma/libhcomm.so", "include/usdma-hccl/hccl/hcomm_res.h", "include/usdma-hccl/hccl/hccl.h", "include/usdma/driver/ascend_hal.h", "include/usdma/runtime/rt.h", "{lib}/usdma/libdcmi.so",
            "{lib}/libusdma-hccl.so", "include/usdma/usdma.h", "include/usdma/uring.h", "include/usdma/file.h", "include/usdma/acl/acl.h",
            "bin/usdmactl", "bin/usdma-perf", "bin/usdma-sim", "share/man/man3/usdma_copy.3", "share/man/man7/usdma.7",
            "share/man/man8/usdmactl.8", "lib/systemd/system/usdma-bind@.service", "lib/systemd/system/usdma-sim@.socket", "lib/systemd/system/usdma-share@.service",
            "lib/systemd/system/usdma-share@.socket",
            "lib/udev/rules.d/70-usdma.rules", "lib/sysusers.d/usdma.conf", "lib/tmpfiles.d/usdma.conf"]
WARN = ["-Wall", "-Wextra", "-Werror"]


class Points:
    def __init__(self):
        self.count = self.failed = 0

    def add(self, ok, name, log=""):
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}", flush=True)
        if not ok and log:
            print("".join(f"# {line}\n" for line in log.splitlines()[-40:]), end="", flush=True)
        return ok

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}", flush=True)

    def end(self):
        print(f"1..{self.count}")
        return 1 if self.failed or not self.count else 0


def run(words, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("DESTDIR", "LD_LIBRARY_PATH", "USDMA_DEVICES")}
    try:
        p = subprocess.run(words, env={**clean, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, errors="replace", timeout=1800, check=False)
        return p.returncode == 0, f"{shlex.join(words)}\n{p.stdout}"
    except subprocess.TimeoutExpired:
        return False, f"{shlex.join(words)}\nstill running after 1800 s"
    except OSError as e:
        return False, str(e)


def option(build, name):
    out = subprocess.run(["meson", "introspect", build, "--buildoptions"], capture_output=True, check=True, text=True).stdout
    return next(o["value"] for o in json.loads(out) if o["name"] == name)


def files_below(top):
    return sorted(os.path.relpath(os.path.join(d, n), top) for d, _, names in os.walk(top) for n in names)


def pkg_config(prefix, lib, *words):
    out = subprocess.run(["pkg-config", *words], capture_output=True, text=True, check=False,
                         env={**os.environ, "PKG_CONFIG_PATH": os.path.join(prefix, lib, "pkgconfig")})
    return shlex.split(out.stdout) if out.returncode == 0 else None


def consume(points, where, name, compiler, source, package, scratch, **env):
    """Compiles a program with the flags of pkg-config, and runs it."""
    prefix, lib = where
    flags = pkg_config(prefix, lib, "--cflags", "--libs", package)
    if not points.add(flags is not None, f"{name}: pkg-config finds {package}"):
        return
    program = os.path.join(scratch, name.replace(" ", "-"))
    done, log = run([*compiler, *WARN, source, "-o", program, *flags])
    if points.add(done, f"{name}: compiles and links", log):
        points.add(*reorder(run([program], **env), f"{name}: runs"))


def reorder(result, name):
    return result[0], name, result[1]


def readme_program(scratch):
    """The first C program of README.md."""
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as f:
        block = re.search(r"^```c\n(.*?)^```", f.read(), re.M | re.S)
    path = os.path.join(scratch, "readme.c")
    with open(path, "w", encoding="utf-8") as f:
        f.write(block.group(1) if block else "#error README.md has no C program\n")
    return path


def cmake(prefix, scratch, find, name):
    """Configures the CMake project with these arguments of find_package; returns (build tree, passed, log)."""
    tree = os.path.join(scratch, name)
    return tree, *run(["cmake", "-S", os.path.join(HERE, "cmake"), "-B", tree, "-DFIND=" + find, "-DCMAKE_PREFIX_PATH=" + prefix])


def cmake_programs(points, prefix, scratch):
    if not shutil.which("cmake"):
        points.skip("CMake project", "cmake is not installed")
        return
    with open(os.path.join(TOP, "VERSION"), encoding="ascii") as f:
        version = f.read().strip()
    for find in ("99", version + ".1", "1000 EXACT", "COMPONENTS nothing", "0.0.1...<" + version):
        done, log = cmake(prefix, scratch, find, "refused-" + re.sub(r"\W", "-", find))[1:]
        points.add(not done and "usdma" in log.partition("CMake Error")[2], f"CMake: find_package(usdma {find}) fails", log)
    tree, done, log = cmake(prefix, scratch, f"{version} COMPONENTS acl hccl", "cmake")
    if not points.add(done and os.path.join(prefix, "lib") in log, "CMake project: configures", log):
        return
    points.add(*reorder(run(["cmake", "--build", tree]), "CMake project: compiles and links"))
    for program in ("consumer-C", "consumer-CXX", "consumer_acl-C", "consumer_acl-CXX"):
        points.add(*reorder(run([os.path.join(tree, program)]), f"CMake project: {program} runs"))
    points.add(*reorder(run([os.path.join(tree, "hccl"), "2", "1"], USDMA_DEVICES="sim:mem=32M,sim:mem=32M"),
                        "CMake project: hccl runs"))


def sanitized_programs(points, where, scratch, **env):
    """The release library in programs that are built with a sanitizer."""
    env |= {"USDMA_CONFIG": "/dev/null", "USDMA_DEVICES": "sim:mem=1G"}
    for compiler in ("gcc", "clang"):
        if not shutil.which(compiler):
            points.skip(f"sanitizers of {compiler}", "it is not installed")
            continue
        for sanitizer in ("address", "thread"):
            for source, package in (("consumer.c", "usdma"), ("consumer_acl.c", "usdma-acl")):
                consume(points, where, f"{package} {compiler} {sanitizer}",
                        [compiler, "-std=c11", "-g", f"-fsanitize={sanitizer}"], os.path.join(HERE, source), package, scratch, **env)


def valgrind_runs():
    """(program, tool, wait mode)"""
    for tool in ("memcheck", "helgrind", "callgrind"):
        for mode in ("hybrid", "poll", "interrupt"):
            yield "consumer_acl", tool, mode
    yield "consumer", "memcheck", "hybrid"


def valgrind_programs(points, where, scratch, **env):
    """Default settings but for the wait mode; helgrind and callgrind only have to run to the end."""
    prefix, lib = where
    env |= {"USDMA_CONFIG": "/dev/null"}
    if not shutil.which("valgrind"):
        points.skip("under valgrind", "it is not installed")
        return
    for name, package in (("consumer", "usdma"), ("consumer_acl", "usdma-acl")):
        build = ["cc", "-g", os.path.join(HERE, name + ".c"), "-o", os.path.join(scratch, name), *pkg_config(prefix, lib, "--cflags", "--libs", package)]
        if not points.add(*reorder(run(build), f"under valgrind: {name} compiles")):
            return
    socket = os.path.join(scratch, "dev0")
    ready, ready_write = os.pipe()
    with subprocess.Popen([os.path.join(prefix, "bin/usdma-sim"), "--socket", socket, "--ready-fd", str(ready_write)], pass_fds=[ready_write],
                          env={**os.environ, **env}) as sim:
        os.close(ready_write)
        os.read(ready, 1)
        os.close(ready)
        for device in ("sim", "vfio-user:" + socket):
            for name, tool, mode in valgrind_runs():
                own = ["--error-exitcode=99"] if tool == "memcheck" else [f"--callgrind-out-file={scratch}/calls"] if tool == "callgrind" else []
                before = os.times()
                result = run(["valgrind", f"--tool={tool}", "--quiet", *own, os.path.join(scratch, name)], USDMA_DEVICES=device, USDMA_WAIT=mode, **env)
                used = os.times().children_user - before.children_user
                points.add(*reorder(result, f"{name} under {tool}, {device.partition(':')[0]}, {mode}"))
                print(f"# {used:.1f} s of CPU", flush=True)
        sim.terminate()


def header_layout(points, where, scratch):
    """Build systems search the text of acl_rt.h; the headers of another HCCL follow ours on the command line."""
    prefix, lib = where
    with open(os.path.join(prefix, "include/usdma/acl/acl_rt.h"), encoding="ascii") as f:
        text = f.read()
    names = ("aclInit", "aclrtMalloc", "aclrtMemRetainAllocationHandle", "aclrtMemExportToShareableHandleV2", "aclrtMemcpyBatch")
    points.add(all(re.search(rf"\b{n}\(", text) for n in names), "acl_rt.h itself has the declarations")
    own = os.path.join(scratch, "own/hccl")
    os.makedirs(own)
    with open(os.path.join(own, "hccl_types.h"), "w", encoding="ascii") as f:
        f.write("typedef void *HcclComm;\n")
    with open(os.path.join(scratch, "own.c"), "w", encoding="ascii") as f:
        f.write("#include <acl/acl.h>\n#include <hccl/hccl_types.h>\nHcclComm c;\naclFormat f = ACL_FORMAT_ND;\n")
    points.add(*reorder(run(["cc", "-fsyntax-only", *pkg_config(prefix, lib, "--cflags", "usdma-acl"), "-I" + os.path.dirname(own),
                             os.path.join(scratch, "own.c")]), "the headers of HCCL are not hidden"))


def linked_library(points, where, scratch):
    """A symbolic link in a folder without other files of usdma."""
    prefix, lib = where
    link = os.path.join(scratch, "links/libascendcl.so")
    os.makedirs(os.path.dirname(link))
    os.symlink(os.path.join(prefix, lib, "usdma/libascendcl.so"), link)
    points.add(*reorder(run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({link!r}).aclInit(None)"]),
                        "libascendcl.so loads through a link"))


def ascend_home(points, where, scratch):
    """The tree that programs for CANN expect, as they use it."""
    prefix = where[0]
    top, program = os.path.join(scratch, "ascend"), os.path.join(scratch, "with-ascend-home")
    if not points.add(*reorder(run([os.path.join(prefix, "bin/usdmactl"), "ascend-home", top]), "usdmactl ascend-home")):
        return
    script = (f'. {top}/set_env.sh && tree=$ASCEND_HOME_PATH/$(uname -m)-linux && '
              f'cc {HERE}/consumer_acl.c -o {program} -I$tree/include -L$tree/lib64 -lascendcl && {program} && npu-smi info')
    points.add(*reorder(run(["sh", "-c", script]), "a program with ASCEND_HOME_PATH"))
    built = os.path.join(scratch, "with-kernels")
    script = (f'. {top}/bin/setenv.bash && cmake -S {HERE}/kernels -B {built} -DHOST_KERNELS={HERE}/kernels/host && cmake --build {built} && '
              f'USDMA_DEVICES=sim {built}/with_kernels && grep -q Version= $ASCEND_HOME_PATH/share/info/runtime/version.info && '
              f'cc {HERE}/consumer_acl.c -o {program} -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 -lacl_rt_impl -lascend_dump -lmsprofiler')
    points.add(*reorder(run(["bash", "-c", script]), "a program with kernels, by ascendc.cmake"))


def use(points, where, scratch):
    prefix, lib = where
    path = {"LD_LIBRARY_PATH": os.path.join(prefix, lib)}  # usdma.pc adds no rpath, usdma-acl.pc does
    consumer, acl = os.path.join(HERE, "consumer.c"), os.path.join(HERE, "consumer_acl.c")
    consume(points, where, "C program", ["cc", "-std=c11"], consumer, "usdma", scratch, **path)
    consume(points, where, "C++ program", ["c++", "-std=c++20", "-xc++"], consumer, "usdma", scratch, **path)
    consume(points, where, "README's program", ["cc"], readme_program(scratch), "usdma", scratch, **path)
    consume(points, where, "ACL program", ["cc", "-std=c11"], acl, "usdma-acl", scratch)
    consume(points, where, "ACL program in C++", ["c++", "-std=c++17", "-xc++"], acl, "usdma-acl", scratch)
    header_layout(points, where, scratch)
    linked_library(points, where, scratch)
    ascend_home(points, where, scratch)
    sanitized_programs(points, where, scratch, **path)
    valgrind_programs(points, where, scratch, **path)
    cmake_programs(points, prefix, scratch)
    for tool in ("usdmactl", "usdma-perf", "usdma-sim"):
        for arg in ("--version", "--help"):
            points.add(*reorder(run([os.path.join(prefix, "bin", tool), arg]), f"{tool} {arg}"))


def main():
    build, points = sys.argv[1], Points()
    prefix, lib = option(build, "prefix"), option(build, "libdir")
    if not points.add(not files_below(prefix), f"{prefix} is empty"):
        return points.end()
    scratch = tempfile.mkdtemp(prefix="usdma-install-")
    try:
        if points.add(*reorder(run(["meson", "install", "-C", build, "--no-rebuild"]), "meson install")):
            for path in EXPECTED:
                points.add(os.path.exists(os.path.join(prefix, path.format(lib=lib))), f"installs {path.format(lib=lib)}")
            use(points, (prefix, lib), scratch)
            installed = files_below(prefix)
            run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", os.path.join(scratch, "dest")])
            staged = files_below(os.path.join(scratch, "dest") + prefix)
            points.add(staged == installed, "DESTDIR gives the same files", f"{set(staged) ^ set(installed)}")
        run(["meson", "install", "-C", build, "--no-rebuild"])  # the log that uninstall reads is of the last install
        points.add(*reorder(run(["ninja", "-C", build, "uninstall"]), "ninja uninstall"))
        points.add(not files_below(prefix), "nothing is left behind", "\n".join(files_below(prefix)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return points.end()


if __name__ == "__main__":
    sys.exit(main())
