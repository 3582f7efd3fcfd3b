#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs small programs with USDMA_CHECK=race: each racy version is reported in each run, no fixed one is.  Prints TAP.

race.py RACE-CASES [USDMACTL]      USDMA_TEST_SCALE times 3 runs of each program, with different timings
"""
import concurrent.futures
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import Points  # noqa: E402

SCRIPT = """import acl

def load(to, host, stream):
    assert acl.rt.memcpy_async(to, 4096, host, 4096, 1, stream) == 0

def use(cache, to, stream):
    assert acl.rt.memcpy_async(to, 4096, cache, 4096, 3, stream) == 0

assert acl.init() == 0 and acl.rt.set_device(0) == 0
streams = [acl.rt.create_stream()[0] for i in range(2)]
host = acl.rt.malloc_host(4096)[0]
cache, other = acl.rt.malloc(4096, 0)[0], acl.rt.malloc(4096, 0)[0]
load(cache, host, streams[0])
use(cache, other, streams[1])
assert acl.rt.synchronize_device() == 0
"""
# Standard error is a full pipe. The script reads it when its calls make no progress any more.
PIPE_SCRIPT = """import os, threading, time
import acl

assert acl.init() == 0 and acl.rt.set_device(0) == 0
streams = [acl.rt.create_stream()[0] for i in range(3)]
host = acl.rt.malloc_host(4096)[0]
cache, other = acl.rt.malloc(4096, 0)[0], acl.rt.malloc(4096, 0)[0]
calls, full, reported = 0, threading.Event(), threading.Event()
source, sink = os.pipe()
standard = os.dup(2)
os.dup2(sink, 2)

def race():
    assert acl.rt.set_device(0) == 0
    assert acl.rt.memcpy_async(cache, 4096, host, 4096, 1, streams[0]) == 0
    assert acl.rt.memcpy_async(other, 4096, cache, 4096, 3, streams[1]) == 0

def call():
    global calls
    while not reported.is_set():
        assert acl.rt.synchronize_stream(streams[2]) == 0
        calls += 1

def read():
    text = b""
    full.wait()
    while b"usdma: race 1: read after write" not in text:
        text = text[-100:] + os.read(source, 65536)
    reported.set()

os.set_blocking(sink, False)
for n in (4096, 1):
    try:
        while True:
            os.write(sink, b"-" * n)
    except BlockingIOError:
        pass
os.set_blocking(sink, True)
threads = [threading.Thread(target=f) for f in (call, race, read)]
for t in threads:
    t.start()
before = -1
while before != calls:
    before = calls
    time.sleep(0.2)
full.set()
assert acl.rt.synchronize_stream(streams[2]) == 0
for t in threads:
    t.join()
