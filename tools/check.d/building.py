# SPDX-License-Identifier: BSD-3-Clause
"""The jobs of ./tools/check: what they build and run.  `all` runs them in the order in which they stand here."""
import os
import re
import shutil

from check import TOP, default_targets, in_suites, tail
from jobs import job

BUILD = ("build", "test")
# -g1 keeps lines and names for reports.
SANITIZED = ("-Doptimization=1", "-Dcpp_args=-g1", "-Db_lundef=false", "-Dpython=disabled")
CLANG = {"CC": "clang-14", "CXX": "clang++-14"}
GATE = ("style", "docs", "artifacts", "tools", "python", "unit", "integration", "fault")


def gate_tests(run):
    return in_suites(run.dir("gcc"), GATE, without=["slow"])


@job("gate", 10, "g++ with warnings as errors; the suites " + ", ".join(GATE), BUILD + ("reference", "style"))
def gate(run):
    where = run.configure(where=run.dir("gcc"))
    run.build(where=where, targets=default_targets(where))
    run.build(where=where, tests=gate_tests(run), what="build what the tests need")
    run.test(gate_tests(run), where=where)


@job("slow", 5, "the tests that take long by what they promise (suite slow)", BUILD)
def slow(run):
    where = run.configure(where=run.dir("gcc"))
    names = in_suites(where, ["slow"])
    if names:
        run.build(where=where, tests=names)
        run.test(names, where=where)


def sanitized(run, name, sanitizer, suites, without=(), wrapper=()):
    where = run.configure(f"-Db_sanitize={sanitizer}", *SANITIZED, where=run.dir(name))
    names = in_suites(where, suites, without)
    run.build(where=where, tests=names)
    run.test(names, setup=name, where=where, wrapper=wrapper)


@job("asan", 8, "AddressSanitizer, LeakSanitizer and UBSan: the suites unit and integration", BUILD)
def asan(run):
    sanitized(run, "asan", "address,undefined", ["unit", "integration"], without=["slow", "style"])


@job("asan-fault", 5, "the same: the suite fault, and the slow tests", BUILD)
def asan_fault(run):
    sanitized(run, "asan", "address,undefined", ["fault", "slow"])


@job("tsan", 15, "ThreadSanitizer: the suites unit, integration and threads", BUILD)
def tsan(run):
    # g++ 12's run time library handles address layouts of up to 28 random bits.
    with open("/proc/sys/vm/mmap_rnd_bits", encoding="ascii") as f:
        random = int(f.read()) <= 28 or run.command(["setarch", "-R", "true"])[0] != 0
    sanitized(run, "tsan", "thread", ["unit", "integration", "threads"], wrapper=[] if random else ["--wrapper", "setarch -R"])


@job("clang", 6, "clang++ 14 with warnings as errors: libraries and tests; unit tests run", BUILD + ("clang",))
def clang(run):
    where = run.configure("-Dpython=disabled", env=CLANG)
    run.build(where=where, env=CLANG, tests=in_suites(where, ["unit", "integration", "fault", "fuzz"]))
    run.test(in_suites(where, ["unit"]), where=where)


@job("valgrind", 4, "memcheck on the unit tests: no error, no leak", BUILD + ("valgrind",))
def valgrind(run):
    where = run.configure(where=run.dir("gcc"))
    names = in_suites(where, ["memcheck"])
    run.build(where=where, tests=names)
    run.test(names, setup="valgrind", where=where)


@job("install", 4, "release build; meson install into an empty prefix; consumers in C, C++, CMake; uninstall; pip install",
     BUILD + ("install",))
def install(run):
    shutil.rmtree(run.dir("prefix"), ignore_errors=True)
    run.build("--buildtype=release", "-Dtests=disabled", "--prefix", run.dir("prefix"), targets=["all"])
    run.tap("install", [os.path.join(TOP, "tests/install/install.py"), run.dir()], deadline=1800)
    run.tap("pip install", ["/usr/bin/python3", os.path.join(TOP, "tests/install/wheel.py")], deadline=1800)


@job("vm", 8, "kernel VFIO in virtual machines with QEMU's edu device", BUILD + ("vm",))
def vm(run):
    run.build(where=run.dir("gcc"), targets=["all", "guest-programs"])
    run.tap("vm", [os.path.join(TOP, "tests/vm/run"), "--build-dir", run.dir("gcc"), "--cache", run.dir("vm-cache"),
                   "--deadline", "2400"], deadline=3600)


