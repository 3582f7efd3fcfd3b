#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No system call and no allocation in a steady loop of pinned copies: traces steady.cpp.  TAP.

steady.py PROGRAM
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
    """System calls of the marking thread between its marks, a list for each section."""
    found, who = [], None
    for line in log:
        m = re.match(r"(\d+) +(\w+)\(", line)
        if not m:
            continue  # signals, ends, the second halves of interrupted lines
        thread, name = m.groups()
        if name == "getppid" and who in (None, thread):
            who = thread
            found.append([])
        elif thread == who:
            found[-1].append(line.strip())
    return found


def main():
    why = can_trace()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, "trace")
        p = subprocess.run(["strace", "-f", "-o", log, sys.argv[1]], stdout=subprocess.PIPE, text=True, check=False)
        with open(log, encoding="utf-8", errors="replace") as f:
            found = sections(f)
    numbers = p.stdout.split()
    whole = p.returncode == 0 and len(found) == 3 and len(numbers) == 2
    points = [("the loop ran", whole, f"status {p.returncode}, {len(found)} marks")]
    if whole:
        points += [("no system call in the loop", not found[0], "\n".join(found[0][:20])),
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
