# SPDX-License-Identifier: BSD-3-Clause
"""The jobs of ./tools/check.  `all` runs them in this order."""
import os
import re
import shutil

from check import QUICK, TOP, files_of, in_suites, job, progress, read_json, select, tail

BUILD, CLANG = ("build", "test"), {"CC": "clang", "CXX": "clang++"}
SANITIZED = (*QUICK, "-Db_lundef=false", "-Dpython=disabled")
GATE = ("style", "docs", "artifacts", "tools", "python", "unit", "integration", "fault")


@job("gate", 10, "g++ with warnings as errors; the suites " + ", ".join(GATE), BUILD + ("reference", "style"))
def gate(run):
    run.build(where=run.dir("gcc"))
    suites(run, GATE, without=["slow"])


def suites(run, names, *options, tree="gcc", setup=None, without=(), wrapper=(), what="build what the tests need"):
    where = run.configure(*options, where=run.dir(tree))
    tests = select(where, run.options.tests) if run.options.tests else in_suites(where, names, without)
    assert tests, names  # meson would run all tests
    run.build(where=where, tests=tests, what=what)
    run.test(tests, setup=setup, where=where, wrapper=wrapper)
    return where


def sanitized(run, name, sanitizer, names, **more):
    suites(run, names, f"-Db_sanitize={sanitizer}", *SANITIZED, tree=name, setup=name, **more)


job("slow", 5, "long-running tests (suite slow)", BUILD)(lambda run: suites(run, ["slow"]))
job("asan", 10, "AddressSanitizer, LeakSanitizer and UBSan: the suites unit and integration-embedded", BUILD, takes_tests=True)(
    lambda run: sanitized(run, "asan", "address,undefined", ["unit", "integration-embedded"], without=["slow", "style"]))
job("asan-rest", 20, "the same: the other tests of integration, the suite fault, the slow tests", BUILD, takes_tests=True)(
    lambda run: sanitized(run, "asan", "address,undefined", ["integration", "fault", "slow"], without=["integration-embedded", "style"]))
job("valgrind", 4, "memcheck on the unit tests: no error, no leak", BUILD + ("valgrind",), takes_tests=True)(
    lambda run: suites(run, ["memcheck"], setup="valgrind"))


@job("tsan", 15, "ThreadSanitizer: the suites unit, integration and threads", BUILD, takes_tests=True)
def tsan(run):
    # g++ 12's run time library handles address layouts of up to 28 random bits.
    random = read_json("/proc/sys/vm/mmap_rnd_bits") <= 28 or run.command(["setarch", "-R", "true"])[0] != 0
    sanitized(run, "tsan", "thread", ["unit", "integration", "threads"], without=["slow"], wrapper=[] if random else ["--wrapper", "setarch -R"])


@job("clang", 6, "clang++ with warnings as errors: libraries, tests, benchmarks; unit tests run", BUILD + ("clang",))
def clang(run):
    where = run.configure("-Dpython=disabled", env=CLANG)
    run.build(where=where, env=CLANG, tests=in_suites(where, ["unit", "integration", "fault", "fuzz"]))
    run.build(where=where, env=CLANG, what="build of the benchmarks", targets=["benchmarks"])
    run.test(in_suites(where, ["unit"]), where=where)


@job("install", 4, "release build; meson install into an empty prefix; consumers in C, C++, CMake; uninstall; pip install",
     BUILD + ("install",))
def install(run):
    shutil.rmtree(run.dir("prefix"), ignore_errors=True)
    run.build("--buildtype=release", "-Dtests=disabled", "--prefix", run.dir("prefix"), targets=["all"])
    run.tap("install", [os.path.join(TOP, "tests/install/install.py"), run.dir()], deadline=1800)
    run.tap("pip install", ["/usr/bin/python3", os.path.join(TOP, "tests/install/wheel.py")], deadline=1800)


def guests(run, what, *words, deadline):
    run.build(where=run.dir("gcc"), targets=["all", "guest-programs"])
    run.tap(what, [os.path.join(TOP, "tests", what, "run"), "--build-dir", run.dir("gcc"), *words], deadline=deadline)


job("vm", 8, "kernel VFIO in virtual machines with QEMU's edu device", BUILD + ("vm",))(
    lambda run: guests(run, "vm", "--cache", run.dir("vm-cache"), "--deadline", "2400", deadline=3600))
job("foreign", 60, "QEMU and kernels of Debian's backports on usdma-sim's device; the first run builds them in ~/.cache (40 minutes)",
    BUILD + ("vm", "foreign"))(lambda run: guests(run, "foreign", "--results", run.dir("foreign.json"), deadline=6 * 3600))
job("foreign-long", 10, "the same: 8 GiB pinned behind a virtual IOMMU", BUILD + ("vm", "foreign"), in_all=False)(
    lambda run: guests(run, "foreign", "--situation", "8-gib", "--results", run.dir("foreign-long.json"), deadline=7200))
