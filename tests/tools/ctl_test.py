#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Tests of usdmactl on fake system trees and on this machine: the content of its
output, not the layout.  ctl_test.py USDMACTL USDMA-SIM; prints TAP.
"""

import ctypes
import fcntl
import json
import os
import select
import shlex
import shutil
import struct
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


def test_list(s):
    t = ready_machine(s)
    t.device("0000:00:05.0", EDU, None, 7, numa=1)
    t.device("0000:00:06.0", EDU, None, 8)
    t.device("0000:00:06.1", NIC, "e1000e", 8)
    status, found = s.json("list", tree=t)
    by = {d["address"]: d for d in found}
    s.check(status == 0 and sorted(by) == ["0000:00:04.0", "0000:00:05.0", "0000:00:06.0"], "list: only the supported devices", found)
    s.check(by["0000:00:04.0"]["engine"] == "edu" and by["0000:00:04.0"]["driver"] == "vfio-pci", "list: engine and driver", found)
    s.check(by["0000:00:05.0"]["driver"] is None and by["0000:00:05.0"]["numa_node"] == 1, "list: a device without a driver, and its NUMA node", found)
    s.check(by["0000:00:06.0"]["group_members"] == ["0000:00:06.0", "0000:00:06.1"]
            and by["0000:00:06.0"]["group_sharers"] == ["0000:00:06.1 (e1000e)"], "list: the group's members, and those that prevent its use", found)
    s.check(len(s.json("list", "--all", tree=t)[1]) == 4, "list --all: all devices")
    text = s.run("list", tree=t).stdout
    s.check("0000:00:04.0" in text and "group 3" in text and max(map(len, text.splitlines())) <= 80, "list: readable at 80 columns", text)
    s.check(s.json("list", tree=s.tree()) == (0, []), "list: no devices")


def test_bind_refusals(s):
    t = ready_machine(s)
    t.device("0000:00:06.0", EDU, None, 8)
    t.device("0000:00:06.1", NIC, "e1000e", 8)
    t.device("0000:00:07.0", NIC, "e1000e", 9)
    t.write("sys/bus/pci/devices/0000:00:07.0/net/eth0/mtu", "1500\n")
    t.device("0000:00:08.0", EDU, "edu_pci")
    t.device("0000:00:1e.0", BRIDGE, "pcieport", 10)
    for bdf, word, name in (("0000:00:06.0", "0000:00:06.1", "a shared group, naming the other"),
                            ("0000:00:07.0", "eth0", "a device in use, naming its interface"),
                            ("0000:00:08.0", "IOMMU", "a device without an IOMMU"),
                            ("0000:00:1e.0", "bridge", "a bridge"),
                            ("0000:00:09.0", "0000:00:09.0", "a device that does not exist"),
                            ("nonsense", "nonsense", "an invalid address")):
        done = s.run("bind", bdf, tree=t)
        s.check(done.returncode == 1 and word in done.stderr, f"bind refuses {name}", done)
    s.check(s.json("bind", "0000:00:04.0", tree=t)[1]["driver"] == "vfio-pci", "bind: a bound device stays bound")
    s.check(not os.path.exists(t.path("run/usdma")), "bind: a refusal saves nothing in /run")
    t.device("0000:00:0a.0", EDU)
    done = s.run("bind", "0000:00:0a.0", tree=t)
    s.check(done.returncode == 1 and "no IOMMU group" in done.stderr and not os.listdir(t.path("run/usdma/former-driver")),
            "bind: no group with the new driver is an error, and the change is undone", done)
    u = s.tree()
    u.device("0000:00:04.0", EDU, None, 3)
    done = s.run("bind", "0000:00:04.0", tree=u)
    s.check(done.returncode == 1 and "modprobe vfio-pci" in done.stderr, "bind: the module is missing; the message says how to load it", done)


def test_bind_dry_run(s):
    t = s.tree()
    t.vfio()
    t.device("0000:00:04.0", EDU, "edu_pci", 3)
    status, output = s.json("bind", "0000:00:04.0", "--dry-run", tree=t)
    s.check(status == 0 and output["dry_run"] and output["former_driver"] == "edu_pci", "bind --dry-run: prints what it would do", output)
    with open(t.path("sys/bus/pci/devices/0000:00:04.0/driver_override"), encoding="utf-8") as f:
        untouched = f.read() == "(null)\n"
    s.check(untouched and not os.path.exists(t.path("run/usdma")), "bind --dry-run: changes nothing")


def test_ioat(s):
    t = ready_machine(s)
    t.device("0000:00:04.1", IOAT, "ioatdma", 4)
    t.device("0000:00:04.2", ("0x8086", "0x3c28", "0x088000"), None, 5)
    by = {d["address"]: d for d in s.json("list", tree=t)[1]}
    s.check(sorted(by) == ["0000:00:04.0", "0000:00:04.1"] and by["0000:00:04.1"]["engine"] == "ioat", "I/OAT: listed, an unsupported function is not", by)
    status, output, at = s.doctor(t)
    s.check(status == 0 and at["devices"]["state"] == "advice" and "ioatdma" in at["devices"]["text"] and
            "bind 0000:00:04.1" in at["devices"]["fix"] and "unbind 0000:00:04.1" in json.dumps(output),
            "I/OAT: a device at the kernel's driver: advice, with the commands that bind and return it", output)
    output = s.json("bind", "0000:00:04.1", "--dry-run", tree=t)[1]
    s.check(output["former_driver"] == "ioatdma" and output["driver"] == "vfio-pci", "I/OAT: bind names the former driver", output)
    t.device("0000:00:06.0", EDU, None, 8)
    s.check("0000:00:06.0" in s.doctor(t)[2]["devices"]["text"], "doctor: a missing driver is reported before advice")


def test_dsa(s):
    t = ready_machine(s)
    t.device("0000:6a:01.0", DSA, "idxd", 4)
    by = {d["address"]: d for d in s.json("list", tree=t)[1]}
    s.check(by["0000:6a:01.0"]["engine"] == "dsa", "DSA: listed", by)
    status, output, at = s.doctor(t)
    s.check(status == 1 and at["denylist"]["state"] == "failed" and "0000:6a:01.0" in at["denylist"]["text"] and
            "disable_denylist=1" in at["denylist"]["fix"], "DSA of Sapphire Rapids: the option that lifts VFIO's denylist", at)
    s.check(at["devices"]["state"] == "advice" and "idxd" in at["devices"]["text"] and "/dev/dsa" in json.dumps(output),
            "DSA: a device at the kernel's driver: advice", at)
    for device, driver in ((DSA, "vfio-pci"), (("0x8086", "0x11fb", "0x088000"), "idxd")):
        t = ready_machine(s)
        t.device("0000:6a:01.0", device, driver, 4)
        if driver == "vfio-pci":
            t.vfio([3, 4])
        s.check(s.doctor(t)[2]["denylist"]["state"] == "ok", f"DSA: {device[1]} at {driver} is not denied")
    t.write("sys/module/vfio_pci/parameters/disable_denylist", "Y\n")
    t.device("0000:6a:02.0", DSA, "idxd", 5)
    s.check(s.doctor(t)[2]["denylist"]["state"] == "ok", "DSA: the option lifts the denylist")


def test_hisi(s):
    t = ready_machine(s)
    t.device("0000:7b:00.0", HISI, "hisi_dma", 4)
    by = {d["address"]: d for d in s.json("list", tree=t)[1]}
    s.check(by["0000:7b:00.0"]["engine"] == "hisi", "HiSilicon: listed", by)
    status, output, at = s.doctor(t)
    s.check(status == 0 and at["devices"]["state"] == "advice" and "hisi_dma" in at["devices"]["text"] and
            "bind 0000:7b:00.0" in at["devices"]["fix"] and "unbind 0000:7b:00.0" in json.dumps(output),
            "HiSilicon: a device at the kernel's driver: advice, with the commands that bind and return it", output)


def test_unbind_in_use(s):
    t = ready_machine(s)
    os.makedirs(t.path("proc/4711/fd"))
    t.write("proc/4711/comm", "trainer\n")
    os.symlink(t.path("dev/vfio/3"), t.path("proc/4711/fd/5"))
    done = s.run("unbind", "0000:00:04.0", tree=t)
    s.check(done.returncode == 1 and "4711" in done.stderr and "trainer" in done.stderr, "unbind: refused while a process has the group open", done)


def test_doctor_ready(s):
    status, output, by = s.doctor(ready_machine(s))
    s.check(status == 0 and output["ok"] and output["failed"] == 0, "doctor: a ready machine has nothing to fix", output)
    s.check(all(by[i]["state"] == "ok" for i in ("iommu", "modules", "denylist", "devices", "permissions", "memlock", "huge_pages",
                                                 "numa")), "doctor: each check is ok", output)
    s.check([c["id"] for c in output["checks"]] == ["iommu", "modules", "denylist", "devices", "permissions", "memlock", "huge_pages",
                                                  "numa", "io_uring", "power", "settings"], "doctor: the checks are in the order in which to fix them", output)


def test_doctor_iommu(s):
    for table, cmdline, word in (("DMAR", "quiet", "intel_iommu=on"), ("DMAR", "intel_iommu=on", "dmesg"),
                                 ("IVRS", "amd_iommu=off", "amd_iommu=off"), (None, "quiet", "firmware-setup")):
        t = s.tree()
        t.device("0000:00:04.0", EDU)
        t.write("proc/cmdline", f"root=/dev/sda1 {cmdline}\n")
        if table:
            t.write(f"sys/firmware/acpi/tables/{table}", "x")
        status, _, by = s.doctor(t)
        s.check(status == 1 and by["iommu"]["state"] == "failed" and word in by["iommu"]["fix"],
                f"doctor: no IOMMU ({table}, {cmdline}), and the fix", by)
        s.check(by["devices"]["state"] == "failed", "doctor: without an IOMMU no device is ready", by)


def test_doctor_modules(s):
    t = ready_machine(s)
    shutil.rmtree(t.path("sys/bus/pci/drivers/vfio-pci"))
    os.unlink(t.path("sys/bus/pci/devices/0000:00:04.0/driver"))
    t.write("lib/modules/6.1.0-fake/modules.dep", "kernel/drivers/vfio/pci/vfio-pci.ko: kernel/drivers/vfio/vfio.ko\n")
    _, _, by = s.doctor(t)
    s.check(by["modules"]["state"] == "failed" and "modprobe" in by["modules"]["fix"], "doctor: a module to load", by)
    s.check("usdmactl bind 0000:00:04.0" in by["devices"]["fix"], "doctor: a device to bind", by)
    os.unlink(t.path("lib/modules/6.1.0-fake/modules.dep"))
    _, _, by = s.doctor(t)
    s.check("apt-get" in by["modules"]["fix"] and "6.1.0-fake" in by["modules"]["text"], "doctor: a kernel without the module", by)
    t.vfio([3])
    t.write("etc/modprobe.d/hardening.conf", "# no vfio\nblacklist vfio-pci\n")
    _, _, by = s.doctor(t)
    s.check(by["denylist"]["state"] == "failed" and "hardening.conf" in by["denylist"]["fix"], "doctor: a module on the denylist", by)
    t.write("etc/modprobe.d/hardening.conf", "# blacklist vfio-pci\noptions vfio-pci ids=1234:11e8\n")
    s.check(s.doctor(t)[2]["denylist"]["state"] == "ok", "doctor: comments and options are not denylist entries")


def test_doctor_group(s):
    t = ready_machine(s)
    t.device("0000:00:04.1", NIC, "e1000e", 3)
    _, _, by = s.doctor(t)
    s.check(by["devices"]["state"] == "failed" and "0000:00:04.1 (e1000e)" in by["devices"]["text"]
            and "0000:00:04.1" in by["devices"]["fix"], "doctor: a group with a device of another driver", by)
    t = s.tree()
    t.vfio()
    t.device("0000:00:04.0", EDU, None, 3)
    t.device("0000:00:05.0", EDU, None, 3)
    _, _, by = s.doctor(t)
    s.check(by["devices"]["state"] == "failed" and "0000:00:05.0" in by["devices"]["text"]
            and "usdmactl bind" not in by["devices"]["fix"], "doctor: a shared group; the fix is not a bind that would be refused", by)


def test_doctor_memlock(s):
    for soft, hard, cap, state, word in (("65536", "65536", 0, "failed", "limits.d"),
                                         ("65536", "unlimited", 0, "failed", "ulimit -l unlimited"),
                                         ("65536", "134217728", 0, "failed", "ulimit -l 131072"),
                                         ("65536", "65536", 1 << 14, "ok", ""),
                                         ("134217728", "134217728", 0, "ok", "")):
        t = ready_machine(s)
        t.memlock(soft, hard)
        t.write("proc/self/status", f"Name:\tx\nCapEff:\t{cap:016x}\n")
        _, _, by = s.doctor(t)
        s.check(by["memlock"]["state"] == state and word in (by["memlock"]["fix"] or ""),
                f"doctor: memlock {soft}/{hard}, capabilities {cap:#x}: {state}", by["memlock"])


def test_doctor_permissions(s):
    t = ready_machine(s)
    ordinary, number = {}, os.getegid()
    if os.geteuid() == 0:  # permissions do not apply to root: run as another user
        ordinary = {"user": 65534, "group": 65534, "extra_groups": []}
        for path in (s.scratch, t.top):
            os.chmod(path, 0o755)
        os.chmod(t.path("dev/vfio/vfio"), 0o666)
        number = 4242
        os.chown(t.path("dev/vfio/3"), 0, number)
    t.write("etc/group", f"root:x:0:\nusdma:x:{number}:\n")

    def permissions():
        try:
            done = subprocess.run([s.program, "--root", t.top, "--json", "doctor"], capture_output=True, text=True, timeout=60, check=False,
                                  env={"USDMA_DEVICES": "sim"}, **ordinary)
        except PermissionError:
            return None
        return [c for c in json.loads(done.stdout)["checks"] if c["id"] == "permissions"][0]
    os.chmod(t.path("dev/vfio/3"), 0)
    point = permissions()
    if not point:
        return s.skip("doctor: no permission", f"user 65534 may not run {s.program}")
    s.check(point["state"] == "failed" and point["fix"] == 'sudo usermod -aG usdma "$USER" # then log in again' and "lock" in point["price"],
            "doctor: no permission; the fix is to join the group that owns the file", point)
    t.write("etc/group", "root:x:0:\n")
    point = permissions()
    return s.check(point["state"] == "failed" and point["fix"].startswith("sudo chown") and "/dev/vfio/3" in point["fix"]
                   and "next boot" in point["price"], "doctor: no permission, and the owning group has no name", point)


def cdev_machine(s):
    """A kernel without VFIO groups: the device's cdev and /dev/iommu."""
    t = s.tree()
    t.driver("vfio-pci")
    t.device("0000:00:04.0", EDU, "vfio-pci", 3)
    t.write("sys/bus/pci/devices/0000:00:04.0/vfio-dev/vfio0/dev", "511:0\n")
    t.write("dev/iommu", "")
    t.write("dev/vfio/devices/vfio0", "")
    return t