os.dup2(standard, 2)
assert acl.rt.synchronize_device() == 0
"""
TIMINGS = ("race", "race,early", "race,shuffle:3")
UNWRITTEN = "read of unwritten memory"
STATUS = 66
KINDS = {"write_after_read": "write after read", "read_before_load": "read after write", "early_record": "read after write",
         "stale_wait": "read after write", "shared_staging": "write after write", "reused_buffer": "read after write",
         "synchronous_copy": "read after write", "wrong_stream": "write after write", "block_reused": "write after read",
         "free_in_flight": "free in use", "source_reused": "source changed", "notify_missed": "read after write", "rows_overlap": "write after write",
         "credits": "read after write", "free_after_abort": "free in use", "cleared_early": "write after read",
         "notify_again": "write after read", "batch_overlap": "overlap in a batch", "cache_unwritten": UNWRITTEN, "store_unordered": "read after write",
         "one_table": "source changed", "staging_two_peers": "write after read", "store_not_waited": "read after write",
         "local_freed": "free in use", "freed_before_event": "free in use", "prefetch_overtakes": "write after read",
         "not_recorded": "write after read", "pages_released": "write after write", "event_ignored": "write after read",
         "wait_elided": "write after read", "non_blocking_source": "source changed", "default_only": "free in use",
         "result_too_early": "read after write", "file_between": "read after write", "file_used_early": "read after write",
         "file_saved_early": "read after write", "file_source_reused": "source changed", "file_synchronous": "write after read",
         "calls_refused": "source changed"}
# Only reported with USDMA_CHECK=guard.
GUARD = {name: "read after write" if name == "guard_load" else "write after read"
         for name in ("guard_store", "guard_load", "guard_shared", "guard_threads", "guard_chained", "guard_fork", "guard_waited")}
CHANGED = "source changed"
# CuSan's cases that are not a read after write; "": there is no racy version.
CUSAN = {"04": "write after write", "31": "write after write", "07": "", "08": "", "09": "", "10": "", "21": "", "22": ""}


def kind_of(name):
    return CUSAN.get(name.split("_")[1], "read after write") if name.startswith("cusan_") else {**KINDS, **GUARD}[name]


DEVICE = "sim:mem=64M:engines=2:channels=16"


def environment(more):
    """The programs race on purpose: only the reports of USDMA_CHECK count, not those of an instrumented library."""
    return {**os.environ, "USDMA_DEVICES": DEVICE, "TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":report_bugs=0", **more}


def run(program, words, check, more=(), stdin=subprocess.DEVNULL):
    """(the process, the reports, the summary)"""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "report")
        env = environment({"USDMA_CHECK": f"{check},report={path}", **dict(more)})
        done = subprocess.run([program, *words], stdin=stdin, capture_output=True, text=True, timeout=60, check=False, env=env)
        lines = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                lines = [json.loads(line) for line in f]
    return done, [line for line in lines if "report" in line], ([line for line in lines if "summary" in line] or [{}])[-1]


def check_setting(name, i):
    """USDMA_CHECK of a round.  guard_load never runs with early: an embedded device would write at once, which unguards the pages."""
    if name == "guard_load":
        return "race,guard"
    return TIMINGS[i % len(TIMINGS)] + (",unwritten" if kind_of(name) == UNWRITTEN or i % 3 == 2 else "") + (",guard" if i % 2 or name in GUARD else "")


def wrong_racy(name, check, done, reports, summary):
    """Text of the failure of a racy program's run; "": success."""
    # With guard the store itself is reported; memset(3) may use two store instructions.
    caught = kind_of(name) == CHANGED and "guard" in check
    kind = "write after read" if caught else kind_of(name)
    if done.returncode != STATUS or not 1 <= len(reports) <= 1 + caught:
        return f"exit status {done.returncode}, {len(reports)} reports"
    if {r["kind"] for r in reports} != {kind} or summary.get("summary") != len(reports):
        return f"{reports[0]['kind']}; {summary}"
    return "" if reports[0]["where"]["block"] and "usdma: race 1:" in done.stderr else "the report has no block, or no text on standard error"


def check_form(program, name, form, rounds):
    """(whether each round has the expected result, the point's name, details of a failure)"""
    for i in range(rounds):
        check = check_setting(name, i)
        done, reports, summary = run(program, (name, form), check)
        wrong = wrong_racy(name, check, done, reports, summary) if form == "racy" else \
            "" if not done.returncode and not reports and summary.get("summary") == 0 else f"exit status {done.returncode}"
        if wrong:
            return False, f"{name}: {form}", f"{check}: {wrong}\n{done.stderr}"
    return True, f"{name}: {form}", ""


