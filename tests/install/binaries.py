#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is built into programs and libraries, read from their files.  TAP.

binaries.py FILE...
"""
import re
import subprocess
import sys

# glibc keeps about 1.7 KB of static TLS for all libraries that are loaded at run time.
TLS_MOST = 200
count = failed = 0


def point(ok, name, log=""):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}")
    if not ok:
        print("".join(f"# {line}\n" for line in log.splitlines()[-30:]), end="")


def readelf(what, path):
    return subprocess.run(["readelf", "--wide", what, path], capture_output=True, text=True, check=True).stdout


def tls_bytes(path):
    """Size and alignment of the part of each thread's static TLS that the file takes."""
    found = re.search(r"^\s+TLS\s+\S+ \S+ \S+ \S+ (0x[0-9a-f]+)\s+R?\s+(0x[0-9a-f]+)", readelf("--program-headers", path), re.M)
    return (int(found[1], 16), int(found[2], 16)) if found else (0, 1)


def main():
    for path in sys.argv[1:]:
        name = path.rsplit("/", 1)[-1]
        if ".so" in name:
            size, align = tls_bytes(path)
            point(size < TLS_MOST and align <= 16, f"{name}: {size} bytes of static TLS, aligned to {align}", readelf("--symbols", path))
    print(f"1..{count}")
    return 1 if failed or not count else 0


sys.exit(main())