def test_doctor_cdev(s):
    t = cdev_machine(s)
    status, output, by = s.doctor(t)
    s.check(status == 0 and by["permissions"]["state"] == "ok" and "/dev/iommu" in by["permissions"]["text"],
            "doctor: a kernel without VFIO groups", output)
    os.unlink(t.path("dev/vfio/devices/vfio0"))
    _, _, by = s.doctor(t)
    s.check(by["permissions"]["state"] == "failed" and "/dev/vfio/devices/vfio0" in by["permissions"]["fix"],
            "doctor: the device's cdev is missing and is named", by["permissions"])
    t = cdev_machine(s)
    t.vfio([3])
    for name in ("iommu", "vfio/devices/vfio0"):
        os.unlink(t.path(f"dev/{name}"))
    _, _, by = s.doctor(t)
    s.check(by["permissions"]["state"] == "ok" and "/dev/vfio/vfio" in by["permissions"]["text"],
            "doctor: the group's files are enough where iommufd is missing", by["permissions"])


def test_doctor_silent(s):
    t = ready_machine(s)
    for config, state in ((b"\x34\x12\xe8\x11" + bytes(60), "ok"), (b"\xff" * 64, "failed")):
        with open(t.path("sys/bus/pci/devices/0000:00:04.0/config"), "wb") as f:
            f.write(config)
        _, _, by = s.doctor(t)
        s.check(by["devices"]["state"] == state and (state == "ok" or "remove" in by["devices"]["fix"]),
                f"doctor: a device whose configuration begins with {config[:4].hex()} is {state}", by["devices"])


