# SPDX-License-Identifier: BSD-3-Clause
"""What a check is made of: a name, what it needs, and commands with deadlines whose failure is a failed point."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from results import Results

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKS = {}
TAIL_LINES = 80


class Stop(Exception):
    """The check cannot go on; the reason is a failed point already."""


def needed_by(where, suites):
    """The files that the tests of these suites depend on, as ninja names them."""
    def read(name):
        with open(os.path.join(where, "meson-info", name), encoding="utf-8") as f:
            return json.load(f)

    wanted = {"usdma:" + s for s in suites}
    ids = {d for t in read("intro-tests.json") if wanted & set(t["suite"]) for d in t["depends"]}
    return [os.path.relpath(f, where) for t in read("intro-targets.json") if t["id"] in ids for f in t["filename"]]


def check(name, about, packages=(), default=True):
    """Makes a function(run) a check."""
    def add(fn):
        CHECKS[name] = {"fn": fn, "about": about, "packages": list(packages), "default": default}
        return fn
    return add


def tail(text, lines=TAIL_LINES):
    """The end of a log, without ninja's lines of progress."""
    kept = [line for line in text.splitlines() if not re.match(r"\[\d+/\d+\] ", line)]
    return "\n".join(kept[-lines:])


def shown(words, most=400):
    text = " ".join(words)
    return text if len(text) <= most else f"{text[:most]} …"


class Run:
    """One run of a check."""

    def __init__(self, name, options):
        self.name, self.jobs, self.scratch = name, options.jobs, options.build_root
        self.fuzz_seconds, self.soak_minutes = options.fuzz_seconds, options.soak_minutes
        self.minutes, self.until = options.minutes, options.until
        self.results, self.started = Results(), time.monotonic()
        self.figures = {}  # what a check found beside points, for results.json

    def late(self):
        """Why nothing may begin any more, if so (--minutes)."""
        return f"no time: {self.minutes:g} minutes are over" if self.until and time.monotonic() > self.until else None

    def say(self, text):
        print(f"[{self.name}] {text}", flush=True)

    def dir(self, name=None):
        return os.path.join(self.scratch, name or self.name)

    def command(self, words, deadline=1500, env=None, cwd=TOP):
        """(status, everything it printed); killed with all its children at the deadline, which is said in the text."""
        p = subprocess.Popen(words, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            out, _ = p.communicate(timeout=deadline)
            return p.returncode, out.decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, _ = p.communicate()
            return 1, out.decode(errors="replace") + f"\nkilled after {deadline} s"
        except BaseException:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            raise

    def in_time(self, words, **more):
        """The same, unless it is late: then None."""
        return (None, "") if self.late() else self.command(words, **more)

    def must(self, what, words, **more):
        """A step that is a point itself; without it the check ends."""
        self.say(what)
        status, out = self.command(words, **more)
        self.results.add(status == 0, what, f"{shown(words)}\n{tail(out)}")
        if status:
            raise Stop
        return out

    def configure(self, *options, env=None, where=None):
        """Sets a tree of this check's own up, where there is none, or brings it up to date: its list of tests is read next."""
        where = where or self.dir()
        if not os.path.exists(os.path.join(where, "build.ninja")):
            shutil.rmtree(where, ignore_errors=True)
            status, out = self.command(["meson", "setup", where, TOP, "-Dwerror=true", "-Dtests=enabled", "-Dtools=enabled",
                                        *options], env=env)
            if status:
                self.results.add(False, "meson setup", tail(out))
                raise Stop
        else:
            self.must("build files up to date", ["ninja", "-C", where, "build.ninja"], env=env)
        return where

    def build(self, *options, env=None, what="builds without a warning", where=None, targets=(), suites=()):
        """Configures and compiles a tree of this check's own: all of it, or targets, or what the tests of suites take."""
        where = self.configure(*options, env=env, where=where)
        targets = targets or needed_by(where, suites)
        self.must(what, ["ninja", "-k", "20", "-C", where, "-j", str(self.jobs), *targets], env=env)

    def test(self, *options, env=None, where=None, suites=(), without=(), patience=1):
        """meson test; each TAP point counts. patience: how much longer than usual it may all take."""
        where = where or self.dir()
        log = os.path.join(where, "meson-logs", "testlog.json")
        if os.path.exists(log):
            os.unlink(log)
        chosen = [w for s in suites for w in ("--suite", s)] + [w for s in without for w in ("--no-suite", s)]
        self.say("tests" + (f" ({', '.join(suites)})" if suites else ""))
        status, out = self.command(["meson", "test", "-C", where, "--no-rebuild", "--num-processes", str(self.jobs),
                                    "--timeout-multiplier", str(patience), *chosen, *options],
                                   env={**(env or {}), "USDMA_TEST_PATIENCE": str(patience)})
        failed, count = len(self.results.failed), self.results.count
        if os.path.exists(log):
            self.results.add_meson(log)
        if self.results.count == count:
            self.results.add(False, "meson test ran nothing", tail(out))
        elif status and len(self.results.failed) == failed and not self.results.misread:
            self.results.add(False, f"meson test ended with status {status}", tail(out))

    def commands(self, cases, **more):
        """Many commands side by side: (name, words) each; yields (name, status, output) in their order."""
        with ThreadPoolExecutor(self.jobs) as pool:
            running = [(name, words, pool.submit(self.in_time, words, **more)) for name, words in cases]
            for name, words, done in running:
                status, out = done.result()
                yield name, status, f"{shown(words)}\n{out}"

    def each(self, what, cases, passed=lambda name: None, **more):
        """Many commands side by side, each a point; there is nothing to find where there are none.  passed(name) hears of these."""
        self.say(f"{what}: {len(cases)}")
        if not cases:
            self.results.add(False, f"{what}: nothing to look at")
        for name, status, out in self.commands(cases, **more):
            if status is None:
                self.results.skip(f"{what}: {name}", self.late())
            else:
                self.results.add(status == 0, f"{what}: {name}", tail(out))
                if status == 0:
                    passed(name)

    def tap(self, what, words, **more):
        """A program that speaks TAP."""
        self.say(what)
        status, out = self.command(words, **more)
        self.results.add_tap(what, out, status, tail(out))


def complain(text):
    print(text, file=sys.stderr, flush=True)
