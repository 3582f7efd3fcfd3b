# SPDX-License-Identifier: BSD-3-Clause
"""One run of a job: commands with deadlines, a build tree, meson tests; each result is a point."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from results import Results

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAIL_LINES = 80
# How much longer than on a quiet machine a test may take before it counts as hung.
PATIENCE = 3


class Stop(Exception):
    """The job cannot go on; the reason is a failed point already."""


def tail(text, lines=TAIL_LINES):
    """The end of a log, without ninja's progress."""
    kept = [line for line in text.splitlines() if not re.match(r"\[\d+/\d+\] ", line)]
    return "\n".join(kept[-lines:])


def shown(words, most=400):
    text = " ".join(words)
    return text if len(text) <= most else f"{text[:most]} …"


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def read_json(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


class Run:
    def __init__(self, name, options):
        self.name, self.options, self.jobs = name, options, options.jobs
        self.results, self.started = Results(), time.monotonic()
        self.parts = []  # (what, seconds) of the long steps, for the table

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

    def must(self, what, words, **more):
        """A step that is a point itself; without it the job ends."""
        began = time.monotonic()
        self.say(what)
        status, out = self.command(words, **more)
        self.parts.append((what, time.monotonic() - began))
        self.results.add(status == 0, what, f"{shown(words)}\n{tail(out)}")
        if status:
            raise Stop
        return out

    def configure(self, *options, env=None, where=None):
        where = where or self.dir()
        if os.path.exists(os.path.join(where, "build.ninja")):
            self.must("reconfigure", ["ninja", "-C", where, "build.ninja"], env=env)
            return where
        shutil.rmtree(where, ignore_errors=True)
        self.must("configure", ["meson", "setup", where, TOP, "-Dwerror=true", "-Dtests=enabled", "-Dtools=enabled", *options],
                  env=env)
        return where

    def build(self, *options, env=None, what="build without a warning", where=None, targets=(), tests=()):
        """Compiles the default targets, or the named ones, or what the tests need."""
        where = self.configure(*options, env=env, where=where)
        self.must(what, ["ninja", "-k", "20", "-C", where, "-j", str(self.jobs), *(targets or needed_by(where, tests))],
                  env={"CCACHE_SLOPPINESS": "pch_defines,time_macros", **(env or {})}, line=Progress(r"\[(\d+)/(\d+)\]", self))
        return where

    def test(self, names, setup=None, where=None, env=None, wrapper=(), repeat=1):
        """meson test over these tests; each TAP point counts.  Returns meson's entries of its log."""
        where = where or self.dir()
        log = os.path.join(where, "meson-logs", f"testlog{'-' + setup if setup else ''}.json")
        if os.path.exists(log):
            os.unlink(log)
        began = time.monotonic()
        self.say(f"{len(names)} tests" + (f", {repeat} times" if repeat > 1 else ""))
        status, out = self.command(
            ["meson", "test", "-C", where, "--no-rebuild", "--num-processes", str(self.jobs), "--repeat", str(repeat),
             *(["--setup", setup] if setup else ["--timeout-multiplier", str(PATIENCE)]), *wrapper, *names],
            deadline=4 * 3600, env={"USDMA_TEST_PATIENCE": str(PATIENCE), **case_filter(self.options), **(env or {})},
            line=Progress(r"\s*(\d+)/(\d+) ", self))
        self.parts.append((f"{len(names)} tests", time.monotonic() - began))
        return self.results.add_meson(log, status, tail(out))

    def each(self, what, cases, **more):
        """Many commands side by side, each a point; none at all is a failure."""
        self.say(f"{what}: {len(cases)}")
        if not cases:
            self.results.add(False, f"{what}: nothing to check")
        with ThreadPoolExecutor(self.jobs) as pool:
            running = [(name, pool.submit(self.command, words, **more)) for name, words in cases]
            for name, done in running:
                status, out = done.result()
                self.results.add(status == 0, f"{what}: {name}", tail(out))

    def tap(self, what, words, **more):
        """A program that prints TAP."""
        began = time.monotonic()
        self.say(what)
        status, out = self.command(words, **more)
        self.parts.append((what, time.monotonic() - began))
        self.results.add_tap(what, out, status, tail(out))


class Progress:
    """Prints how far a command is: on a terminal each step, elsewhere each minute."""

    def __init__(self, pattern, run):
        self.pattern, self.run, self.next = re.compile(pattern), run, time.monotonic() + 60
        self.terminal = sys.stdout.isatty()

    def __call__(self, line):
        at = self.pattern.match(line)
        if not at:
            return
        if self.terminal:
            print(f"\r\033[K[{self.run.name}] {at[1]} of {at[2]}", end="\n" if at[1] == at[2] else "", flush=True)
        elif time.monotonic() >= self.next:
            self.run.say(f"{at[1]} of {at[2]}")
            self.next += 60


def case_filter(options):
    return {"USDMA_TEST_CASE": options.case} if options.case else {}


def tests_of(where):
    """meson's list of tests: name, suites without the project's name, command, what it depends on."""
    return [{**t, "suite": [s.removeprefix("usdma:") for s in t["suite"]]}
            for t in read_json(where, "meson-info/intro-tests.json")]


def needed_by(where, names):
    """The files that these tests depend on, as ninja names them."""
    ids = {d for t in tests_of(where) if t["name"] in names for d in t["depends"]}
    return [os.path.relpath(f, where) for t in read_json(where, "meson-info/intro-targets.json") if t["id"] in ids
            for f in t["filename"]]


def default_targets(where):
    """What is built by default; meson's target "all" has each test's program as well."""
    return [os.path.relpath(f, where) for t in read_json(where, "meson-info/intro-targets.json") if t["build_by_default"]
            for f in t["filename"]]


def in_suites(where, suites, without=()):
    return [t["name"] for t in tests_of(where) if set(t["suite"]) & set(suites) and not set(t["suite"]) & set(without)]
