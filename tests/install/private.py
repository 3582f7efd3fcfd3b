#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each name in the maps of the private exports is used by a library or a program of the build, or is only for tests.  TAP.

private.py LIBUSDMA-MAP LIBUSDMA-SIM-MAP LIBRARY-OR-PROGRAM...
"""
import fnmatch
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from tap import Points  # noqa: E402

BY_DLSYM = {"usdma_simulator"}  # lib/native/libraries.cpp


def uses(path):
    """Data of a library that a program uses is defined in the program, too (a copy relocation)."""
    which = ["--undefined-only"] if ".so" in os.path.basename(path) else []
    out = subprocess.run(["nm", "-D", "--with-symbol-versions", *which, path], capture_output=True, text=True, check=True).stdout
    return {n.partition("@")[0] for n in re.findall(r"(\S+@USDMA_PRIVATE\S*)$", out, re.M)}


def private(script):
    """(the names of the map's private node, those of its part for tests)"""
    with open(script, encoding="utf-8") as f:
        text = f.read().partition("USDMA_PRIVATE {")[2].partition("local:")[0]
    named = [re.findall(r"^\s*(\w[^\s;]*);$", part, re.M) for part in re.split(r"/\* only tests'.*?\*/", text, maxsplit=1)]
    return named[0], named[1] if len(named) > 1 else []


def main():
    maps, paths, points = sys.argv[1:3], sys.argv[3:], Points()
    used = set().union(*map(uses, paths))
    for script in maps:
        named, tests = private(script)
        unused = [n for n in named if n not in BY_DLSYM and not fnmatch.filter(used, n)]
        points.add(named and not unused, f"each of {len(named)} names in {os.path.basename(script)} is used", "\n".join(unused))
        points.add(not any(fnmatch.filter(used, n) for n in tests), f"{len(tests)} names are only for tests", "\n".join(tests))
    return points.end()


sys.exit(main())