job("random-long", 60, "100,000 random operations with failures in virtual machines: on QEMU's edu and on the model of Intel I/OAT",
    BUILD + ("vm", "foreign"), in_all=False)(lambda run: (
        guests(run, "vm", "--cache", run.dir("vm-cache"), "--situation", "kernel-vfio", "--program", "completions", "--long", "--deadline", "14400", deadline=14400),
        guests(run, "foreign", "--situation", "ioat-ours", "--program", "completions", "--long", deadline=14400)))
for engine, minutes, about in (("ioat", 40, "drivers of others on the model of Intel I/OAT: Linux's, dmatest, md, DPDK; and ours by kernel VFIO"),
                               ("dsa", 10, "the driver of the kernel's VFIO tests on the model of Intel DSA"),
                               ("hisi", 20, "Linux's driver with dmatest on the models of HiSilicon's engine; and ours by kernel VFIO"),
                               ("arm64", 60, "machines of arm64, emulated: ours by kernel VFIO, QEMU's edu behind an SMMUv3; builds for arm64")):
    job("foreign-" + engine, minutes, about, BUILD + ("vm", "foreign") + ("arm64",) * (engine == "arm64"), in_all=engine != "arm64")(lambda run, engine=engine: guests(
        run, "foreign", "--engine", engine, "--results", run.dir(f"foreign-{engine}.json"), deadline=6 * 3600))
job("debian13", 60, "a fresh Debian 13: the gate, quickstart, clang++, packages; downloads 500 MB once", ("package", "style"))(lambda run: run.tap(
    "debian13", [os.path.join(TOP, "tests/install/debian13"), "--jobs", str(run.jobs), "--results", run.dir("debian13.json")], deadline=6 * 3600))
job("arm64", 90, "for arm64: a cross build without a warning, its tests by qemu-user; Debian packages", BUILD + ("arm64", "package"), in_all=False)(lambda run: (
    run.tap("arm64", [os.path.join(TOP, "tests/arm64/run"), "--build-dir", run.dir("arm64"), "--jobs", str(run.jobs)], deadline=6 * 3600),
    run.tap("packages", [os.path.join(TOP, "tests/install/packages"), "--arm64", "--work", run.dir("packages"), "--jobs", str(run.jobs)], deadline=3 * 3600)))


@job("foreign-dpdk", 8, "DPDK's own drivers of I/OAT, DSA and HiSilicon: its dmadev_autotest on the models; the first run downloads 26 MB of packages", BUILD)
def foreign_dpdk(run):
    run.build(where=run.dir("gcc"), targets=[f"tests/foreign/libdpdk-{engine}.so" for engine in ("ioat", "dsa", "hisi")])
    run.tap("foreign-dpdk", [os.path.join(TOP, "tests/foreign/dpdk"), "--build-dir", run.dir("gcc"), "--results", run.dir("foreign-dpdk.json")], deadline=2 * 3600)


job("follow", 8, "runs the commands of README and docs/: build, install, own program, a bound device in a virtual machine",
    BUILD + ("install", "package", "vm"))(lambda run: run.tap("docs", [os.path.join(TOP, "tests/docs/follow.py")], deadline=2 * 3600))


@job("fuzz", 5, "replays the corpora; runs libFuzzer on each target (--fuzz-seconds in all); a finding fails", BUILD + ("clang",))
def fuzz(run):
    suites(run, ["fuzz"], what="build the replays")
    run.build("-Dfuzz=true", "-Db_sanitize=address,undefined", *SANITIZED, env=CLANG, targets=["fuzzers"])
    run.tap("search", ["python3", "-B", os.path.join(TOP, "tests/fuzz/search.py"), run.dir(), run.dir("fuzz-corpus"), "--seconds", str(run.options.fuzz_seconds)],
            deadline=run.options.fuzz_seconds * 3 + 3600, line=lambda text: text.startswith("# ") and run.say(text[2:].strip()))


@job("packages", 15, "Debian packages in a clean root: build, lintian, install, use, purge; then in a booted system", BUILD + ("package", "vm"))
def packages(run):
    run.tap("packages", [os.path.join(TOP, "tests/install/packages"), "--work", run.dir("packages"), "--jobs", str(run.jobs)], deadline=3 * 3600)
    run.tap("booted", [os.path.join(TOP, "tests/install/booted"), "--work", run.dir("packages"), "--cache", run.dir("vm-cache"), "--debs",
                       run.dir("packages/deb")], deadline=1800)


