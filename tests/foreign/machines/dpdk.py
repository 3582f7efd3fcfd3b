# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's test program and its I/OAT driver from Debian 13, for a guest, with the libraries of the second root."""

import glob
import os
import re
import shutil

from machines import cache, root as second
from machines.root import must

RECIPE = "1"
# Drivers have their own packages, whose names end with the number of DPDK's interface.
FETCH = """apt-get -q update >/dev/null
drivers=$(apt-cache search --names-only '^librte-(dma-ioat|bus-pci|bus-vdev|mempool-ring)[0-9.]+$' | cut -d' ' -f1)
mkdir -p /mnt/deb/partial
apt-get -q -y --no-install-recommends --download-only -o Dir::Cache::archives=/mnt/deb install dpdk-dev $drivers"""
DRIVERS = ("bus_pci", "bus_vdev", "mempool_ring", "dma_ioat")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def name(root):
    return cache.key(RECIPE, FETCH, *(f"{k} {v}" for k, v in sorted(root.versions.items())))


def _make(root, folder, say):
    say("DPDK: fetched from Debian 13, once")
    work = os.path.join(folder, "work")
    os.mkdir(work)
    must(second.inside(root.path, FETCH, 900, work), "fetching DPDK")
    packages = glob.glob(os.path.join(work, "deb/*.deb"))
    for deb in packages:
        must(second.run(["dpkg-deb", "-x", deb, os.path.join(folder, "tree")]), f"unpacking {deb}")
    found = [m.group(1) for m in (re.search(r"/dpdk-dev_([0-9.]+)", p) for p in packages) if m]
    if not found or not os.access(os.path.join(folder, "tree/usr/bin/dpdk-test"), os.X_OK):
        raise cache.CacheError("Debian's packages of DPDK have no dpdk-test where they had it before")
    shutil.rmtree(work)
    return {"version": found[0]}


class Dpdk:
    """The files of DPDK that a guest needs, below /dpdk."""

    def __init__(self, root, folder):
        self.version = cache.manifest(folder)["version"]
        tree = os.path.join(folder, "tree")
        self._path = [os.path.join(tree, LIBRARIES), os.path.join(root.path, LIBRARIES), os.path.join(root.path, "lib/x86_64-linux-gnu")]
        self._loader = os.path.join(root.path, LIBRARIES, "ld-linux-x86-64.so.2")
        self._program = os.path.join(tree, "usr/bin/dpdk-test")
        self._drivers = [glob.glob(os.path.join(tree, LIBRARIES, f"dpdk/pmds-*/librte_{d}.so.*"))[0] for d in DRIVERS]

    def files(self):
        """{path in the guest: file on this machine}"""
        out = {"dpdk/ld.so": self._loader, "dpdk/dpdk-test": self._program}
        out.update({f"dpdk/{os.path.basename(d)}": d for d in self._drivers})
        for path in (self._program, *self._drivers):
            shown = must(second.run([self._loader, "--library-path", ":".join(self._path), "--list", path]), f"the libraries of {path}")
            out.update({f"dpdk/{lib}": at for lib, at in re.findall(r"(\S+) => (/\S+)", shown)})
        return out

    def command(self, test):
        plugins = " ".join(f"-d /dpdk/{os.path.basename(d)}" for d in self._drivers)
        return (f"DPDK_TEST={test} /dpdk/ld.so --library-path /dpdk /dpdk/dpdk-test -l 0 --in-memory -m 128 --iova-mode=va "
                f"--no-telemetry {plugins}")


def get(root, say, at=cache.AT):
    return Dpdk(root, cache.made(at, "dpdk13", name(root), lambda folder: _make(root, folder, say), say))
