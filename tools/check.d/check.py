# SPDX-License-Identifier: BSD-3-Clause
"""The table of jobs, the state of their last runs, and one run: commands, a build tree, meson tests and their TAP points."""
import contextlib
import fnmatch
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE = 3  # factor for the timeouts of tests, because the machine may be busy
# -g1: line numbers and function names in reports. -O2 -g takes half as long again to compile; gold links in half of ld's time.
QUICK = ("-Doptimization=1", "-Dcpp_args=-g1", *(["-Dcpp_link_args=-fuse-ld=gold"] if shutil.which("ld.gold") else []))

POINT = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")
BAIL = re.compile(r"Bail out!\s*(.*)")
SKIP_PLAN = re.compile(r"^1\.\.0\s*#\s*skip\S*\s*(.*)$", re.I)
BAD = ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS")
DIRECTIVE = re.compile(r"^(.*?)\s*#\s*(skip|todo)\S*\s*(.*)$", re.I)


class Results:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []  # a count; names with logs; names with reasons

    def add(self, ok, name, log=""):
        self.passed += bool(ok)
        self.failed += [] if ok else [(name, log)]

    def skip(self, name, why):
        self.skipped.append((name, why or "no reason given"))

    def counts(self):
        return self.passed, len(self.failed), len(self.skipped)

    def add_tap(self, test, text, status=0, log=""):
        """Adds each TAP point of a test program; other failures of the program become a failed point."""
        failed, found = len(self.failed), [(SKIP_PLAN.match(line), POINT.match(line)) for line in text.splitlines()]
        for plan, point in found:
            if plan:
                self.skip(test, plan.group(1))
            elif point:
                self._add_point(test, point, log)
        bail = BAIL.search(text)
        if bail or (status and len(self.failed) == failed):
            self.add(False, f"{test}: ended badly (status {status})" + (f": {bail.group(1)}" if bail else ""), log)
        elif not any(plan or point for plan, point in found):
            self.add(False, f"{test}: reported nothing", log)

    def _add_point(self, test, point, log):
        name, directive = point.group(2), DIRECTIVE.match(point.group(2))
        if directive:
            name, why = directive.group(1) or directive.group(3), directive.group(3)
            if not directive.group(1):  # cmocka's form; the reason is in the log
                said = [line for line in log.splitlines() if "skip" in line.lower() and not POINT.match(line)]
                why = said[0].strip("# ") if said else "this environment cannot run it"
            self.skip(f"{test}: {name}", why)
        else:
            self.add(not point.group(1), f"{test}: {name}", log)

    def add_meson(self, path, status, log):
        """Adds each test of a meson run; tests with TAP output by their points."""
        entries, failed = [], len(self.failed)
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                entries = [json.loads(line) for line in f]
        for t in entries:
            self.add_test(t)
        if not entries:
            self.add(False, "meson test ran nothing", log)
        elif status and len(self.failed) == failed:
            self.add(False, f"meson test ended with status {status}", log)

    def add_test(self, t):
        out, name, verdict = t.get("stdout") or "", t["name"], t["result"]
        log = f"{out}\n{t.get('stderr') or ''}".strip()
        if re.search(r"^(1\.\.\d|(not )?ok\b|Bail out!)", out, re.M):
            bad = verdict in BAD
            self.add_tap(name, out, (t.get("returncode") or 1) if bad else 0, f"{verdict}\n{log}" if bad else log)
            return
        if verdict == "SKIP":
            self.skip(name, log.splitlines()[-1] if log else "")
        else:
            self.add(verdict in ("OK", "EXPECTEDFAIL"), name, f"{verdict}\n{log}")


class Stop(Exception):
    """Stops the job; the reason was added as a failed point."""


def tail(text, lines=80):
    """The last lines of a log, without ninja's progress."""
    return "\n".join([line for line in text.splitlines() if not re.match(r"\[\d+/\d+\] ", line)][-lines:])


def kill_group(process):
    for number in (signal.SIGTERM, signal.SIGKILL):  # the first: meson stops its tests, which have sessions of their own
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(10)


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


