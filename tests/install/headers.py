#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles each public header alone, as C11 and as C++20, twice included.  TAP.

headers.py INCLUDE_DIR CC CXX [-- more compiler arguments]
"""
import os
import shlex
import subprocess
import sys
import tempfile

STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wundef", "-Wshadow"]
LANGUAGES = {"c11": ("-xc", "-std=c11", "-Wstrict-prototypes"), "c++20": ("-xc++", "-std=c++20", "-Wold-style-cast")}


def public_headers(top):
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            if name.endswith((".h", ".hpp")):
                yield os.path.relpath(os.path.join(folder, name), top)


def for_c(top, header):
    """HCCL's headers hold classes, and say so in their second line."""
    if header.endswith(".hpp"):
        return False
    with open(os.path.join(top, header)) as f:
        return "C++ only" not in f.read(200)


def compile_alone(compiler, language, top, header, scratch):
    source = os.path.join(scratch, "alone.src")
    with open(source, "w") as f:
        f.write(f"#include <{header}>\n#include <{header}>\nextern int not_empty;\n")
    # -isystem would silence warnings in the header: it must be clean in a user's own -I too.
    return subprocess.run([*compiler, *LANGUAGES[language], *STRICT, f"-I{top}", f"-I{os.path.join(top, 'usdma')}",
                           f"-I{os.path.join(top, 'usdma-hccl')}", source],
                          capture_output=True, text=True)


def main():
    top, cc, cxx = sys.argv[1], shlex.split(sys.argv[2]), shlex.split(sys.argv[3])
    cases = [(h, lang) for h in public_headers(top) for lang in LANGUAGES if lang != "c11" or for_c(top, h)]
    failed = not cases
    print(f"1..{max(len(cases), 1)}")
    if not cases:
        print("not ok 1 - no public header found")
    with tempfile.TemporaryDirectory() as scratch:
        for n, (header, lang) in enumerate(cases, 1):
            done = compile_alone(cc if lang == "c11" else cxx, lang, top, header, scratch)
            print(f"{'not ok' if done.returncode else 'ok'} {n} - {header} alone as {lang}", flush=True)
            if done.returncode:
                failed = True
                print(done.stderr, file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
