#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A library loads the libusdma of its own build only; a build's id is made of what dependent libraries see.  TAP.

build_id.py LIBUSDMA MAP OPTIONS LIBRARY...   MAP: as built; OPTIONS: what private_node.py got, separated by commas
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODE = re.compile(r"USDMA_PRIVATE_[0-9.]+_([0-9a-f]{12})_install_usdma_libraries_of_one_build")
LOAD = "import ctypes, sys\ntry: ctypes.CDLL(sys.argv[1])\nexcept OSError as e: print(e)"


def nodes(path):
    out = subprocess.run(["readelf", "--wide", "--version-info", path], capture_output=True, text=True, check=True).stdout
    return {m.group(0) for m in NODE.finditer(out)}


def made(top, options):
    """The version script that the tree makes."""
    out, script = os.path.join(top, "made.map"), os.path.join(top, "lib/native/libusdma.map")
    subprocess.run([sys.executable, "-B", os.path.join(top, "lib/native/private_node.py"), script, out, out + ".d", *options],
                   check=True)
    return out


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def load(front_end, libusdma, folder):
    """What the dynamic linker says of the front end beside that library."""
    with open(os.path.join(folder, "libusdma.so.0"), "wb") as f:
        f.write(libusdma)
    with open(os.path.join(folder, "libusdma.so"), "wb") as f:
        f.write(libusdma)
    env = {**os.environ, "LD_LIBRARY_PATH": folder}
    return subprocess.run([sys.executable, "-c", LOAD, front_end], env=env, capture_output=True, text=True, timeout=60,
                          check=True).stdout


def check_libraries(libusdma, dependents, folder):
    own = nodes(libusdma)
    yield "libusdma has one private node", len(own) == 1, own
    node = own.pop()
    other = node.replace(NODE.match(node).group(1), "0123456789ab")
    with open(libusdma, "rb") as f:
        content = f.read()
    for path in dependents:
        name = os.path.basename(path)
        yield f"{name} requires it", nodes(path) == {node}, nodes(path)
        said = load(path, content, folder)
        yield f"{name} loads with it", not said, said
        said = load(path, content.replace(node.encode(), other.encode()), folder)
        yield f"{name} refuses another build's", node in said and name in said and folder in said, said


def check_id(built, options, folder):
    top = os.path.join(folder, "tree")
    for part in ("driver", "lib/core", "lib/native", "lib/share"):
        shutil.copytree(os.path.join(TOP, part), os.path.join(top, part))
    now = made(top, options)
    yield "the same sources and options in another folder have the same id", text(now) == text(built), ""
    os.utime(now, (1, 1))
    with open(os.path.join(top, "lib/core/open.cpp"), "a", encoding="utf-8") as f:
        f.write("/* of no concern to dependent libraries */\n")
    made(top, options)
    yield "a change that they do not see writes nothing", os.stat(now).st_mtime == 1, ""
    yield "another option has another id", text(made(top, [*options, "more"])) != text(built), ""
    with open(os.path.join(top, "lib/core/info.h"), "a", encoding="utf-8") as f:
        f.write("/* seen */\n")
    yield "another header has another id", text(made(top, options)) != text(built), ""


def main():
    libusdma, built, options, *dependents = sys.argv[1:]
    bad = n = 0
    with tempfile.TemporaryDirectory(prefix="usdma-id-") as folder:
        for points in check_libraries(libusdma, dependents, folder), check_id(built, options.split(","), folder):
            for name, good, why in points:
                n += 1
                bad += not good
                print(f"{'ok' if good else 'not ok'} {n} - {name}" + ("" if good else f"\n# {why}"), flush=True)
    print(f"1..{n}")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
