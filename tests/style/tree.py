#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Spelling, format and shell syntax of the files in git.  Prints TAP.  A point whose tool is not installed is skipped."""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import Points  # noqa: E402

FORMATTER = "14"  # another version formats differently
ATOMIC = re.compile(r"__atomic_|__sync_\w|\bstd::(atomic|memory_order)|\bmemory_order_|<atomic>|\batomic_(thread|signal)_fence")
POLLED = re.compile(r"\bload_acquire\(")
# Only a hardware queue, which holds the lock, calls its engine.
OPERATION = re.compile(r"\bops->")
GENERATED = ("docs/abi/", "tests/fuzz/corpus/")


def run(words):
    return subprocess.run(words, cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)


def point(to, name, program, words, version=None):
    if not shutil.which(program):
        return to.skip(name, f"{program} is not installed")
    said = run([program, "--version"]).stdout.strip() if version else ""
    if version and f"version {version}." not in said:
        return to.skip(name, f"needs {program} {version}, installed is: {said}")
    done = run([program, *words])
    return to.add(done.returncode == 0, name, done.stdout)


def is_shell(path):
    with open(os.path.join(TOP, path), "rb") as f:
        return path.endswith(".sh") or re.match(rb"#! ?/bin/(ba)?sh", f.readline())


def lines_with(pattern, paths):
    found = []
    for path in paths:
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            found += [f"{path}:{n}: {line.strip()}" for n, line in enumerate(f, 1) if pattern.search(line)]
    return found


def main():
    to = Points()
    listed = run(["git", "ls-files"])
    if listed.returncode:
        print("1..0 # SKIP this is no git checkout")
        return 0
    files = [p for p in listed.stdout.split("\n") if p and not p.startswith(GENERATED) and os.path.isfile(os.path.join(TOP, p))]
    point(to, "spelling", "codespell", files)
    point(to, "format", "clang-format", ["--dry-run", "--Werror", *(p for p in files if p.endswith((".c", ".cpp", ".h")))], FORMATTER)
    checked = [p for p in files if p.startswith(("driver/", "lib/", "tools/")) and p.endswith((".cpp", ".h")) and p != "driver/base/barrier.h"]
    found = lines_with(ATOMIC, checked)
    to.add(not found, "atomic accesses only by driver/base/barrier.h", "\n".join(found))
    found = lines_with(OPERATION, [p for p in checked if p.startswith("lib/") and not p.startswith("lib/core/queue/")])
    to.add(not found, "operations of an engine only by lib/core/queue", "\n".join(found))
    found = lines_with(POLLED, [p for p in checked if p.startswith("driver/engines/") or p in ("driver/dma/channel.h", "driver/dma/channel.cpp")])
    to.add(not found, "words that devices write are read by load_device", "\n".join(found))
    for path in filter(is_shell, files):
        point(to, f"shell syntax: {path}", "bash", ["-n", path])
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
