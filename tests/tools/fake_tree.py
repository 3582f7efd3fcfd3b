# SPDX-License-Identifier: BSD-3-Clause
"""Fake system trees for usdmactl, and the points of its tests."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

IOAT = ("0x8086", "0x2021", "0x088000")
DSA = ("0x8086", "0x0b25", "0x088000")
HISI = ("0x19e5", "0xa122", "0x088000")
EDU, NIC, BRIDGE = ("0x1234", "0x11e8", "0x00ff00"), ("0x8086", "0x10d3", "0x020000"), ("0x1b36", "0x000e", "0x060400")


class Tree:
    """A fake root: sysfs, procfs and the other files that usdmactl reads."""

    def __init__(self, top):
        self.top = top
        for d in ("sys/bus/pci/devices", "sys/bus/pci/drivers", "sys/kernel/iommu_groups", "proc/self", "dev/vfio",
                  "proc/sys/kernel", "etc/modprobe.d", "run"):
            os.makedirs(os.path.join(top, d))
        self.write("sys/bus/pci/drivers_probe", "")
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet\n")
        self.write("proc/sys/kernel/osrelease", "6.1.0-fake\n")
        self.write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n")
        self.memlock("unlimited")
        self.write("sys/devices/system/node/node0/cpulist", "0-3\n")
        self.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n")
        self.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "64\n")

    def path(self, name):
        return os.path.join(self.top, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def link(self, name, target):
        if os.path.lexists(self.path(name)):
            os.unlink(self.path(name))
        os.symlink(target, self.path(name))

    def memlock(self, soft, hard=None):
        self.write("proc/self/limits", "Limit  Soft Limit  Hard Limit  Units\n"
                   f"Max locked memory         {soft}                {hard or soft}                bytes\n")

    def driver(self, name):
        os.makedirs(self.path(f"sys/bus/pci/drivers/{name}"), exist_ok=True)
        self.write(f"sys/bus/pci/drivers/{name}/unbind", "")

    def device(self, bdf, ids, driver=None, group=None, numa=-1):
        base = f"sys/bus/pci/devices/{bdf}"
        for name, value in zip(("vendor", "device", "class"), ids):
            self.write(f"{base}/{name}", value + "\n")
        self.write(f"{base}/numa_node", f"{numa}\n")
        self.write(f"{base}/driver_override", "(null)\n")
        self.write(f"{base}/resource", "0x00000000fe000000 0x00000000fe0fffff 0x0000000000040200\n")
        if driver:
            self.driver(driver)
            self.link(f"{base}/driver", f"../../drivers/{driver}")
        if group is not None:
            os.makedirs(self.path(f"sys/kernel/iommu_groups/{group}/devices/{bdf}"))
            self.link(f"{base}/iommu_group", f"../../../../kernel/iommu_groups/{group}")

    def vfio(self, bound_groups=()):
        self.driver("vfio-pci")
        os.makedirs(self.path("sys/module/vfio_iommu_type1"), exist_ok=True)
        for name in ("vfio", *map(str, bound_groups)):
            self.write(f"dev/vfio/{name}", "")


class Suite:
    def __init__(self, program):
        self.program = program
        self.count = self.failed = 0
        self.scratch = tempfile.mkdtemp(prefix="usdma-ctl-")

    def tree(self):
        return Tree(tempfile.mkdtemp(dir=self.scratch))

    def run(self, *args, tree=None, env=None):
        command = [self.program, *(["--root", tree.top] if tree else []), *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                              env=os.environ | {"USDMA_DEVICES": "sim"} | (env or {}))

    def json(self, *args, tree=None):
        done = self.run("--json", *args, tree=tree)
        return done.returncode, json.loads(done.stdout)

    def doctor(self, tree=None):
        status, output = self.json("doctor", tree=tree)
        return status, output, {c["id"]: c for c in output["checks"]}

    def check(self, ok, name, detail=""):
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}")
        if not ok:
            print("\n".join("# " + line for line in str(detail).splitlines()))
        sys.stdout.flush()

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}", flush=True)

    def run_all(self, tests):
        """Runs the tests; returns the exit status."""
        try:
            for test in tests:
                try:
                    test(self)
                except Exception as e:  # for example output that cannot be parsed
                    self.check(False, f"{test.__name__}: {e!r}")
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        print(f"1..{self.count}")
        return 1 if self.failed or not self.count else 0


def ready_machine(s):
    """An IOMMU and one device, which is alone in its group and bound: nothing to fix."""
    t = s.tree()
    t.vfio([3])
    t.device("0000:00:04.0", EDU, "vfio-pci", 3)
    return t
