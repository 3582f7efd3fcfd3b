#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/style/words.py finds private words, also as parts of names, and no others.  Prints TAP."""
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CASES = (
    ("int lane_of(int i);", 1), ("/* In limbo, until the pump runs. */", 2), ("int a_glimpse, planes, limbos;", 2), ("the command line amends", 0),
    ("a device that stands\n * still", 0), ("what stands  still hangs", 1), ("It is not to be had.", 1), ("hw_queue, progress thread, deferred free", 0),
    ("this cannot be. That cannot be read.", 1), ("Plane, airplane, recommended", 0),
)


def main():
    print(f"1..{len(CASES)}")
    failed = 0
    for at, (text, want) in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as where:
            with open(os.path.join(where, "a.h"), "w", encoding="utf-8") as f:
                f.write(text)
            subprocess.run(["git", "init", "-q", where], check=True)
            subprocess.run(["git", "-C", where, "add", "a.h"], check=True)
            done = subprocess.run([os.path.join(TOP, "tests/style/words.py"), where], capture_output=True, text=True, check=False)
        found = done.stdout.count("a.h:1:") + done.stdout.count("a.h:2:")
        ok = found == want and done.returncode == (want > 0)
        failed += not ok
        print(f"{'ok' if ok else 'not ok'} {at} - {text!r}" + ("" if ok else f"\n# {found} found, {want} wanted: {done.stdout}{done.stderr}"))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
