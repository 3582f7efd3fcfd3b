# SPDX-License-Identifier: BSD-3-Clause
"""The checks of ./tools/check that build and run.  A new one is a function here; when it runs, ORDER of check.py says."""
import os
import re
import shutil

from check import TOP, check, tail

BUILD = ("build", "test")
# -g1: lines and names for reports; the rest of what a debugger knows takes a tenth of the time.
SANITIZED = ("-Doptimization=1", "-Dcpp_args=-g1", "-Db_lundef=false", "-Dpython=disabled")
CLANG = {"CC": "clang-14", "CXX": "clang++-14"}


@check("gcc", "g++, debugoptimized, warnings as errors; every test", BUILD + ("reference",))
def gcc(run):
    run.build()
    run.test(without=["vm", "bench"])


# Front ends take half the time of a build, and clang-tidy has them read by clang, too.
@check("clang", "clang++ 14, warnings as errors: libraries and unit tests; headers by clang", BUILD + ("clang",))
def clang(run):
    run.build("-Dpython=disabled", env=CLANG, suites=["unit", "integration", "fuzz"])
    run.test(env=CLANG, suites=["unit"])


@check("asan", "AddressSanitizer, LeakSanitizer and UBSan; unit, integration and fault tests", BUILD)
def asan(run):
    suites = ["unit", "integration", "fault"]
    run.build("-Db_sanitize=address,undefined", *SANITIZED, suites=suites)
    run.test(suites=suites, patience=4, env={
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:check_initialization_order=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"})


@check("tsan", "ThreadSanitizer; unit and integration tests, hostile servers and clients", BUILD)
def tsan(run):
    suites = ["unit", "integration", "threads"]
    run.build("-Db_sanitize=thread", *SANITIZED, suites=suites)
    # g++ 12's run time knows address layouts of up to 28 random bits: beyond, it runs without randomisation.
    run.test(*without_randomisation(run), suites=suites, patience=6,
             env={"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"})


def without_randomisation(run):
    try:
        with open("/proc/sys/vm/mmap_rnd_bits", encoding="ascii") as f:
            bits = int(f.read())
    except OSError:
        return []
    return ["--wrapper", "setarch -R"] if bits > 28 and run.command(["setarch", "-R", "true"])[0] == 0 else []


@check("install", "release build; meson install into an empty prefix; consumers in C, C++, CMake; uninstall; pip install",
      BUILD + ("install",))
def install(run):
    shutil.rmtree(run.dir("prefix"), ignore_errors=True)
    run.build("--buildtype=release", "-Dtests=disabled", "--prefix", run.dir("prefix"))
    run.tap("install", [os.path.join(TOP, "tests/install/install.py"), run.dir()], deadline=600)
    run.tap("pip install", ["/usr/bin/python3", os.path.join(TOP, "tests/install/wheel.py")], deadline=600)


@check("vm", "kernel VFIO in virtual machines with QEMU's edu device", BUILD + ("vm",))
def vm(run):
    run.build(where=run.dir("gcc"))
    run.tap("vm", [os.path.join(TOP, "tests/vm/run"), "--build-dir", run.dir("gcc"), "--cache", run.dir("vm-cache"),
                   "--deadline", "700"],
            deadline=1200)


FOREIGN = os.path.join(TOP, "tests/foreign/run")


@check("foreign", "QEMU and kernels of Debian's backports, and a kernel with all of VFIO, on usdma-sim's device; made once in ~/.cache",
      BUILD + ("vm", "foreign"))
def foreign(run):
    words = [FOREIGN, "--build-dir", run.dir("gcc")]
    if not run.until:
        run.build(where=run.dir("gcc"))
        run.tap("foreign", [*words, "--results", run.dir("foreign.json")], deadline=4 * 3600)  # the first time it makes all that it needs
        return
    # A check of so many minutes makes no root and no kernel, and boots the machines that find most.
    status, said = run.command([FOREIGN, "--ready"])
    if status:
        run.results.skip("foreign machines", tail(said).strip())
        return
    run.build(where=run.dir("gcc"))
    run.tap("foreign", [*words, "--first"], deadline=900)


@check("foreign-long", "the same: 8 GiB pinned behind a virtual IOMMU", BUILD + ("vm", "foreign"), default=False)
def foreign_long(run):
    run.build(where=run.dir("gcc"))
    run.tap("foreign", [FOREIGN, "--build-dir", run.dir("gcc"), "--situation", "8-gib", "--results", run.dir("foreign-long.json")], deadline=7200)


@check("docs", "README and docs/ followed word by word: build, install, own program, a bound device in a virtual machine",
      BUILD + ("install", "package", "vm"))
def docs(run):
    run.tap("promises of the headers", ["python3", "-B", os.path.join(TOP, "tests/docs/promises.py")])
    run.tap("docs", [os.path.join(TOP, "tests/docs/follow.py")], deadline=1800)


@check("bench", "the budget table; prints, never fails by time", BUILD, default=False)
def bench(run):
    run.build("--buildtype=release", "-Dpython=disabled")
    print(run.must("budget table", [os.path.join(TOP, "tests/bench/run"), run.dir()], deadline=900), flush=True)


FUZZ = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


@check("fuzz", "libFuzzer over each target for a while (--fuzz-seconds in all); a finding fails", BUILD + ("clang",))
def fuzz(run):
    run.build("-Dfuzz=true", "-Db_sanitize=address,undefined", *SANITIZED, env=CLANG, targets=["fuzzers"])
    top = os.path.join(TOP, "tests/fuzz/corpus")
    targets = sorted(os.listdir(top))
    for name in targets:
        search(run, name, os.path.join(top, name), max(1, run.fuzz_seconds // len(targets)))


def search(run, name, corpus, seconds):
    """New inputs stay beside the tree for the next run; what fails an input is kept as fuzz-NAME-*."""
    found = run.dir(f"fuzz-corpus/{name}")
    os.makedirs(found, exist_ok=True)
    status, out = run.command([run.dir() + f"/tests/fuzz/fuzz-{name}", f"-max_total_time={seconds}", "-print_final_stats=1",
                               "-timeout=30", "-rss_limit_mb=4000", f"-artifact_prefix={run.dir()}/fuzz-{name}-", found, corpus],
                              deadline=seconds * 3 + 120, env=FUZZ)
    count = re.search(r"number_of_executed_units: *([0-9]+)", out)
    covered = re.findall(r"cov: ([0-9]+) ft: ([0-9]+)", out)
    executions = int(count.group(1)) if count else 0
    edges, features = covered[-1] if covered else (0, 0)
    run.say(f"{name}: {executions} executions, {edges} edges, {features} features")
    run.results.add(status == 0 and executions > 0, f"fuzz {name}", tail(out))


# Not by default: it fetches a whole Debian into a clean root, which takes minutes and the mirror.
@check("packages", "Debian packages in a clean root: build, lintian, install, use, purge; then in a system that boots",
      BUILD + ("package", "vm"), default=False)
def packages(run):
    run.tap("packages", [os.path.join(TOP, "tests/install/packages"), "--work", run.dir("packages"),
                         "--jobs", str(run.jobs)], deadline=1500)
    run.tap("booted", [os.path.join(TOP, "tests/install/booted"), "--work", run.dir("packages"), "--cache", run.dir("vm-cache"),
                       "--debs", run.dir("packages/deb")], deadline=900)
