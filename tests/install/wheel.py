#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pip install of a copy of this tree into a virtual environment; runs programs with it; pip uninstall.  TAP.

Needs what `tools/packages install` installs; no network is used.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from install import TOP, Points, files_below, reorder, run  # noqa: E402
from sources import copy_tree  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-mesonpy
MODULES = """
import os, sys, acl, usdma, acl.rt
inside = [m.__file__.startswith(sys.prefix + os.sep) for m in (acl, usdma)]
assert all(inside), (acl.__file__, usdma.__file__)
usdma.Device("sim:mem=16M").close()
maps = open("/proc/self/maps").read()
for library in ("libusdma.so", "libusdma-sim.so", "libascendcl.so"):
    found = {line.split()[-1] for line in maps.splitlines() if line.endswith(library)}
    assert found and all(f.startswith(sys.prefix + os.sep) for f in found), (library, found)
"""


def why_not():
    lack = [t for t in ("meson", "ninja", "patchelf", "c++") if not shutil.which(t)]
    modules = subprocess.run([PYTHON, "-c", "import mesonpy, venv, ensurepip"], capture_output=True, text=True, check=False)
    if lack or modules.returncode:
        return f"tools/packages install installs what is missing: {' '.join(lack)} {modules.stderr.strip().splitlines()[-1:]}"
    return None


def steps(points, scratch):
    venv, tree = os.path.join(scratch, "venv"), os.path.join(scratch, "tree")
    python = os.path.join(venv, "bin/python")
    copy_tree(tree)
    if not points.add(*reorder(run([PYTHON, "-m", "venv", "--system-site-packages", venv]), "a virtual environment")):
        return
    before = set(files_below(venv))
    if not points.add(*reorder(run([python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index",
                                    "--no-compile", tree], PYTHONDONTWRITEBYTECODE="1"), "pip install .")):
        return
    stray = [f for f in set(files_below(venv)) - before if "/site-packages/" not in f]
    points.add(not stray, "installs modules, and nothing elsewhere", "\n".join(stray))
    clean = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1", "USDMA_DEVICES": "sim:mem=64M"}
    points.add(*reorder(run([python, "-c", MODULES], **clean), "the modules, and their libraries, are the environment's"))
    for example in sorted(glob.glob(os.path.join(TOP, "docs/examples/python/*.py"))):
        points.add(*reorder(run([python, example], **clean), f"{os.path.basename(example)} copies"))
    points.add(*reorder(run([python, "-m", "pip", "uninstall", "-y", "usdma"]), "pip uninstall"))
    left = {f for f in set(files_below(venv)) - before if "__pycache__" not in f}
    points.add(not left, "nothing is left behind", "\n".join(left))


def main():
    reason, points = why_not(), Points()
    if reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    scratch = tempfile.mkdtemp(prefix="usdma-wheel-")
    try:
        steps(points, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return points.end()


sys.exit(main())
