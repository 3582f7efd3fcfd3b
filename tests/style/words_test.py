#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/style/words.py finds private words, also as parts of names, and no others; and holds each folder to its ceiling.  Prints TAP."""
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FOUND = (
    ("int lane_of(int i);", 1), ("/* In limbo, until the pump runs. */", 2), ("int a_glimpse, planes, limbos;", 2), ("the command line amends", 0),
    ("what stands  still hangs", 2), ("It is not to be had.", 1), ("hw_queue, progress thread, deferred free", 0),
    ("this cannot be. That cannot be read.", 1), ("Plane, airplane, recommended", 0), ("so far, look up, std::span", 0), ("told by nobody", 2),
)
# A file of the folder "lib", its ceiling, the exit status.
HELD = (("nobody", 1, 0), ("nobody, nobody", 1, 1), ("none", 1, 1), ("none", 0, 0), ("x" * 121, 0, 1), ("x" * 120, 0, 0))


def run(text, ceiling, *words):
    with tempfile.TemporaryDirectory() as where:
        for path, content in (("lib/a.h", text), ("tests/style/words.ceiling", f"lib {ceiling}\n")):
            os.makedirs(os.path.dirname(os.path.join(where, path)), exist_ok=True)
            with open(os.path.join(where, path), "w", encoding="utf-8") as f:
                f.write(content)
        subprocess.run(["git", "init", "-q", where], check=True)
        subprocess.run(["git", "-C", where, "add", "."], check=True)
        return subprocess.run([sys.executable, os.path.join(TOP, "tests/style/words.py"), where, *words], capture_output=True, text=True, check=False)


def main():
    results = [(f"{text!r} has {want}", run(text, 0, "--list"), want, None) for text, want in FOUND]
    results += [(f"{text[:20]!r} under {most}", run(text, most), None, want) for text, most, want in HELD]
    print(f"1..{len(results)}")
    failed = 0
    for at, (name, done, lines, status) in enumerate(results, 1):
        ok = done.stdout.count("lib/a.h:1:") == lines if status is None else done.returncode == status
        failed += not ok
        print(f"{'ok' if ok else 'not ok'} {at} - {name}" + ("" if ok else f"\n# {done.stdout}{done.stderr}"))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
