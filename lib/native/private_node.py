#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the version script of libusdma with the build's id in the name of the private node.

private_node.py MAP OUTPUT DEPFILE VERSION [OPTION...]

The id is a hash of what the dependent libraries are compiled with: the headers of driver, lib/core and lib/share, the names in the maps
beside this file, and the options that change what the headers mean.  All libraries of a build have the same.  The same sources and options have the same id, wherever and whenever they are
built; a change that leaves the headers as they are links nothing anew.  What the dynamic linker says of another build's
library is the node's name, which so carries the remedy.
"""
import glob
import hashlib
import os
import sys

NODE = "USDMA_PRIVATE"
REMEDY = "install_usdma_libraries_of_one_build"


def headers(top):
    for folder in ("driver/base", "driver/copy", "driver/dma", "driver/pci", "driver/sim", "driver/vfio", "driver/vfio_user", "lib/core", "lib/share"):
        for at, _, names in os.walk(os.path.join(top, folder)):
            yield from (os.path.join(at, n) for n in names if n.endswith(".h"))


def main():
    script, output, depfile, version, *options = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    top, maps = os.path.dirname(os.path.dirname(here)), sorted(glob.glob(os.path.join(here, "*.map")))
    used = sorted(headers(top), key=lambda p: os.path.relpath(p, top))
    digest = hashlib.sha256("\n".join([version, *options]).encode())
    for path in [*maps, *used]:
        with open(path, "rb") as f:
            content = f.read()
        digest.update(b"%s %d\n" % (os.path.relpath(path, top).encode(), len(content)))
        digest.update(content)
    with open(script, encoding="utf-8") as f:
        text = f.read()
    made = text.replace(NODE + " {", f"{NODE}_{version}_{digest.hexdigest()[:12]}_{REMEDY} {{")
    if made == text:
        sys.exit(f"{script} has no node {NODE}")
    if not os.path.exists(output) or open(output, encoding="utf-8").read() != made:
        with open(output, "w", encoding="utf-8") as f:
            f.write(made)
    with open(depfile, "w", encoding="utf-8") as f:
        f.write(f"{output}: " + " ".join(p.replace(" ", "\\ ") for p in maps + used) + "\n")


main()