def test_noiommu(s):
    t = s.tree()
    t.vfio()
    t.device("0000:00:04.0", EDU, "vfio-pci", 0)
    t.device("0000:00:05.0", EDU, None)
    t.write("sys/kernel/iommu_groups/0/name", "vfio-noiommu\n")
    t.write("dev/vfio/noiommu-0", "")
    _, output, by = s.doctor(t)
    s.check(by["iommu"]["state"] == "failed" and by["devices"]["state"] == "failed" and "noiommu" in by["devices"]["text"],
            "doctor: a group of noiommu mode does not count as an IOMMU", output)
    found = {d["address"]: d for d in s.json("list", tree=t)[1]}
    s.check(found["0000:00:04.0"]["iommu_group"] is None, "list: a group of noiommu mode is not listed", found)
    done = s.run("bind", "0000:00:05.0", "--noiommu", tree=t)
    s.check(done.returncode != 0 and not os.path.exists(t.path("run/usdma")), "bind: there is no option to do without an IOMMU", done)


def test_doctor_advice(s):
    t = ready_machine(s)
    t.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n")
    t.write("sys/devices/system/node/node1/cpulist", "4-7\n")
    t.write("proc/sys/kernel/io_uring_disabled", "2\n")
    t.write("sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "350\n")
    t.write("sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "0\n")
    status, output, by = s.doctor(t)
    for point, word in (("huge_pages", "nr_hugepages"), ("numa", "USDMA_NUMA_NODE"), ("io_uring", "io_uring_disabled=1"),
                        ("power", "cpupower")):
        s.check(by[point]["state"] == "advice" and word in by[point]["fix"], f"doctor: advice on {point}", by[point])
    s.check(status == 0 and output["ok"], "doctor: advice is not a failure", output)


QAT = ("0x8086", "0x37c8", "0x0b4000")


def without_io_uring():
    """Installs a seccomp filter as containers do: io_uring_setup fails with EPERM."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x50000 | 1), (0x06, 0, 0, 0x7fff0000)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        os._exit(9)


def cases_of_price(s):
    """Each check whose fix has a price: its id, the tree, a word of the price, a word of the fix."""
    t = s.tree()
    t.write("sys/firmware/acpi/tables/DMAR", "x")
    yield "iommu", t, "speed", "intel_iommu=on "
    t = ready_machine(s)
    t.write("etc/modprobe.d/hardening.conf", "install vfio_pci /bin/false\n")
    yield "denylist", t, "find out why", "hardening.conf"
    t = ready_machine(s)
    t.device("0000:00:09.0", QAT, "vfio-pci", 9)
    yield "denylist", t, "exploit its faults", "/etc/modprobe.d/usdma-denylist.conf"
    t = ready_machine(s)
    t.device("0000:00:04.1", NIC, "e1000e", 3)
    yield "devices", t, "stops working", "unbind"
    t = ready_machine(s)
    t.memlock("65536")
    yield "memlock", t, "all memory", "echo '@usdma - memlock unlimited' | sudo tee /etc/security/limits.d/usdma-local.conf"
    t = ready_machine(s)
    t.memlock("65536")
    t.write("etc/security/limits.d/usdma.conf", "@usdma soft memlock unlimited\n")
    yield "memlock", t, "all memory", 'sudo usermod -aG usdma "$USER" # then log in again'
    t = ready_machine(s)
    t.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n")
    yield "huge_pages", t, "256 MiB", "nr_hugepages"
    t = ready_machine(s)
    t.write("proc/sys/kernel/io_uring_disabled", "2\n")
    yield "io_uring", t, "group usdma", "kernel.io_uring_group=$(getent group usdma"
    t = ready_machine(s)
    t.write("sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "350\n")
    yield "power", t, "power", "cpupower"
    t = ready_machine(s)
    os.unlink(t.path("dev/vfio/vfio"))
    yield "permissions", t, "these devices", "docker run --device /dev/vfio/vfio --device /dev/vfio/3 "


def test_doctor_prices(s):
    """A fix names its price, and is the narrowest one that helps."""
    wide = ("unconfined", "'* -", "disabled=0", "/etc/modprobe.d/usdma.conf", "limits.d/usdma.conf &&", "iommu=pt", "--device /dev/vfio ")
    for point, tree, price, fix in cases_of_price(s):
        _, output, by = s.doctor(tree)
        s.check(price in (by[point]["price"] or "") and fix in (by[point]["fix"] or ""), f"doctor: the price of {point}: {price}", by[point])
        s.check(not [w for w in wide for c in output["checks"] if w in (c["fix"] or "")], f"doctor: no wider fix than needed for {point}", output)
        text = s.run("doctor", tree=tree).stdout
        s.check(text.find("    price: ") < text.find("    fix: ") and "price: " in text and max(
            len(line) for line in text.splitlines() if "fix: " not in line) <= 80, f"doctor: the price of {point} is printed before the command", text)
    t = ready_machine(s)
    odd = "it's; touch owned $(id) `id`.conf"
    t.write(f"etc/modprobe.d/{odd}", "blacklist vfio-pci\n")
    fix = s.doctor(t)[2]["denylist"]["fix"]
    s.check(shlex.split(fix)[-1] == f"/etc/modprobe.d/{odd}", "doctor: a file's name is quoted as one word of the command", fix)
    status, output, by = s.doctor(ready_machine(s))
    s.check(status == 0 and not any(c["price"] for c in output["checks"]), "doctor: no price without advice", output)


def test_doctor_in_a_container(s):
    done = subprocess.run([s.program, "--json", "doctor"], capture_output=True, text=True, timeout=60, check=False,
                          preexec_fn=without_io_uring, env=dict(os.environ, USDMA_DEVICES="sim"))
    point = [c for c in json.loads(done.stdout)["checks"] if c["id"] == "io_uring"][0]
    s.check(point["state"] == "advice" and "seccomp=usdma.json" in point["fix"] and "container" in point["price"]
            and "unconfined" not in point["fix"], "doctor: in a container the fix is a profile with io_uring, not to run unconfined", point)
    command = point["fix"].split(" #")[0]
    if not shutil.which("jq"):
        return s.skip("doctor: the command creates that profile", "jq is not installed")
    with open(os.path.join(s.scratch, "default.json"), "w", encoding="utf-8") as f:
        json.dump({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}, f)
    made = subprocess.run(["sh", "-c", command], cwd=s.scratch, capture_output=True, text=True, check=False)
    with open(os.path.join(s.scratch, "usdma.json"), encoding="utf-8") as f:
        calls = [n for c in json.load(f)["syscalls"] for n in c["names"]]
    s.check(made.returncode == 0 and set(calls) == {"read", "io_uring_setup", "io_uring_enter", "io_uring_register"},
            "doctor: the command creates that profile", made)


def test_doctor_here(s):
    """On this machine: checks whose result the test can determine by itself."""
    status, output, by = s.doctor()
    groups = os.path.isdir("/sys/kernel/iommu_groups") and os.listdir("/sys/kernel/iommu_groups")
    s.check((by["iommu"]["state"] == "ok") == bool(groups), "doctor here: the IOMMU", by["iommu"])
    loaded = os.path.isdir("/sys/bus/pci/drivers/vfio-pci") and (os.path.isdir("/sys/module/vfio_iommu_type1")
                                                                 or os.path.exists("/dev/iommu"))
    s.check((by["modules"]["state"] == "ok") == loaded, "doctor here: the modules", by["modules"])
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", encoding="ascii") as f:
        free = int(f.read())
    s.check((by["huge_pages"]["state"] == "ok") == (free > 0), "doctor here: huge pages", by["huge_pages"])
    s.check((status == 0) == output["ok"] == (not any(c["state"] == "failed" for c in output["checks"])),
            "doctor here: the exit status is the result", output)
    s.check(all(c["fix"] for c in output["checks"] if c["state"] in ("failed", "advice")), "doctor here: each failed check has a fix", output)


def test_info_and_reset(s):
    status, output = s.json("info", "sim:mem=64M:channels=8")
    s.check(status == 0 and output["engine"]["driver"] == "sdma" and output["engine"]["memory_size"] == 64 << 20
            and output["engine"]["channels"] == 8, "info: the engine's limits", output)
    for device, env, variant in (("sim", {}, "cpu"), ("sim:faults=", {}, "staging"), ("sim:latency=1", {}, "staging"),
                                 ("sim", {"USDMA_PAGEABLE": "staging"}, "staging"), ("sim:timing=late", {}, "staging")):
        done = s.run("--json", "info", device, env=env)
        s.check(json.loads(done.stdout)["engine"]["pageable"] == variant, f"info: how pageable memory is copied, {device} {env}", done)
    s.check(any(r["name"] == "BAR2" and r["size"] == 64 << 20 for r in output["regions"]) and output["interrupts"]["MSI-X"] > 0
            and any(c["name"] == "MSI-X" for c in output["capabilities"]), "info: regions, interrupts, capabilities", output)
    t = ready_machine(s)
    t.device("0000:00:05.0", EDU, "edu_pci", 7)
    status, output = s.json("info", "0000:00:05.0", tree=t)
    s.check(status == 0 and output["pci"]["driver"] == "edu_pci" and output["regions"][0]["size"] == 1 << 20
            and "bind" in output["note"], "info: of a device that is not bound", output)
    status, output = s.json("info")
    s.check(status == 0 and output["devices"] == ["sim"] and output["settings"]["devices"]["source"] == "environment",
            "info: the settings in force", output)
    s.check(s.json("reset", "sim") == (0, {"device": "sim", "reset": True}), "reset: done")
    done = s.run("info", "vfio-user:/nonexistent/socket")
    s.check(done.returncode == 1 and "/nonexistent/socket" in done.stderr, "info: no server at the socket", done)


def test_settings(s):
    conf = os.path.join(s.scratch, "a.conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("# mine\nspin_us = 33\nbounce_chunk = 128K\n")
    done = s.run("--json", "info", env={"USDMA_CONFIG": conf, "USDMA_BOUNCE_CHUNK": "1M"})
    got = json.loads(done.stdout)["settings"]
    s.check(got["spin_us"]["value"] == 33 and got["spin_us"]["where"] == conf + ":2" and got["spin_us"]["default"] == 50,
            "settings: a value of the file, with its line", got)
    s.check(got["bounce_chunk"]["value"] == 1 << 20 and got["bounce_chunk"]["where"] == "USDMA_BOUNCE_CHUNK"
            and got["wait"]["source"] == "default", "settings: the environment overrides the file, and the file the default", got)
    home = os.path.join(s.scratch, "home")
    os.makedirs(os.path.join(home, ".config/usdma"))
    with open(os.path.join(home, ".config/usdma/usdma.conf"), "w", encoding="utf-8") as f:
        f.write("wait = poll\n")
    done = s.run("--json", "info", env={"HOME": home, "XDG_CONFIG_HOME": "", "USDMA_CONFIG": ""})
    got = json.loads(done.stdout)["settings"]
    s.check(got["wait"]["value"] == "poll" and "home/.config" in got["wait"]["where"], "settings: the user's own file", got)
    with open(conf, "w", encoding="utf-8") as f:
        f.write("spin_us = 33\n\nspinn_us = 3\n")
    done = s.run("info", env={"USDMA_CONFIG": conf})
    s.check(done.returncode == 1 and conf + ":3" in done.stderr and "mean spin_us" in done.stderr,
            "settings: a misspelt name is reported with its line and the nearest name", done)
    done = s.run("info", env={"USDMA_SPIN_US": "many"})
    s.check(done.returncode == 1 and "USDMA_SPIN_US=many" in done.stderr and "1000000" in done.stderr,
            "settings: an invalid variable is reported with the valid range", done)
    done = s.run("--json", "doctor", env={"USDMA_CONFIG": conf})
    point = [c for c in json.loads(done.stdout)["checks"] if c["id"] == "settings"][0]
    s.check(point["state"] == "failed" and "+3 " + conf in point["fix"], "settings: doctor reports an invalid file", point)
    done = s.run("--json", "doctor", env={"USDMA_CONFIG": "/dev/null", "USDMA_SPINUS": "1"})
    point = [c for c in json.loads(done.stdout)["checks"] if c["id"] == "settings"][0]
    s.check(point["state"] == "advice" and "USDMA_SPIN_US" in point["text"], "settings: doctor reports an unknown variable", point)
    t = ready_machine(s)
    t.write("etc/usdma/usdma.conf", "wait = never\n")
    _, output = s.json("doctor", tree=t)
    point = [c for c in output["checks"] if c["id"] == "settings"][0]
    s.check(point["state"] == "failed" and "usdma.conf:1" in point["text"], "settings: doctor reads the tree's file", point)


def test_tune(s):
    def setting(name, now, proposed):
        return {"name": name, "now": now, "proposed": proposed, "what": "64 B", "unit": "us", "before": 2.5, "after": 1.25}
    result, conf = os.path.join(s.scratch, "result.json"), os.path.join(s.scratch, "new/dir/usdma.conf")
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [setting("spin_us", "50", "20"), setting("bounce_chunk", "512K", "64K"),
                                setting("bounce_count", "4", "4"), setting("stripe", "0", "1M")]}, f)
    done = s.run("tune", "--from", result)
    s.check(done.returncode == 0 and "2.50 -> 1.25 us" in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
            and not os.path.exists(conf), "tune: prints the gain, writes nothing", done)
    s.check(s.run("tune", "--from", result, "--write", conf).returncode == 0 and os.path.exists(conf), "tune: creates a new file")
    done = s.run("--json", "info", env={"USDMA_CONFIG": conf})
    got = json.loads(done.stdout)["settings"]
    s.check(got["spin_us"]["value"] == 20 and got["stripe"]["value"] == 1 << 20 and got["bounce_count"]["source"] == "default",
            "tune: the library reads the written file", got)
    with open(conf, "w", encoding="utf-8") as f:
        f.write("# my own\nSPIN_US = 7 # old\n\nwait = poll\n")
    os.chmod(conf, 0o640)
    s.run("tune", "--from", result, "--write", conf)
    with open(conf, encoding="utf-8") as f:
        lines = f.read().splitlines()
    s.check([line.split("#")[0].strip() for line in lines] == ["", "spin_us = 20", "", "wait = poll", "bounce_chunk = 64K", "stripe = 1M"]
            and lines[0] == "# my own" and os.stat(conf).st_mode & 0o777 == 0o640 and len(os.listdir(os.path.dirname(conf))) == 1,
            "tune: other lines, the order and the mode of the file do not change", lines)
    with open(conf, "w", encoding="utf-8") as f:
        f.write("wait = never\n")
    done = s.run("tune", "--from", result, "--write", conf)
    with open(conf, encoding="utf-8") as f:
        s.check(done.returncode == 1 and conf + ":1" in done.stderr and f.read() == "wait = never\n",
                "tune: an invalid file is not changed", done)
    for text in ("", "{}", '{"settings": [{"name": 5}]}', json.dumps({"settings": [setting("spin_us", "50", "x\nwait = poll")]})):
        with open(result, "w", encoding="utf-8") as f:
            f.write(text)
        done = s.run("tune", "--from", result, "--write", conf)
        s.check(done.returncode == 1 and result in done.stderr, "tune: an invalid result", done)
    done = s.run("tune", "--device", "sim:mem=0")
    s.check(done.returncode == 1 and "calibration failed" in done.stderr, "tune: a calibration that fails is an error", done)


def test_thresholds(s):
    """tune: the lengths at which the library changes the copy routine, measured or set."""
    result = os.path.join(s.scratch, "skipped.json")
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [], "skipped": [{"name": "stripe", "why": "two engines and the program need three CPUs, here are 2 of them"}]}, f)

    def thresholds(**env):
        done = s.run("--json", "tune", "--from", result, env=dict(env, USDMA_CONFIG="/dev/null"))
        return json.loads(done.stdout)["thresholds"]
    base = thresholds()
    lengths = [n for n in (base["memmove_max"], base["look_from"], base["far_from"]) if n is not None]
    s.check(lengths == sorted(lengths) and base["near"] and base["far"] and (base["look_from"] is None or base["near_below_ticks"] > 0),
            "tune: the copy routines and their thresholds", base)
    s.check(base["direct_store_max"] == 4096 and base["stripe_from"] is None, "tune: thresholds by default", base)
    s.check(thresholds(USDMA_STRIPE="1M", USDMA_DIRECT_STORE="32K").items() >= {"stripe_from": 1 << 20, "direct_store_max": 32768}.items(),
            "tune: thresholds that are set")
    s.check(thresholds(USDMA_STRIPE="1K")["stripe_from"] == 131072, "tune: the effective stripe is at least two of the smallest parts")
    remote = base["far"]  # the routine for CPUs of another LLC
    for rows, name in (("1", "non-temporal"), ("2", "two pages at once"), ("4", "four pages at once")):
        s.check(remote == "memmove" or name in thresholds(USDMA_COPY_ROWS=rows)["far"], f"tune: copy_rows {rows} is used")
    for env, words in (({}, ("4 KiB", "one engine")), ({"USDMA_STRIPE": "2M", "USDMA_DIRECT_STORE": "0", "USDMA_PAGEABLE": "staging"}, ("2 MiB", "staging buffers"))):
        done = s.run("tune", "--from", result, env=dict(env, USDMA_CONFIG="/dev/null"))
        s.check(all(w in done.stdout for w in ("memmove", remote, "three CPUs", *words))
                and max(map(len, done.stdout.splitlines())) <= 80, f"tune: the thresholds as text {env}", done)
    with open(result, "w", encoding="utf-8") as f:
        f.write('{"settings": [], "skipped": [1]}')
    done = s.run("tune", "--from", result)
    s.check(done.returncode == 1 and result in done.stderr, "tune: an invalid list of skipped settings", done)


def test_selftest(s):
    source, back = os.path.join(s.scratch, "in"), os.path.join(s.scratch, "out")
    with open(source, "wb") as f:
        f.write(os.urandom(3 * 1048576 + 17))
    status, output = s.json("selftest", "sim:mem=64M", "--size", "1M", "--file", source, "--out", back)
    s.check(status == 0 and output["ok"] and all(x["ok"] for x in output["steps"]) and len(output["steps"]) == 5, "selftest: all steps", output)
    with open(source, "rb") as a, open(back, "rb") as b:
        s.check(a.read() == b.read(), "selftest: the file was read back unchanged")
    done = s.run("selftest", "sim:mem=64M", "--size", "1G")
    s.check(done.returncode == 1 and "--size" in done.stderr, "selftest: too large for the device", done)
    done = s.run("selftest", "sim:mem=64M", "--file", "/nonexistent", "--out", back)
    s.check(done.returncode == 1 and "/nonexistent" in done.stdout, "selftest: a file that does not exist fails", done)


def test_stat(s):
    """A process that has copied and now waits: stat reads its totals."""
    fifo = os.path.join(s.scratch, "fifo")
    os.mkfifo(fifo)
    user = subprocess.Popen([s.program, "selftest", "sim:mem=64M", "--size", "100K", "--file", fifo, "--out", "/dev/null"],
                            stdout=subprocess.DEVNULL)
    with open(fifo, "wb") as f:  # opened when the process has done its other steps
        status, output = s.json("stat", "--pid", str(user.pid), "--count", "1", "--interval", "0.05")
        mine = output["processes"]
        npu = json.loads(s.run("--json", "npu-smi", env={"USDMA_DEVICES": "sim:mem=64M"}).stdout)[0]
        users = [u for u in npu["processes"] if u["pid"] == user.pid]
        s.check(len(users) == 1 and npu["memory_size"] == 64 << 20 and 0 < users[0]["memory_used"] <= 64 << 20,
                "npu-smi: the device's memory that the process uses", npu)
        s.check(status == 0 and len(mine) == 1 and mine[0]["pid"] == user.pid and mine[0]["device"] == "sim:mem=64M"
                and mine[0]["driver"] == "sdma", "stat: the process and its device", output)
        # two copies of the pinned step, three within the device, six in odd pieces; pageable copies are counted in addition
        s.check(mine and mine[0]["copies"] >= 11 and mine[0]["bytes"] >= 7 * 102400 and mine[0]["faults"] == 0,
                "stat: what it has copied", output)
        before = mine[0]["bytes"] if mine else 0
        f.write(b"x" * 102400)
        f.flush()
        for _ in range(200):
            after = s.json("stat", "--pid", str(user.pid), "--count", "1", "--interval", "0.05")[1]["processes"][0]["bytes"]
            if after >= before + 2 * 102400:
                break
        s.check(after == before + 2 * 102400, "stat: the counters are updated", (before, after))
        text = s.run("stat", "--count", "1", "--interval", "0.05").stdout
        s.check(str(user.pid) in text and "sim:mem=64M" in text and max(map(len, text.splitlines())) <= 80, "stat: readable", text)
    s.check(user.wait(60) == 0, "stat: the observed process succeeds")
    done = s.run("stat", "--pid", str(os.getpid()), "--count", "1")
    s.check(done.returncode == 1 and str(os.getpid()) in done.stderr, "stat: a process that does not use usdma", done)


def test_stat_retained(s):
    """stat reports memory that a process retains for devices that it lost and closed, also if it has no open device."""
    fd = os.memfd_create("usdma-stats", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096 + 16 * 1024 * 64)
    os.pwrite(fd, struct.pack("=8sIIIIQQ", b"usdmast1", 1, os.getpid(), 16, 1024, 2, 5 << 20), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    try:
        args = ("stat", "--pid", str(os.getpid()), "--count", "1", "--interval", "0.05")
        status, output = s.json(*args)
        s.check(status == 0 and not output["processes"] and [(k["pid"], k["devices"], k["bytes"]) for k in output["kept"]] == [(os.getpid(), 2, 5 << 20)],
                "stat: lost devices that may still write", output)
        text = s.run(*args).stdout
        s.check("2 lost devices may still write: 5120 KiB out of use" in text and max(map(len, text.splitlines())) <= 80,
                "stat: lost devices, readable", text)
    finally:
        os.close(fd)


def test_sim(s, program):
    control = os.path.join(s.scratch, "control")
    ready, ready_writer = os.pipe()
    sim = subprocess.Popen([program, "--socket", os.path.join(s.scratch, "dev"), "--control", control, "--mem", "16M",
                            "--ready-fd", str(ready_writer)], pass_fds=[ready_writer], stdout=sys.stderr)
    os.close(ready_writer)
    try:
        s.check(select.select([ready], [], [], 20)[0] and os.read(ready, 1), "sim: usdma-sim serves")
        done = s.run("sim", control, "faults", "fail@7")
        s.check(done.returncode == 0 and "fail@7" in done.stdout, "sim: rules", done.stdout + done.stderr)
        status, state = s.json("sim", control, "state")
        s.check(status == 0 and "fail@7" in [r.get("rule") for r in state["faults"]], "sim: state", state)
        done = s.run("sim", control, "faults", "fail@")
        s.check(done.returncode == 1 and "ACTION@N" in done.stderr, "sim: an invalid rule", done.stderr)
        done = s.run("sim", control, "clear")
        s.check(done.returncode == 0 and "faults: none" in done.stdout, "sim: clear", done.stdout + done.stderr)
    finally:
        os.close(ready)
        sim.terminate()
        s.check(sim.wait(60) == 0, "sim: usdma-sim exits on SIGTERM")
    done = s.run("sim", control, "state")
    s.check(done.returncode == 1 and "is usdma-sim running" in done.stderr, "sim: no server at the socket", done.stderr)
    s.check(s.run("sim").returncode == 2, "sim: the socket is a required argument")


NPU_COLUMNS = [0, 28, 44, 97]


def cells(line):
    """The text between the bars; None: the bars are not at the columns of npu-smi."""
    bars = [i for i, c in enumerate(line) if c == "|"]
    return [line[a + 1:b].split() for a, b in zip(bars, bars[1:])] if bars == NPU_COLUMNS else None


def test_npu_smi(s):
    done = s.run("npu-smi", env={"USDMA_DEVICES": "sim:mem=61M,vfio-user:/nonexistent"})
    lines = done.stdout.splitlines()
    s.check(done.returncode == 0 and {len(line) for line in lines} == {98}, "npu-smi: a table of 98 columns", done.stdout)
    s.check(lines[1].split()[1:3] == ["npu-smi", "25.2.0"] and lines[3].split("|")[1].split() == ["NPU", "Name"], "npu-smi: heading", done.stdout)
    rows = [cells(line) for line in lines if cells(line) and cells(line)[0][0].isdigit()]
    s.check(rows == [[["0", "Ascend910"], ["OK"], ["NA", "NA", "0", "/", "0"]],
                     [["0", "0"], ["NA"], ["0", "0", "/", "0", "0", "/", "61"]],
                     [["1", "Ascend910"], ["UNKNOWN"], ["NA", "NA", "0", "/", "0"]],
                     [["0", "1"], ["NA"], ["0", "0", "/", "0", "0", "/", "NA"]]], "npu-smi: a working device and an unavailable one", rows)
    s.check("No running processes found in NPU 1 " in done.stdout, "npu-smi: no process", done.stdout)
    output = json.loads(s.run("--json", "npu-smi", env={"USDMA_DEVICES": "sim:mem=61M"}).stdout)
    s.check([(n["npu"], n["healthy"], n["memory_size"], n["processes"]) for n in output] == [(0, True, 61 << 20, [])], "npu-smi: JSON", output)
    s.check(s.run("npu-smi", env={"USDMA_DEVICES": "nonsense"}).returncode == 1, "npu-smi: invalid settings")


def test_npu_smi_users(s):
    """A process that has a device open, by its page of counters."""
    fd = os.memfd_create("usdma-stats", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096 + 16 * 1024 * 64)
    os.pwrite(fd, struct.pack("=8sIIII", b"usdmast1", 1, os.getpid(), 16, 1024), 0)
    os.pwrite(fd, struct.pack("=96s16sIIQ", b"sim:mem=61M", b"sdma", 1, 0, 1), 64 + 128)
    os.pwrite(fd, struct.pack("=QQ", 5 << 20, 61 << 20), 64 + 16 * 128 + 16)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    devices = {"USDMA_DEVICES": "sim:mem=31M,sim:mem=61M"}
    try:
        with open("/proc/self/comm", encoding="ascii") as f:
            command = f.read().strip()
        text = s.run("npu-smi", env=devices).stdout
        s.check("| 0     1                   | NA            | 0           0    / 0          5    / 61            |" in text,
                "npu-smi: memory in use", text)
        output = json.loads(s.run("--json", "npu-smi", env=devices).stdout)
        s.check(output[1]["memory_used"] == 5 << 20 and not output[0]["processes"] and
                [(u["pid"], u["command"], u["memory_used"]) for u in output[1]["processes"]] == [(os.getpid(), command, 5 << 20)],
                "npu-smi: a process", output)
        s.check("No running processes found in NPU 0 " in text and "in NPU 1 " not in text, "npu-smi: processes", text)
        s.check(f"| 1       0                 | {os.getpid():<13} | {command:<24.24} | 5                       |" in text,
                "npu-smi: a process, readable", text)
    finally:
        os.close(fd)


def fake_installation(s):
    """A copy of the program as installed; creates each file that it reports as missing."""
    top = tempfile.mkdtemp(dir=s.scratch)
    program = os.path.join(top, "bin/usdmactl")
    os.makedirs(os.path.dirname(program))
    shutil.copy(s.program, program)
    for _ in range(2):
        missing = subprocess.run([program, "ascend-home", top + "/a"], capture_output=True, text=True, check=False).stderr.split(" ")[1]
        s.check(missing.startswith(top), "ascend-home: a file that is not installed is named", missing)
        os.makedirs(os.path.dirname(missing), exist_ok=True)
        with open(missing, "w", encoding="ascii"):
            pass
    return program, top + "/a"


def test_ascend_home(s):
    program, top = fake_installation(s)
    for words in (), ("--json",):
        done = subprocess.run([program, *words, "ascend-home", top + "/"], capture_output=True, text=True, check=False)
        s.check(done.returncode == 0 and top in done.stdout, f"ascend-home: creates a folder {words}", done.stdout + done.stderr)
    arch = os.uname().machine + "-linux"
    for path in ("include/acl/acl.h", "lib64/libascendcl.so", arch + "/include/acl/acl.h", arch + "/lib64/libascendcl.so"):
        s.check(os.path.exists(os.path.join(top, path)), f"ascend-home: {path}", path)
    shown = subprocess.run(["sh", "-c", '. "$0"/set_env.sh && echo $ASCEND_HOME_PATH:$ASCEND_TOOLKIT_HOME:$LD_LIBRARY_PATH:$PATH', top],
                          capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}).stdout.strip()
    s.check(shown == f"{top}:{top}:{top}/lib64:{top}/bin:/usr/bin:/bin", "ascend-home: set_env.sh", shown)
    with open(top + "/version.cfg", encoding="ascii") as f:
        s.check("runtime_running_version=[9.1.0:9.1.0]" in f.read(), "ascend-home: version.cfg")
    smi = subprocess.run([top + "/bin/npu-smi", "info"], capture_output=True, text=True, check=False, env=dict(os.environ, USDMA_DEVICES="sim"))
    s.check("NPU   Name" in smi.stdout, "ascend-home: npu-smi info", smi.stdout + smi.stderr)
    other = tempfile.mkdtemp(dir=s.scratch)
    with open(other + "/mine", "w", encoding="ascii"):
        pass
    done = subprocess.run([program, "ascend-home", other], capture_output=True, text=True, check=False)
    s.check(done.returncode == 1 and os.listdir(other) == ["mine"], "ascend-home: a folder with other files is refused", done.stderr)
    s.check(s.run("ascend-home").returncode == 2, "ascend-home: the folder is a required argument")


def test_help(s):
    for command in ("list", "bind", "unbind", "info", "doctor", "reset", "selftest", "sim", "stat", "tune", "npu-smi", "ascend-home", None):
        done = s.run(*filter(None, (command, "--help")))
        lines = done.stdout.splitlines()
        s.check(done.returncode == 0 and max(map(len, lines)) <= 80 and (not command or "Examples:" in done.stdout),
                f"help: {command or 'overview'} fits and has examples", done.stdout)
    s.check(s.run("frobnicate").returncode == 2 and s.run().returncode == 2, "usage errors: exit status 2")


TESTS = [test_list, test_bind_refusals, test_bind_dry_run, test_ioat, test_dsa, test_hisi, test_unbind_in_use, test_doctor_ready, test_doctor_iommu,
         test_doctor_modules, test_doctor_group, test_doctor_memlock, test_doctor_permissions, test_doctor_cdev,
         test_doctor_silent, test_noiommu, test_doctor_advice, test_doctor_prices, test_doctor_in_a_container,
         test_doctor_here, test_info_and_reset, test_settings, test_tune, test_thresholds, test_selftest, test_stat, test_stat_retained,
         test_npu_smi, test_npu_smi_users, test_ascend_home, test_help]


def main():
    suite = Suite(sys.argv[1])
    return suite.run_all(TESTS + [lambda suite: test_sim(suite, sys.argv[2])])


if __name__ == "__main__":
    sys.exit(main())
