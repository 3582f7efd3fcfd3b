#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is built into programs and libraries, read from their files.  TAP.

binaries.py BUILD_DIR [--hardened] [--fortified] FILE...
"""
import argparse
import json
import os
import platform
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from tap import Points  # noqa: E402

# glibc keeps about 1.7 KB of static TLS for all libraries that are loaded at run time.
TLS_MOST = 200
points = Points()
point = points.add


def readelf(what, path):
    return subprocess.run(["readelf", "--wide", *what.split(), path], capture_output=True, text=True, check=True).stdout


def tls_bytes(segments):
    """Size and alignment of the static TLS that the file uses in each thread."""
    found = re.search(r"^\s+TLS\s+\S+ \S+ \S+ \S+ (0x[0-9a-f]+)\s+R?\s+(0x[0-9a-f]+)", segments, re.M)
    return (int(found[1], 16), int(found[2], 16)) if found else (0, 1)


class File:
    def __init__(self, path):
        self.path, self.name = path, os.path.basename(path)
        self.library = ".so" in self.name
        self.segments, self.dynamic = readelf("--program-headers", path), readelf("--dynamic", path)
        self.imports = set(re.findall(r" UND (\w+)", readelf("--dyn-syms", path)))
        self.notes = readelf("--notes", path)
        self.relocations = readelf("--relocs", path)
        self.kind = re.search(r"Type:\s+(\w+)", readelf("--file-header", path))[1]

    def flags_of(self, segment):
        return [flags.replace(" ", "") for flags in re.findall(rf"^\s+{segment}\s+(?:\S+ ){{5}}([RWE ]+?)\s+0x", self.segments, re.M)]


def layout(f):
    point(f.kind == "DYN" and ("INTERP" in f.segments) != f.library, f"{f.name}: at any address", f.kind)
    point("GNU_RELRO" in f.segments and re.search(r"BIND_NOW|Flags:.* NOW", f.dynamic) is not None,
          f"{f.name}: what the linker fills in is read-only afterwards", f.dynamic)
    point(f.flags_of("GNU_STACK") == ["RW"], f"{f.name}: its stack is not executable", f.segments)
    point(not [w for w in f.flags_of("LOAD") if "W" in w and "E" in w] and "TEXTREL" not in f.dynamic,
          f"{f.name}: nothing is both writable and code", f.segments)


def checks(f, args):
    # UCX changes the program that loads it: handlers of signals, mmap (net/main.cpp).
    point(("libucp.so" in f.dynamic) == (f.name == "usdma-net"), f"{f.name}: {'' if f.name == 'usdma-net' else 'not '}linked with UCX", f.dynamic)
    if args.hardened:
        point("__stack_chk_fail" in f.imports, f"{f.name}: frames with arrays are checked", "")
    if not f.library:
        point(any("__glibcxx_assert_fail" in name for name in f.imports), f"{f.name}: the standard library checks indexes", "")


def wrong_commands(build, args):
    """Our sources that are compiled without the required flags."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    wanted = ["-fstack-protector-strong", "-fstack-clash-protection"] if args.hardened else []
    flow = {"x86_64": ["-fcf-protection=full"], "aarch64": ["-mbranch-protection=standard"]}.get(platform.machine(), [])
    wanted += flow if args.hardened else []
    for c in commands:
        words = c["command"].split()
        if c["output"].startswith("tests/"):
            continue
        if not re.search(r"(^|/)(driver|lib|net|tools)/", os.path.relpath(os.path.join(build, c["file"]), args.top)):
            continue
        lacks = [w for w in wanted if w not in words]
        if args.fortified and "-O0" not in words:
            levels = [w for w in words if "_FORTIFY_SOURCE" in w]
            lacks += [] if levels and levels[-1] in ("-D_FORTIFY_SOURCE=3", "-Wp,-D_FORTIFY_SOURCE=3") else ["-D_FORTIFY_SOURCE=3"]
        if re.search(r"/(driver/sim|tools)/\w*sim\w*\.cpp|/driver/sim/|/net/", c["file"]) and args.zeroed:
            lacks += [] if "-ftrivial-auto-var-init=zero" in words else ["-ftrivial-auto-var-init=zero"]
        if re.search(r"/(net|tools)/", c["file"]):
            lacks += [] if "-D_GLIBCXX_ASSERTIONS" in words else ["-D_GLIBCXX_ASSERTIONS"]
        if lacks:
            yield f"{c['file']}: {' '.join(lacks)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--top", required=True)
    parser.add_argument("--hardened", action="store_true")
    parser.add_argument("--fortified", action="store_true")
    parser.add_argument("--zeroed", action="store_true")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    for f in map(File, args.files):
        layout(f)
        checks(f, args)
        if f.library:
            size, align = tls_bytes(f.segments)
            point("STATIC_TLS" not in f.dynamic and not re.search(r"_TPOFF64|_TLS_TPREL", f.relocations),
                  f"{f.name}: can be loaded when static TLS is used up", f.dynamic)
            point(size < TLS_MOST and align <= 16, f"{f.name}: {size} bytes of static TLS, aligned to {align}", readelf("--symbols", f.path))
    wrong = list(wrong_commands(args.build, args))
    point(not wrong, "each of our sources is compiled with the required flags", "\n".join(wrong))
    return points.end()


sys.exit(main())
