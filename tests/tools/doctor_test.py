#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `usdmactl doctor` on fake system trees and on this machine.  doctor_test.py USDMACTL; prints TAP."""
import ctypes
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys

from fake_tree import EDU, NIC, Suite, ready_machine


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


TESTS = [test_doctor_ready, test_doctor_iommu, test_doctor_modules, test_doctor_group, test_doctor_memlock, test_doctor_permissions,
         test_doctor_cdev, test_doctor_silent, test_noiommu, test_doctor_advice, test_doctor_prices, test_doctor_in_a_container,
         test_doctor_here]


def main():
    return Suite(sys.argv[1]).run_all(TESTS)


if __name__ == "__main__":
    sys.exit(main())
