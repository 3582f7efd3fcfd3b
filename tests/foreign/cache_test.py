#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The cache of tests/foreign: made once, robust against interruption, shared by runs at the same time.  TAP."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from machines import cache  # noqa: E402

count = failed = 0
DEADLINE = 60

# Another process: makes the folder thing-NAME, waits meanwhile for a line of input, and prints what it did.
RUN = """
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from machines import cache
def make(folder):
    with open(os.path.join(folder, "half"), "w") as f:
        f.write("x")
    print("making", flush=True)
    sys.stdin.readline()
    return {}
folder = cache.made(sys.argv[2], "thing", sys.argv[3], make, lambda text: None, sys.argv[4] == "fresh")
print("has it" if cache.manifest(folder) else "has nothing", flush=True)
sys.stdin.readline()
"""


def point(ok, name, detail=""):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}", flush=True)
    if not ok:
        print(f"# {detail}", flush=True)


class Other:
    """Another process that uses the cache."""

    def __init__(self, at, name, fresh=False):
        self.process = subprocess.Popen([sys.executable, "-c", RUN, HERE, at, name, "fresh" if fresh else ""],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read_line(self):
        return self.process.stdout.readline().strip()

    def send_line(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(DEADLINE)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE)


def names(at):
    return sorted(n for n in os.listdir(at) if not n.endswith(".lock"))


def made_once(at):
    calls = []
    for _ in range(2):
        folder = cache.made(at, "thing", "a", lambda part: calls.append(part) or {"n": 1}, lambda text: None)
    point(len(calls) == 1 and cache.manifest(folder)["n"] == 1, "a complete folder is not made again", calls)
    point(names(at) == ["thing-a"], "no other folder is left", names(at))


def fails(at):
    def bad(folder):
        raise cache.CacheError("no network")
    try:
        cache.made(at, "thing", "a", bad, lambda text: None)
        point(False, "an error of make() is raised")
    except cache.CacheError as e:
        point(str(e) == "no network" and names(at) == [], "an error of make() is raised, and nothing is left", names(at))


def killed(at):
    one = Other(at, "a")
    started = one.read_line()
    one.kill()
    left = names(at)
    point(started == "making" and len(left) == 1 and cache.manifest(os.path.join(at, left[0])) is None,
          "a maker that is killed leaves an incomplete folder only", left)
    cache.made(at, "thing", "a", lambda folder: {}, lambda text: None)
    point(names(at) == ["thing-a"], "the next process makes it, and deletes the incomplete folder", names(at))


def together(at):
    one = Other(at, "a")
    one.read_line()
    two = Other(at, "a")
    one.send_line()
    point(one.read_line() == "has it" and two.read_line() == "has it", "two processes at once: one makes the folder, the other uses it")
    point(one.end() == 0 and two.end() == 0, "both exit without an error")


def in_use(at):
    user = Other(at, "old")
    user.read_line()
    user.send_line()
    user.read_line()
    cache.made(at, "thing", "new", lambda folder: {}, lambda text: None)
    point(names(at) == ["thing-new", "thing-old"], "an older folder is not deleted while a process uses it", names(at))
    user.end()
    cache.made(at, "thing", "newer", lambda folder: {}, lambda text: None)
    point("thing-old" not in names(at) and "thing-newer" in names(at), "and is deleted with the next one when it is unused", names(at))


def anew(at):
    user = Other(at, "a")
    user.read_line()
    user.send_line()
    user.read_line()
    again = Other(at, "a", True)
    again.read_line()
    again.send_line()
    half = os.path.exists(os.path.join(at, "thing-a", "half"))
    user.end()
    point(half and again.read_line() == "has it", "made anew: the old folder is not deleted before its users exit")
    again.end()


def ready_makes_nothing(at):
    """--ready reports whether the cache is complete, and makes nothing."""
    p = subprocess.run([os.path.join(HERE, "run"), "--ready", "--cache", at], capture_output=True, text=True, check=False, timeout=DEADLINE)
    point(p.returncode == 1 and "./tools/check foreign makes it" in p.stdout and not os.listdir(at), "an empty cache: reported, and left empty",
          (p.returncode, p.stdout, p.stderr, os.listdir(at)))


def main():
    for test in (made_once, fails, killed, together, in_use, anew, ready_makes_nothing):
        at = tempfile.mkdtemp(prefix="usdma-cache-")
        try:
            test(at)
        finally:
            shutil.rmtree(at, ignore_errors=True)
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(main())
