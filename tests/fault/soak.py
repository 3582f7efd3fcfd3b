#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Runs loads in turn, each time with another seed: random faults, random ACL programs.  A run fails if data is wrong, or if memory, descriptors,
mappings or threads have grown at its end (tests/support/soak.cpp).  Prints TAP.

  tests/fault/soak.py BUILD_DIR [--minutes 10]
"""
import argparse
import os
import random
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import Points  # noqa: E402

LOADS = {  # name of the load in its line: the program, its environment
    "random-faults": ("tests/fault/fault-random", {}),
    "acl-programs": ("tests/integration/integration-acl-model", {"USDMA_DEVICES": "sim:mem=256M:engines=2:channels=16"}),
}
LINE = re.compile(r"^# soak (\S+): operations (\d+) rss_kib (\d+) (\d+) fds (\d+) (\d+) maps (\d+) (\d+) threads (\d+) (\d+)$", re.M)
LONGEST_TURN, SHORTEST_TURN = 300, 5  # seconds


def turn(build_dir, name, seconds):
    """(passed, what to report, the whole output)"""
    program, env = LOADS[name]
    seed = random.SystemRandom().randrange(1, 1 << 32)
    env = {**os.environ, "USDMA_TEST_SECONDS": str(seconds), "USDMA_TEST_SEED": str(seed), **env}
    try:
        done = subprocess.run([os.path.join(build_dir, program)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds + 600, check=False)
        status, out = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, out = 1, f"{(late.stdout or b'').decode(errors='replace')}\nkilled after {seconds + 600} s"
    found = LINE.search(out)
    what = f"{name}, USDMA_TEST_SEED={seed}, {seconds} s"
    if not found or found[1] != name:
        return False, what, out
    f = [int(x) for x in found.groups()[1:]]
    what += (f": {f[0]} operations, RSS {f[1] / 1024:.1f} to {f[2] / 1024:.1f} MiB, descriptors {f[3]} to {f[4]}, "
             f"mappings {f[5]} to {f[6]}, threads {f[7]} to {f[8]}")
    return status == 0, what, out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir")
    parser.add_argument("--minutes", type=float, default=10)
    args = parser.parse_args()
    began, length, to = time.monotonic(), args.minutes * 60, Points()
    each = max(SHORTEST_TURN, min(LONGEST_TURN, int(length / len(LOADS))))
    while to.count < len(LOADS) or time.monotonic() - began < length:
        left = int(length - (time.monotonic() - began))
        passed, what, out = turn(args.build_dir, list(LOADS)[to.count % len(LOADS)], max(SHORTEST_TURN, min(each, left)))
        to.add(passed, what, out, most=80)
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
