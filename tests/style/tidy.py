#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy on the sources of driver, lib, tools and tests.  TAP, and a line "# N of M" for each source that was checked.

tidy.py BUILD_DIR [--jobs N] [SOURCE...]

BUILD_DIR has a compile_commands.json.  A source that passed is not checked again while it, the tree's files that it includes,
its command, .clang-tidy and clang-tidy's version are the same: ~/.cache/usdma-check/tidy has an empty file for each of these.
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PASSED = os.path.expanduser("~/.cache/usdma-check/tidy")
DEADLINE = 1800
# An option of g++ that clang 14 rejects instead of ignoring it.
UNKNOWN = re.compile(r" -mtls-dialect=\S+")
# clang before 16 needs the first with -ftrivial-auto-var-init=zero, g++ 12 rejects it; the others accept options of g++.
EXTRA = ["-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang", "-Wno-unused-command-line-argument",
         "-Wno-ignored-optimization-argument", "-Wno-unknown-warning-option"]


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def commands(build):
    """{source: its entry of compile_commands.json}"""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        for entry in json.load(f):
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), TOP)
            if path.startswith(("driver/", "lib/", "tools/", "tests/")):
                found.setdefault(path, {**entry, "command": UNKNOWN.sub("", entry["command"])})
    return dict(sorted(found.items()))


def tree_files():
    """{name without folders: the tree's files of that name}"""
    files = {}
    for path in subprocess.run(["git", "-C", TOP, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n"):
        files.setdefault(os.path.basename(path), []).append(path)
    return files


def with_includes(path, files, found):
    """Adds the source and what it includes, directly or not; of several files of one name, all."""
    if path not in found:
        found.add(path)
        for name in re.findall(r'^\s*#\s*include\s*["<](.+)[">]', read(path), re.M):
            for included in files.get(os.path.basename(name), ()):
                with_includes(included, files, found)
    return found


def key(path, entry, files, version):
    parts = [version, entry["command"].replace(TOP, ""), *EXTRA]
    for name in [*files[".clang-tidy"], *sorted(with_includes(path, files, set()))]:
        parts += [name, read(name)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def check(path, commands_dir, stamp):
    """What clang-tidy found; empty: nothing."""
    try:
        done = subprocess.run(["clang-tidy", "-p", commands_dir, *(f"--extra-arg={w}" for w in EXTRA), path], cwd=TOP,
                              capture_output=True, text=True, timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        return f"clang-tidy has not finished after {DEADLINE} s"
    if done.returncode:
        return done.stdout + done.stderr
    with open(stamp, "w", encoding="utf-8"):
        return ""


def run(stamps, entries, jobs):
    """Prints a point for each source; the number of those that failed."""
    to_check, failed = [path for path in stamps if not os.path.exists(stamps[path])], 0
    print(f"1..{len(stamps)}\n# {len(stamps) - len(to_check)} sources have not changed since they passed", flush=True)
    for path in stamps.keys() - set(to_check):
        print(f"ok - {path}")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        with open(os.path.join(scratch, "compile_commands.json"), "w", encoding="utf-8") as f:
            json.dump(list(entries.values()), f)
        for n, (path, found) in enumerate(zip(to_check, pool.map(lambda path: check(path, scratch, stamps[path]), to_check)), 1):
            print(f"{found}{'not ' if found else ''}ok - {path}\n# {n} of {len(to_check)}", flush=True)
            failed += bool(found)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    files, entries = tree_files(), commands(args.build)
    os.makedirs(PASSED, exist_ok=True)
    stamps = {path: os.path.join(PASSED, key(path, entries[path], files, version)) for path in args.sources or entries}
    return 1 if run(stamps, entries, args.jobs) or not stamps else 0


sys.exit(main())