@job("bench", 15, "prints the budget table and that of files; never fails because of time", BUILD + ("bench",), in_all=False)
def bench(run):
    run.build("--buildtype=release", "-Dpython=disabled", targets=["all", "benchmarks"])
    for script in ("run", "files"):
        print(run.must(f"tests/bench/{script}", [os.path.join(TOP, "tests/bench", script), run.dir()], deadline=1800), flush=True)


@job("mutants", 90, "how many seeded defects the tests catch (tests/mutants); a survivor that the file survivors lacks fails", BUILD, in_all=False)
def mutants(run):
    print(run.must("tests/mutants/run", [os.path.join(TOP, "tests/mutants/run"), "--work", run.dir(), "--jobs", str(run.jobs)], deadline=6 * 3600,
                   line=progress(r"\S+ +(caught|SURVIVED)", run)), flush=True)


@job("soak", 10, "loads in turn with new seeds for --soak-minutes; wrong data or a leak of memory or descriptors fails",
     BUILD, in_all=False)
def soak(run):
    run.build(where=run.dir("gcc"), tests=["random-faults", "acl-model-embedded"])
    run.tap("soak", [os.path.join(TOP, "tests/fault/soak.py"), run.dir("gcc"), "--minutes", str(run.options.soak_minutes)],
            deadline=run.options.soak_minutes * 60 + 3600)


CPPCHECK = ["cppcheck", "--std=c++20", "--language=c++", "--enable=warning,performance,portability", "--inline-suppr", "--quiet",
            "--library=posix", "--suppressions-list=tests/style/cppcheck.supp", "-I.", "-Iinclude", "-D__linux__", "-D__x86_64__",
            '-DUSDMA_VERSION_TEXT="0"', "--template={file}:{line}: {severity}: {message} [{id}]", "--error-exitcode=1"]
job("cppcheck", 2, "cppcheck: driver, lib, tools; each suppression has a reason", ("python", "cppcheck"))(
    lambda run: run.each("cppcheck", [(folder, [*CPPCHECK, "-j", str(run.jobs), folder]) for folder in ("driver", "lib", "tools")]))


def one_by_one(run):
    """A build tree that compiles each source separately, also those of the tools, with the files that they include."""
    where = run.configure("-Dbuildtype=release", "-Db_pch=false", where=run.dir("commands"))
    generated = files_of(where, lambda t: t["type"] == "custom" and t["filename"][0].endswith((".h", ".inc")))
    return run.build(where=where, targets=generated, what="generate what sources include")


@job("headers", 2, "each private header compiles alone; public ones also by clang", BUILD + ("clang",))
def headers(run):
    where = one_by_one(run)
    run.tap("public headers by clang", ["python3", "-B", os.path.join(TOP, "tests/install/headers.py"), os.path.join(TOP, "include"), CLANG["CC"], CLANG["CXX"]])
    includes = sorted({w for e in read_json(where, "compile_commands.json") for w in re.findall(r"-isystem ?\S+|-I(?=/)\S+", e["command"])})
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-interference-size", "-Wno-missing-field-initializers",
             *(w for i in includes for w in i.split()), f"-I{TOP}", f"-I{TOP}/include", f"-I{TOP}/include/hccl"]
    run.each("private header", [
        (h, ["g++", "-std=c++20", "-D_GNU_SOURCE", '-DUSDMA_VERSION_TEXT="0"', *flags, "-xc++", "-include", h, "/dev/null"])
        for h in run.must("list of headers", ["git", "ls-files", "driver/*.h", "lib/*.h", "tools/*.h"]).split()])


job("tidy", 40, "clang-tidy 14 with .clang-tidy: driver, lib, tools, tests; any finding fails; reads only what changed since it passed",
    BUILD + ("tidy", "clang"))(lambda run: run.tap(
        "tidy", ["python3", "-B", os.path.join(TOP, "tests/style/tidy.py"), one_by_one(run), "--jobs", str(run.jobs)],
        deadline=4 * 3600, line=progress(r"# (\d+) of (\d+)", run)))


@job("coverage", 15, "line and branch coverage of driver and lib by the suites unit, integration and fault", BUILD + ("coverage",))
def coverage(run):
    where = suites(run, ["unit", "integration", "fault"], "-Db_coverage=true", "-Doptimization=0", "-Ddebug=false", "-Dcpp_args=-g1", "-Dpython=disabled", tree="coverage")
    said = run.must("gcovr", ["gcovr", "--root", TOP, "--object-directory", where, "-j", str(run.jobs), "--exclude-throw-branches",
                              "--exclude-unreachable-branches", *(f"--filter={TOP}/{d}/" for d in ("driver", "lib")),
                              "--print-summary", "--html-details", os.path.join(where, "coverage.html"), where])
    summary = re.findall(r"^(?:lines|branches): .*$", said, re.M)
    run.results.add(len(summary) == 2, "summary of the coverage", tail(said))
    run.say(f"{'; '.join(summary)} (pages: {where}/coverage.html)")