FOREIGN = os.path.join(TOP, "tests/foreign/run")


@job("foreign", 60, "QEMU and kernels of Debian's backports on usdma-sim's device; the first time makes them in ~/.cache (40 minutes)",
     BUILD + ("vm", "foreign"))
def foreign(run):
    run.build(where=run.dir("gcc"), targets=["all", "guest-programs"])
    run.tap("foreign", [FOREIGN, "--build-dir", run.dir("gcc"), "--results", run.dir("foreign.json")], deadline=6 * 3600)


@job("foreign-long", 10, "the same: 8 GiB pinned behind a virtual IOMMU", BUILD + ("vm", "foreign"), in_all=False)
def foreign_long(run):
    run.build(where=run.dir("gcc"), targets=["all", "guest-programs"])
    run.tap("foreign", [FOREIGN, "--build-dir", run.dir("gcc"), "--situation", "8-gib", "--results", run.dir("foreign-long.json")],
            deadline=7200)


@job("follow", 8, "README and docs/ followed word by word: build, install, own program, a bound device in a virtual machine",
     BUILD + ("install", "package", "vm"))
def follow(run):
    run.tap("docs", [os.path.join(TOP, "tests/docs/follow.py")], deadline=3600)


FUZZ = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


@job("fuzz", 5, "the corpora replayed; libFuzzer over each target for a while (--fuzz-seconds in all); a finding fails", BUILD + ("clang",))
def fuzz(run):
    where = run.configure(where=run.dir("gcc"))
    names = in_suites(where, ["fuzz"])
    run.build(where=where, tests=names, what="build the replays")
    run.test(names, where=where)
    run.build("-Dfuzz=true", "-Db_sanitize=address,undefined", *SANITIZED, env=CLANG, targets=["fuzzers"])
    top = os.path.join(TOP, "tests/fuzz/corpus")
    targets = sorted(os.listdir(top))
    for name in targets:
        search(run, name, os.path.join(top, name), max(1, run.options.fuzz_seconds // len(targets)))


def search(run, name, corpus, seconds):
    """New inputs stay beside the tree for the next run; an input that fails is kept as fuzz-NAME-*."""
    found = run.dir(f"fuzz-corpus/{name}")
    os.makedirs(found, exist_ok=True)
    status, out = run.command([run.dir() + f"/tests/fuzz/fuzz-{name}", f"-max_total_time={seconds}", "-print_final_stats=1",
                               "-timeout=30", "-rss_limit_mb=4000", f"-artifact_prefix={run.dir()}/fuzz-{name}-", found, corpus],
                              deadline=seconds * 3 + 300, env=FUZZ)
    count = re.search(r"number_of_executed_units: *([0-9]+)", out)
    covered = re.findall(r"cov: ([0-9]+) ft: ([0-9]+)", out)
    executions = int(count.group(1)) if count else 0
    edges, features = covered[-1] if covered else (0, 0)
    run.say(f"{name}: {executions} executions, {edges} edges, {features} features")
    run.results.add(status == 0 and executions > 0, f"fuzz {name}", tail(out))


@job("packages", 15, "Debian packages in a clean root: build, lintian, install, use, purge; then in a system that boots",
     BUILD + ("package", "vm"))
def packages(run):
    run.tap("packages", [os.path.join(TOP, "tests/install/packages"), "--work", run.dir("packages"),
                         "--jobs", str(run.jobs)], deadline=3600)
    run.tap("booted", [os.path.join(TOP, "tests/install/booted"), "--work", run.dir("packages"), "--cache", run.dir("vm-cache"),
                       "--debs", run.dir("packages/deb")], deadline=1800)


@job("bench", 10, "the budget table; prints, never fails by time", BUILD, in_all=False)
def bench(run):
    run.build("--buildtype=release", "-Dpython=disabled", targets=["all", "benchmarks"])
    print(run.must("budget table", [os.path.join(TOP, "tests/bench/run"), run.dir()], deadline=1800), flush=True)


@job("soak", 10, "loads in turn with fresh seeds for --soak-minutes; a wrong byte, or memory or a descriptor more at a turn's end, fails",
     BUILD, in_all=False)
def soak(run):
    run.build(where=run.dir("gcc"), tests=["scale", "random-faults", "acl-model-embedded"])
    minutes = run.options.soak_minutes
    run.tap("soak", [os.path.join(TOP, "tests/fault/soak.py"), run.dir("gcc"), "--minutes", str(minutes)], deadline=minutes * 60 + 3600)