class Run:
    def __init__(self, name, options):
        self.name, self.options, self.jobs = name, options, options.jobs
        self.results, self.started, self.parts = Results(), time.monotonic(), []  # parts: (what, seconds), for the table

    def say(self, text):
        print(f"[{self.name}] {text}", flush=True)

    def dir(self, name=None):
        return os.path.join(self.options.build_root, name or self.name)

    def command(self, words, deadline=3600, env=None, cwd=TOP, line=None):
        """(status, output). The process group is killed at the deadline. line(text) is called for each line of output."""
        out = []
        with subprocess.Popen(words, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", start_new_session=True) as p:
            timer = threading.Timer(deadline, lambda: (out.append(f"\nkilled after {deadline} s\n"), kill_group(p)))
            timer.start()
            try:
                for text in p.stdout:
                    out.append(text)
                    if line:
                        line(text)
                p.wait()
            finally:
                timer.cancel()
                kill_group(p)
        return p.returncode, "".join(out)

    def timed(self, what, words, **more):
        began = time.monotonic()
        self.say(what)
        said = self.command(words, **more)
        self.parts.append((what, time.monotonic() - began))
        return said

    def must(self, what, words, **more):
        """Runs a step and adds it as a point; stops the job if it fails."""
        status, out = self.timed(what, words, **more)
        self.results.add(status == 0, what, f"{' '.join(words)[:400]}\n{tail(out)}")
        if status:
            raise Stop
        return out

    def configure(self, *options, env=None, where=None):
        where = where or self.dir()
        if os.path.exists(os.path.join(where, "build.ninja")):
            self.must("reconfigure", ["ninja", "-C", where, "build.ninja"], env=env)
        else:
            shutil.rmtree(where, ignore_errors=True)
            self.must("configure", ["meson", "setup", where, TOP, "-Dwerror=true", "-Dtests=enabled", "-Dtools=enabled", *(options or QUICK)], env=env)
        return where

    def build(self, *options, env=None, what="build without a warning", where=None, targets=(), tests=()):
        """Compiles the given targets, or those of the tests, or those built by default (ninja's "all" includes the tests)."""
        where = self.configure(*options, env=env, where=where)
        ids = {d for t in tests_of(where) if t["name"] in tests for d in t["depends"]}
        # The tests load these libraries by name.
        loaded = ("usdma-sim", "usdma-check")
        targets = targets or files_of(where, lambda t: t["id"] in ids or (t["name"] in loaded and t["type"] == "shared library") if tests
                                      else t["build_by_default"])
        self.must(what, ["ninja", "-k", "20", "-C", where, "-j", str(self.jobs), *targets], line=progress(r"\[(\d+)/(\d+)\]", self),
                  env={"CCACHE_SLOPPINESS": "pch_defines,time_macros", "CCACHE_BASEDIR": TOP, "CCACHE_NOHASHDIR": "1", **(env or {})})
        return where

    def test(self, names, where, setup=None, wrapper=(), repeat=1):
        """Runs these tests by meson test; each TAP point counts. Tests wait as well as compute: half as many more at a time than jobs."""
        log = os.path.join(where, "meson-logs", f"testlog{'-' + setup if setup else ''}.json")
        if os.path.exists(log):
            os.unlink(log)
        status, out = self.timed(
            f"{len(names)} tests" + (f", {repeat} times" if repeat > 1 else ""),
            ["meson", "test", "-C", where, "--no-rebuild", "--num-processes", str(self.jobs + self.jobs // 2), "--repeat", str(repeat),
             *(["--setup", setup] if setup else ["--timeout-multiplier", str(PATIENCE)]), *wrapper, *names],
            deadline=4 * 3600, line=progress(r"\s*(\d+)/(\d+) ", self),
            env={"USDMA_TEST_PATIENCE": str(PATIENCE), **({"USDMA_TEST_CASE": self.options.case} if self.options.case else {})})
        self.results.add_meson(log, status, tail(out))

    def each(self, what, cases, **more):
        """Runs commands in parallel, each one a point; an empty list is a failure."""
        self.say(f"{what}: {len(cases)}")
        if not cases:
            self.results.add(False, f"{what}: nothing to check")
        show = progress(r"(\d+) of (\d+)", self)
        with ThreadPoolExecutor(self.jobs) as pool:
            running = [(name, pool.submit(self.command, words, **more)) for name, words in cases]
            for n, (name, done) in enumerate(running):
                status, out = done.result()
                self.results.add(status == 0, f"{what}: {name}", tail(out))
                show(f"{n + 1} of {len(cases)}")

    def tap(self, what, words, **more):
        """Runs a program that prints TAP."""
        status, out = self.timed(what, words, **{"line": progress(r"(not )?ok\b.{0,80}", self), **more})
        self.results.add_tap(what, out, status, tail(out))


def progress(pattern, run):
    """Prints a command's progress, lines of its output: on a terminal each step, else each minute."""
    due = [time.monotonic() + 60]

    def show(line):
        at = re.match(pattern, line)
        if at and sys.stdout.isatty():
            print(f"\r\033[K[{run.name}] {at[0].strip()}", end="\n" if at.lastindex == 2 and at[1] == at[2] else "", flush=True)
        elif at and time.monotonic() >= due[0]:
            run.say(at[0].strip())
            due[0] += 60
    return show


def tests_of(where):
    """meson's list of tests: name, suites without the project's name, command, dependencies."""
    return [{**t, "suite": {s.removeprefix("usdma:") for s in t["suite"]}} for t in read_json(where, "meson-info/intro-tests.json")]


def files_of(where, wanted):
    """The files of the selected targets, by ninja's names."""
    return [os.path.relpath(f, where) for t in read_json(where, "meson-info/intro-targets.json") if wanted(t) for f in t["filename"]]


def in_suites(where, suites, without=()):
    return [t["name"] for t in tests_of(where) if t["suite"] & set(suites) and not t["suite"] & set(without)]


def select(where, names):
    """The tests of these names or suites, also NAME-embedded and NAME-process."""
    found = {}
    for name in names:
        variants = (name, name + "-embedded", name + "-process")
        tests = in_suites(where, [name]) or [t["name"] for t in tests_of(where) if any(fnmatch.fnmatchcase(t["name"], w) for w in variants)]
        if not tests:
            raise SystemExit(f"./tools/check: '{name}' is not a job (--list), suite or test (meson test -C {where} --list)")
        found.update(dict.fromkeys(tests))
    return list(found)


JOBS = {}


def job(name, minutes, about, packages=(), in_all=True, takes_tests=False):
    """
    Registers a function(run) as a job. minutes: about its first duration on two cores. takes_tests: names of tests beside its own
    limit it to those (run.options.tests).
    """
    return lambda fn: JOBS.update({name: {"fn": fn, "about": about, "minutes": minutes, "packages": packages, "in_all": in_all,
                                          "takes_tests": takes_tests}})


def install_packages(names):
    sets = list(dict.fromkeys(s for n in names for s in JOBS[n]["packages"]))
    return not sets or subprocess.run([os.path.join(TOP, "tools/packages"), *sets], stdin=subprocess.DEVNULL, check=False).returncode == 0


def run_job(name, options, fn=None):
    run = Run(name, options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, which stops what was started
    try:
        with contextlib.suppress(Stop):
            (fn or JOBS[name]["fn"])(run)
    except Exception:  # an exception fails the job only
        run.results.add(False, f"{name}: the job itself", traceback.format_exc())
    run.seconds = time.monotonic() - run.started
    seen = set()  # points of one program share its log
    for title, log in run.results.failed:
        run.say(f"FAILED: {title}" + ("" if log in seen else f"\n{log}\n---"))
        seen.add(log)
    for title, why in run.results.skipped:
        run.say(f"skipped: {title}: {why}")
    return run


class State:
    """The jobs that passed on this commit and its uncommitted changes, for --resume, and their durations; in BUILD-ROOT/state.json."""

    def __init__(self, root):
        said = [subprocess.run(["git", "-C", TOP, *words], capture_output=True, check=False).stdout
                for words in (["rev-parse", "HEAD"], ["diff", "HEAD"]) if shutil.which("git")]
        self.path, self.tree = os.path.join(root, "state.json"), hashlib.sha256(b"\0".join(said)).hexdigest() if any(said) else ""
        try:
            self.jobs = read_json(self.path)
        except (OSError, ValueError):
            self.jobs = {}

    def minutes(self, name):
        return max(1, round(self.jobs[name]["seconds"] / 60)) if name in self.jobs else JOBS[name]["minutes"]

    def passed(self, name):
        return bool(self.tree) and self.jobs.get(name, {}).get("passed_at") == self.tree

    def note(self, run):
        self.jobs[run.name] = {"seconds": round(run.seconds, 1), "passed_at": None if run.results.failed else self.tree, "points": run.results.counts()}
        with open(self.path, "w", encoding="utf-8") as f:
            json.dump(self.jobs, f, indent=1)
