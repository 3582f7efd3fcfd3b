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
PATIENCE = 60

# A run of its own: makes the thing NAME, in which it hangs until it is told to go on, and says what it did.
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
place = cache.made(sys.argv[2], "thing", sys.argv[3], make, lambda text: None, sys.argv[4] == "fresh")
print("has it" if cache.manifest(place) else "has nothing", flush=True)
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
    """Another run."""

    def __init__(self, at, name, fresh=False):
        self.process = subprocess.Popen([sys.executable, "-c", RUN, HERE, at, name, "fresh" if fresh else ""],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self):
        return self.process.stdout.readline().strip()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


def names(at):
    return sorted(n for n in os.listdir(at) if not n.endswith(".lock"))


def made_once(at):
    calls = []
    for _ in range(2):
        place = cache.made(at, "thing", "a", lambda folder: calls.append(folder) or {"n": 1}, lambda text: None)
    point(len(calls) == 1 and cache.manifest(place)["n"] == 1, "what is there is not made again", calls)
    point(names(at) == ["thing-a"], "nothing else is left", names(at))


def fails(at):
    def bad(folder):
        raise cache.CacheError("no network")
    try:
        cache.made(at, "thing", "a", bad, lambda text: None)
        point(False, "a maker that fails is heard of")
    except cache.CacheError as e:
        point(str(e) == "no network" and names(at) == [], "a maker that fails is heard of, and leaves nothing", names(at))


def killed(at):
    one = Other(at, "a")
    started = one.says()
    one.kill()
    left = names(at)
    point(started == "making" and len(left) == 1 and cache.manifest(os.path.join(at, left[0])) is None,
          "a maker that is killed leaves nothing that looks finished", left)
    cache.made(at, "thing", "a", lambda folder: {}, lambda text: None)
    point(names(at) == ["thing-a"], "the next one makes it, and takes the remains away", names(at))


def together(at):
    one = Other(at, "a")
    one.says()
    two = Other(at, "a")
    one.go_on()
    point(one.says() == "has it" and two.says() == "has it", "two runs at once: one makes, the other takes what was made")
    point(one.end() == 0 and two.end() == 0, "both end well")


def in_use(at):
    user = Other(at, "old")
    user.says()
    user.go_on()
    user.says()
    cache.made(at, "thing", "new", lambda folder: {}, lambda text: None)
    point(names(at) == ["thing-new", "thing-old"], "an older one stays while a run uses it", names(at))
    user.end()
    cache.made(at, "thing", "newer", lambda folder: {}, lambda text: None)
    point("thing-old" not in names(at) and "thing-newer" in names(at), "and goes with the next, once nobody does", names(at))


def anew(at):
    user = Other(at, "a")
    user.says()
    user.go_on()
    user.says()
    again = Other(at, "a", True)
    again.says()
    again.go_on()
    half = os.path.exists(os.path.join(at, "thing-a", "half"))
    user.end()
    point(half and again.says() == "has it", "made anew: the old one stays until those who use it have ended")
    again.end()


def nothing_by_asking(at):
    """A check that has no time for it asks first, and begins nothing."""
    p = subprocess.run([os.path.join(HERE, "run"), "--ready", "--cache", at], capture_output=True, text=True, check=False, timeout=PATIENCE)
    point(p.returncode == 1 and "./tools/check foreign makes it" in p.stdout and not os.listdir(at), "an empty cache: said, and left empty",
          (p.returncode, p.stdout, p.stderr, os.listdir(at)))


def main():
    for test in (made_once, fails, killed, together, in_use, anew, nothing_by_asking):
        at = tempfile.mkdtemp(prefix="usdma-cache-")
        try:
            test(at)
        finally:
            shutil.rmtree(at, ignore_errors=True)
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(main())