def check_cases(to, program, names, rounds):
    forms = [(name, form) for name in names for form in (("racy", "fixed") if kind_of(name) else ("fixed",))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for point in pool.map(lambda one: check_form(program, *one, rounds), forms):
            to.add(*point)


def check_settings(to, program):
    racy = ("read_before_load", "racy")
    to.add(run(program, racy, "race,exit=5")[0].returncode == 5, "the exit status is set")
    to.add(run(program, racy, "race,exit=0")[0].returncode == 0, "the exit status stays the program's")
    with tempfile.NamedTemporaryFile("w", suffix=".supp") as f:
        f.write("# a comment\nread after write\n")
        f.flush()
        done, reports, summary = run(program, racy, f"race,suppressions={f.name}")
    to.add(done.returncode == 0 and not reports and summary.get("suppressed") == 1, "a suppressed report is only counted", done.stderr)
    done, reports, _ = run(program, racy, "late")
    to.add(done.returncode == 0 and not reports and "race 1" not in done.stderr, "nothing is checked without USDMA_CHECK=race", done.stderr)
    done, reports, _ = run(program, ("cache_unwritten", "racy"), "race")
    to.add(done.returncode == 0 and not reports, "reads of unwritten memory are not reported without USDMA_CHECK=unwritten", done.stderr)


def has_library(name):
    try:
        return bool(ctypes.CDLL(name))
    except OSError:
        return False


def check_stacks(to, program):
    """Reports have stacks of both operations and of the allocation, with source lines if libdw is installed."""
    _, reports, _ = run(program, ("read_before_load", "racy"), "race")
    report = reports[0] if reports else {"first": {}, "second": {}, "where": {}}
    stacks = [report[side].get("stack", []) for side in ("first", "second", "where")]
    to.add(all(stacks) and stacks[0][0]["function"] == "aclrtMemcpyAsync", "both operations and the allocation have a stack", f"{stacks}")
    if not has_library("libdw.so.1"):
        return to.skip("stacks have lines of source", "libdw.so.1 is not installed")
    lines = [[f["line"] for f in stack if f["file"].endswith(("race_cases.cpp", "race_program.h")) and f["line"]] for stack in stacks]
    named = [any("race::" in f["function"] for f in stack) for stack in stacks]
    to.add(all(lines) and lines[0] != lines[1] and all(named), "stacks have lines of source", f"{stacks}")
    # Otherwise a file that libdw opens would become the program's standard input.
    _, reports, _ = run("sh", ("-c", 'exec "$0" "$@" <&-', program, "read_before_load", "racy"), "race")
    stack = reports[0]["first"]["stack"] if reports else []
    return to.add(bool(stack) and not any(f["line"] for f in stack), "no lines of source while a standard stream is closed", f"{stack}")


def check_guard(to, program):
    """Reports have the CPU's instruction and its callers; without USDMA_CHECK=guard no page is guarded."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "race_guard.cpp"), encoding="utf-8") as f:
        lines = f.read().split("\n")
    for name, mark in (("guard_store", "/* the store */"), ("guard_load", "/* the load */")):
        done, reports, summary = run(program, (name, "racy"), "race,guard")
        second = reports[0]["second"] if reports else {"stack": [], "call": ""}
        to.add(len(second["stack"]) > 2 and second["call"] == f"a {mark.split()[2]} by the CPU" and summary.get("counts") == [1],
               f"{name}: the CPU's access has a stack", done.stderr)
        if not has_library("libdw.so.1"):
            to.skip(f"{name}: the instruction has a line", "libdw.so.1 is not installed")
            continue
        line = 1 + next(i for i, line in enumerate(lines) if mark in line)
        at = [(s["function"], s["line"]) for s in second["stack"]]
        to.add(at[:1] and at[0][1] == line and any(name in f for f, _ in at[:2]), f"{name}: the instruction has a line", f"{at} {line}")
    pending = [run(program, (name, "racy"), "race,guard")[1][0]["first"]["stream"] for name in ("guard_store", "guard_waited")]
    to.add(pending[0] == pending[1], "a report names the copy that was not waited for", f"{pending}")
    done, reports, _ = run(program, ("guard_load", "racy"), "race")
    to.add(done.returncode == 0 and not reports, "no page is guarded without USDMA_CHECK=guard", done.stderr)
    done, _, summary = run(program, ("guard_threads", "racy"), "race,guard")
    counts, dropped = summary.get("counts", [0]), summary.get("dropped", {})
    to.add(len(counts) == 1 and 16 <= counts[0] + dropped.get("pages", 0) <= 64, "each page is opened by one access", done.stderr)


def check_python(to):
    """Stacks have the lines of a script, without frames of the interpreter."""
    if not importlib.util.find_spec("acl"):
        return to.skip("stacks have lines of Python", "there is no module acl")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
        f.write(SCRIPT)
        f.flush()
        done, reports, _ = run(sys.executable, ("-B", f.name), "race")
        at = {word: SCRIPT.split("\n").index(next(line for line in SCRIPT.split("\n") if word in line and "assert" in line)) + 1
              for word in ("host, 4096", "cache, 4096")}
    first, second = ([(s["function"], s["line"]) for s in reports[0][side]["stack"] if s["file"] == f.name] if reports else [] for side in ("first", "second"))
    return to.add(done.returncode == STATUS and first[:1] == [("load", at["host, 4096"])]
                  and second[:1] == [("use", at["cache, 4096"])] and first[1][0] == "<module>", "stacks have lines of Python", done.stderr)


def check_python_pipe(to):
    """A thread writes a report to a full pipe and holds the check's lock, until another thread of Python reads the pipe."""
    what = "a thread of Python reads the reports"
    if not importlib.util.find_spec("acl"):
        return to.skip(what, "there is no module acl")
    try:
        done, reports, _ = run(sys.executable, ("-B", "-c", PIPE_SCRIPT), "race")
    except subprocess.TimeoutExpired as e:
        return to.add(False, what, str(e))
    return to.add(done.returncode == STATUS and len(reports) == 1, what, done.stderr)


def check_lost(to, program):
    """A lost device accesses nothing any more."""
    for name in ("free_in_flight", "free_after_abort"):
        done, reports, summary = run(program, (name, "lost"), "race", {"USDMA_DEVICES": DEVICE + ":faults=vanish@1"}.items())
        to.add(done.returncode == 0 and not reports and summary.get("summary") == 0 and "lost" in done.stderr, f"{name}: a lost device", done.stderr)


def check_exit(to, program):
    """The process exits although a thread that reads standard input holds its lock."""
    end, other = os.pipe()
    try:
        done = run(program, ("read_before_load", "racy", "reading"), "race", stdin=end)[0]
        to.add(done.returncode == STATUS, "the process exits while a thread reads", done.stderr)
    except subprocess.TimeoutExpired as e:
        to.add(False, "the process exits while a thread reads", str(e))
    os.close(end)
    os.close(other)


def check_tool(to, program, tool):
    env = environment({})

    def run_tool(*words):
        return subprocess.run([tool, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, env=env)
    done = run_tool("--json", "check", "--timing", "early", "--", program, "stale_wait", "racy")
    found = json.loads(done.stdout or "{}")
    to.add(done.returncode == STATUS and len(found["reports"]) == found["count"] == 1 and found["status"] == STATUS, "usdmactl check: racy",
           done.stdout + done.stderr)
    done = run_tool("check", "--", program, "stale_wait", "fixed")
    to.add(done.returncode == 0 and "No race was found." in done.stdout, "usdmactl check: fixed", done.stdout + done.stderr)
    done = run_tool("check", "--unwritten", "--", program, "cache_unwritten", "racy")
    to.add(done.returncode == STATUS and UNWRITTEN in done.stdout, "usdmactl check: unwritten memory", done.stdout + done.stderr)
    done = run_tool("check", "--guard", "--", program, "guard_store", "racy")
    to.add(done.returncode == STATUS and "a store by the CPU" in done.stdout, "usdmactl check: a store to a guarded page", done.stdout + done.stderr)
    with tempfile.TemporaryDirectory() as where:
        saved, left_out = os.path.join(where, "races.json"), os.path.join(where, "left_out.txt")
        with open(left_out, "w", encoding="utf-8") as f:
            f.write("# a comment\nread after write\n")
        done = run_tool("check", "--report", saved, "--", program, "stale_wait", "racy")
        with open(saved, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        to.add(done.returncode == STATUS and [list(line)[0] for line in lines] == ["report", "summary"], "usdmactl check --report leaves the lines", f"{lines}")
        done = run_tool("check", "--suppressions", left_out, "--", program, "stale_wait", "racy")
        to.add(done.returncode == 0 and "1 were suppressed." in done.stdout, "usdmactl check --suppressions", done.stdout + done.stderr)
        for wrong in (("--timing", "bogus"), ("--timing", "late,exit=0"), ("--timing", "race"), ("--report", f"{where}/a,late")):
            done = run_tool("check", *wrong, "--", program, "stale_wait", "racy")
            to.add(done.returncode == 2 and wrong[1] in done.stderr, f"usdmactl check {' '.join(wrong)[:20]} is refused", done.stdout + done.stderr)
    done = run_tool("check", "--", program, "no", "program")
    to.add(done.returncode == 2 and "nothing was checked" in done.stdout, "usdmactl check: the program's own status", done.stdout + done.stderr)
    done = run_tool("check", "--", "/nonexistent/program")
    to.add(done.returncode == 127 and "/nonexistent/program" in done.stderr, "usdmactl check: no program", done.stdout + done.stderr)


def main():
    to, program = Points(), sys.argv[1]
    names = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    cusan = [name for name in names if name.startswith("cusan_")]
    to.add(sorted(set(names) - set(cusan)) == sorted([*KINDS, *GUARD]), "each program has its kind", f"{names}")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/checking.md"), encoding="utf-8") as f:
        page = f.read()
    to.add(all(f"| `{name}` |" in page for name in [*KINDS, *GUARD]) and f"has {len(cusan)} cases of" in page, "docs/checking.md has each program", f"{len(cusan)}")
    check_cases(to, program, names, 3 * int(os.environ.get("USDMA_TEST_SCALE", "1")))
    check_settings(to, program)
    check_stacks(to, program)
    check_guard(to, program)
    check_python(to)
    check_python_pipe(to)
    check_lost(to, program)
    check_exit(to, program)
    for tool in sys.argv[2:]:
        check_tool(to, program, tool)
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
