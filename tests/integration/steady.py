#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No system call and no allocation in a steady loop of pinned copies: traces steady.cpp.  TAP.

steady.py PROGRAM

One exception: a wait that polls yields its CPU once a millisecond, in case the
device's thread waits for that CPU; more yields than that are a failure too.  Where
the two share a CPU (no USDMA_TEST_APART), each pass of the wait yields it.
"""
import os
import re
import subprocess
import sys
import tempfile


def can_trace():
    try:
        p = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as e:
        return f"strace cannot be run: {e}"
    return None if p.returncode == 0 else f"strace cannot trace here: {p.stderr.strip().splitlines()[-1:]}"


def sections(log):
    """System calls of the marking thread between its marks: a list for each section, and when each began."""
    found, times, who = [], [], None
    for line in log:
        m = re.match(r"(\d+) +([\d.]+) (\w+)\(", line)
        if not m:
            continue  # signals, exits, second halves of interrupted lines
        thread, when, name = m.groups()
        if name == "getppid" and who in (None, thread):
            who = thread
            found.append([])
            times.append(float(when))
        elif thread == who:
            found[-1].append(line.strip())
    return found, times


def unexpected(calls, seconds):
    """Calls that are not allowed: all but yields, and yields if there is more than one per millisecond."""
    others = [c for c in calls if "sched_yield" not in c]
    too_many = "USDMA_TEST_APART" in os.environ and len(calls) - len(others) > seconds * 1000
    return calls if too_many else others


def main():
    why = can_trace()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, "trace")
        p = subprocess.run(["strace", "-f", "-ttt", "-o", log, sys.argv[1]], stdout=subprocess.PIPE, text=True, check=False)
        with open(log, encoding="utf-8", errors="replace") as f:
            found, times = sections(f)
    numbers = p.stdout.split()
    whole = p.returncode == 0 and len(found) == 3 and len(numbers) == 2
    points = [("the loop ran", whole, f"status {p.returncode}, {len(found)} marks")]
    if whole:
        wrong = unexpected(found[0], times[1] - times[0])
        points += [("no system call in the loop", not wrong, "\n".join(wrong[:20])),
                   ("a system call would have been seen", any("getuid" in c for c in found[1]), str(found[1])),
                   ("no allocation in the loop", numbers[0] == "0", numbers[0]),
                   ("an allocation would have been seen", numbers[1] != "0", numbers[1])]
    print(f"1..{len(points)}")
    for n, (name, ok, detail) in enumerate(points, 1):
        print(f"{'ok' if ok else 'not ok'} {n} - {name}")
        if not ok:
            print(detail, file=sys.stderr)
    return 0 if all(ok for _, ok, _ in points) else 1


sys.exit(main())
