# SPDX-License-Identifier: BSD-3-Clause
"""The test cases of each situation: commands in the guest, and the expected results."""

import json
import re

FIND_EDU = "for d in /sys/bus/pci/devices/*; do [ $(cat $d/vendor)$(cat $d/device) = 0x12340x11e8 ] && basename $d; done"
LOAD_VFIO = "modprobe -a vfio-pci vfio_iommu_type1"


def edu_addresses(guest):
    return guest.run(FIND_EDU).out.split()


def group_of(guest, bdf):
    return guest.run(f"basename $(readlink /sys/bus/pci/devices/{bdf}/iommu_group)").out.strip()


# For a command, on a busy machine.
SECONDS = 400


def query_json(guest, arguments, prefix=""):
    """(status, the parsed output of a command of usdmactl)."""
    result = guest.run(f"{prefix} usdmactl --json {arguments}", SECONDS)
    try:
        return result.status, json.loads(result.out)
    except ValueError:
        return result.status, {"error": f"no JSON: {result.out}{result.err}"}


def doctor(guest):
    """(status, its checks by name)."""
    status, said = query_json(guest, "doctor")
    return status, {c["id"]: c for c in said.get("checks", [])}


def fix(guest, point):
    """Runs the command that doctor names (root needs no sudo)."""
    return guest.run(point["fix"].replace("sudo ", ""))


def as_user(command, memlock_kib="8192", user="user"):
    """The command as an ordinary user with this limit on locked memory (set by root: it may be above the user's own)."""
    quoted = command.replace("'", "'\\''")
    return (f"ulimit -l {memlock_kib}; "
            f"su -s /bin/sh {user} -c 'export PATH=/bin:/usr/bin LD_LIBRARY_PATH=/usr/lib/usdma-test; {quoted}'")


# ---- from a booted machine to a bound device, by the commands that doctor names -----------------------------


def cold_machine(guest, to, devices):
    first = devices[0]
    status, by = doctor(guest)
    to.check(status == 1 and by["iommu"]["state"] == "ok", "doctor: the IOMMU is found", by)
    to.check(by["modules"]["state"] == "failed" and "modprobe" in by["modules"]["fix"], "doctor: VFIO is not loaded yet", by)
    refused = guest.run(f"usdmactl bind {first}")
    to.check(refused.status == 1 and "modprobe vfio-pci" in refused.err, "bind: names the module to load", refused.err)
    fix(guest, by["modules"])
    status, by = doctor(guest)
    to.check(status == 1 and by["modules"]["state"] == "ok", "doctor: its command loaded VFIO", by)
    to.check(by["devices"]["state"] == "failed" and f"usdmactl bind {first}" in by["devices"]["fix"], "doctor: names the device to bind", by)
    opened = guest.run(f"usdmactl selftest {first}")
    to.check(opened.status == 1 and f"usdmactl bind {first}" in opened.err, "open: not bound; the error names the command that binds it", opened.err)
    status, said = query_json(guest, f"bind {first} --dry-run")
    at = guest.run(f"basename $(readlink /sys/bus/pci/devices/{first}/driver)").out.strip()
    to.check(status == 0 and said["dry_run"] and at != "vfio-pci", "bind --dry-run: does not change the device's driver", (said, at))
    fix(guest, by["devices"])
    for bdf in devices[1:]:
        guest.run(f"usdmactl bind {bdf}")
    status, by = doctor(guest)
    to.check(status == 0 and by["devices"]["state"] == "ok" and by["permissions"]["state"] == "ok", "doctor: its command bound the device", by)
    to.check(by["memlock"]["state"] == "ok", "doctor: root may lock memory", by)


def list_and_info(guest, to, devices):
    first = devices[0]
    status, found = query_json(guest, "list")
    one = {d["address"]: d for d in found}.get(first, {})
    to.check(status == 0 and one.get("engine") == "edu" and one.get("driver") == "vfio-pci"
             and one.get("group_members") == [first], "list: engine, driver, group", found)
    status, said = query_json(guest, f"info {first}")
    bar = {r["name"]: r for r in said.get("regions", [])}.get("BAR0", {})
    to.check(status == 0 and said.get("transport") in ("type1", "iommufd") and bar.get("size") == 1 << 20
             and said.get("interrupts", {}).get("MSI") == 1 and any(c["name"] == "MSI" for c in said.get("capabilities", [])),
             "info: regions, interrupts, capabilities", said)
    engine = said.get("engine") or {}
    to.check(engine.get("driver") == "edu" and 0 < engine.get("memory_size", 0) <= 4096, "info: the engine's limits", said)
    status, said = query_json(guest, f"reset {first}")
    to.check(status == 0 and said.get("reset"), "reset: succeeds for a device behind its own port", said)


def copy_file(guest, to, first):
    guest.run("dd if=/dev/urandom of=/tmp/in bs=1000 count=33")
    result = guest.run(f"usdmactl --json selftest {first} --file /tmp/in --out /tmp/back")
    to.check(result.status == 0 and json.loads(result.out)["ok"], "selftest: every kind of copy", result.out + result.err)
    status, said = query_json(guest, f"bringup {first} --copies 50 --report /tmp/bringup.json")
    to.check(status == 0 and said.get("ok"), "bringup: all steps are as expected", [x.get("surprise") for x in said.get("steps", [])] or said)
    sums = guest.run("sha256sum /tmp/in /tmp/back | cut -d' ' -f1").out.split()
    to.check(len(sums) == 2 and sums[0] == sums[1], "a file through edu and back has the same checksum", sums)


def owners(guest, to, first):
    """Another process has the device: unbind, info and a second program are refused, with its name."""
    script = (f"dd if=/dev/zero of=/tmp/big bs=1024 count=4000; "
              f"(usdmactl selftest {first} --file /tmp/big --out /dev/null >/dev/null 2>&1 &) ; n=0; "
              "until ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q /dev/vfio/[0-9] || [ $n = 100 ]; do n=$((n+1)); sleep 0.01; done; "
              f"usdmactl unbind {first}; echo $?; usdmactl info {first} >/dev/null; echo $?; killall usdmactl; sleep 1")
    result = guest.run(script)
    to.check(result.out.split()[:2] == ["1", "1"] and "usdmactl)" in result.err, "unbind, info: refused while a process has the device open",
             result.out + result.err)
    to.check("in use" in result.err, "open: a second process gets an error that the device is in use", result.err)


def unprivileged(guest, to, devices):
    first = devices[0]
    group = f"/dev/vfio/{group_of(guest, first)}"
    guest.run("chmod 666 /dev/vfio/vfio")
    status, by = doctor(guest_as(guest))
    to.check(status == 1 and by["permissions"]["state"] == "failed" and group in by["permissions"]["fix"], "doctor: a user without permission", by)
    opened = guest.run(as_user(f"usdmactl selftest {first}"))
    to.check(opened.status == 1 and group in opened.err and "permission" in opened.err, "open: no permission; the error names the file", opened.err)
    for _ in devices:  # doctor's command fixes one file at a time
        guest.run(f"USER=user; {by['permissions']['fix'].replace('sudo ', '')}")
        _, by = doctor(guest_as(guest))
        if by["permissions"]["state"] == "ok":
            break
    status, by = doctor(guest_as(guest, "1048576"))
    to.check(status == 0 and by["permissions"]["state"] == "ok" and by["memlock"]["state"] == "ok", "doctor: a user with permission and memory", by)
    done = guest.run(as_user(f"usdmactl selftest {first}", "1048576"))
    to.check(done.status == 0, "a user without root copies on the device", done.out + done.err)
    status, by = doctor(guest_as(guest, "64"))
    to.check(status == 1 and by["memlock"]["state"] == "failed" and "64 KiB" in by["memlock"]["text"]
             and "memlock" in by["memlock"]["fix"], "doctor: memlock of 64 KiB is too little", by.get("memlock"))
    short = guest.run(as_user(f"usdmactl selftest {first}", "64"))
    to.check(short.status == 1 and "memlock" in short.err.lower(), "open: memlock is named as the cause", short.out + short.err)


class guest_as:
    """The same guest, whose commands run as the user."""

    def __init__(self, guest, *who):
        self.guest, self.who = guest, who

    def run(self, command, seconds=SECONDS):
        return self.guest.run(as_user(command, *self.who), seconds)


def bind_remembers(guest, to, bdf):
    """From pci-stub to VFIO and back to pci-stub."""
    guest.run(f"usdmactl unbind {bdf}; modprobe pci-stub; echo 1234 11e8 > /sys/bus/pci/drivers/pci-stub/new_id; "
              f"echo {bdf} > /sys/bus/pci/drivers/pci-stub/bind")
    where = f"basename $(readlink /sys/bus/pci/devices/{bdf}/driver)"
    before = guest.run(where).out.strip()
    bound = guest.run(f"usdmactl bind {bdf}")
    between = guest.run(where).out.strip()
    back = guest.run(f"usdmactl unbind {bdf}")
    after = guest.run(where).out.strip()
    to.check((before, between, after) == ("pci-stub", "vfio-pci", "pci-stub"), "unbind: gives the device back to its former driver",
             (before, between, after, bound.err, back.err))
    override = guest.run(f"cat /sys/bus/pci/devices/{bdf}/driver_override").out.strip()
    to.check(override in ("", "(null)"), "unbind: leaves no override behind", override)


# ---- programs -------------------------------------------------------------------------------------------

# Real time for one program: four processes that reduce by edu's transfers of 4 KiB take two minutes.
PROGRAM_SECONDS = 300


def run_tap(guest, to, name, program, arguments, devices, env="", seconds=PROGRAM_SECONDS):
    command = " ".join([program.rsplit("/", 1)[1], *arguments])
    env += f" CMOCKA_MESSAGE_OUTPUT=TAP USDMA_TEST_BACKEND=kernel USDMA_TEST_SMALL=1 USDMA_DEVICES={','.join(devices)}"
    to.tap(f"{name} on kernel VFIO", guest.run(f"exec env {env} {command}", seconds))


# The kernel's message about a transfer that the IOMMU blocks; {}: the device.
DMAR_FAULT = r"DMAR:.*DMA Write.*{}.*fault addr 0x666000000"


def engine_below_streams(guest, to, programs, first, fault):
    guest.run("dmesg -c >/dev/null")
    run_tap(guest, to, "vm-edu-kernel", programs.own("vm-edu-kernel"), [], [first])
    log = guest.run("dmesg").out
    to.check(re.search(fault.format(re.escape(first[5:])), log), "the IOMMU's own fault for the stray transfer is in the kernel's log", log)


# Suites that fit into edu's own memory of 3.5 KiB. All run with host memory as device memory: each copy passes through edu.
OWN_MEMORY = ("copies",)
# Run once more with each device in an address space of its own.
ISOLATED = ("native", "core-peers")


HOST_MEMORY = "USDMA_TEST_LEND_MEMORY=1 USDMA_POOL_SIZE=16M USDMA_TEST_HOST_ARENA=1M"
# With --long: 100,000 random operations, of which 1 % fail. They take hours of the guest's time, 100 ms for each transfer.
LONG = {"completions": ("USDMA_TEST_SCALE=25", 3600)}

# Suites that kernel VFIO or edu cannot run: {name: reason}.
NOT_HERE = {
    "acl-ipc": "two processes share a device; kernel VFIO lets one process at a time open it",
    "acl-ops": "moves some 100 MiB, which is hours of edu's 4 KiB transfers; it has no small form yet",
}


def suites(guest, to, programs, devices):
    to.check(programs.suites, "the build has suites for every transport")
    for name, program, arguments, needed in programs.suites:
        if name in NOT_HERE or needed > len(devices):
            to.skip(f"{name} on kernel VFIO", NOT_HERE.get(name, f"needs {needed} devices, this machine has {len(devices)}"))
            continue
        if name in OWN_MEMORY:
            run_tap(guest, to, f"{name}, own memory", program, arguments, devices[:needed])
        more, seconds = LONG[name] if programs.long and name in LONG else ("", PROGRAM_SECONDS)
        run_tap(guest, to, name, program, arguments, devices[:needed], f"{HOST_MEMORY} {more}", seconds)
        if name in ISOLATED:
            run_tap(guest, to, f"{name}, isolated", program, arguments, [d + ":isolated=yes" for d in devices[:needed]], HOST_MEMORY)


# ---- the situations -------------------------------------------------------------------------------------


def with_iommu(guest, to, programs, fault=DMAR_FAULT):
    devices = edu_addresses(guest)
    if not to.check(len(devices) == 2, "both edu devices are there", devices):
        return
    cold_machine(guest, to, devices)
    list_and_info(guest, to, devices)
    copy_file(guest, to, devices[0])
    engine_below_streams(guest, to, programs, devices[0], fault)
    owners(guest, to, devices[0])
    unprivileged(guest, to, devices)
    bind_remembers(guest, to, devices[1])


def all_suites(guest, to, programs):
    devices = edu_addresses(guest)
    guest.run(LOAD_VFIO)
    for bdf in devices:
        bound = guest.run(f"usdmactl bind {bdf}")
        to.check(bound.status == 0, f"bind {bdf}", bound.err)
    suites(guest, to, programs, devices)


def without_iommu(guest, to, programs):
    devices = edu_addresses(guest)
    if not to.check(devices, "the edu device is there"):
        return
    first = devices[0]
    guest.run(LOAD_VFIO)
    status, by = doctor(guest)
    to.check(status == 1 and by["iommu"]["state"] == "failed" and by["iommu"]["fix"], "doctor: no IOMMU, with a remedy", by)
    to.check(by["modules"]["state"] == "ok", "doctor: the modules are loaded", by)
    to.check(by["devices"]["state"] == "failed", "doctor: no device can be ready", by)
    refused = guest.run(f"usdmactl bind {first}")
    to.check(refused.status == 1 and "IOMMU" in refused.err, "bind: refused for lack of an IOMMU", refused.err)
    opened = guest.run(f"usdmactl selftest {first}")
    to.check(opened.status == 1 and "IOMMU" in opened.err, "open: refused for lack of an IOMMU", opened.err)
    status, said = query_json(guest, f"info {first}")
    to.check(status == 0 and said["pci"]["iommu_group"] is None and said["regions"], "info: values of sysfs are reported without an IOMMU", said)
    soft = guest.run("usdmactl selftest sim:mem=16M --size 64K")
    to.check(soft.status == 0, "the software device works without an IOMMU", soft.out + soft.err)


def shared_group(guest, to, programs):
    devices = edu_addresses(guest)
    if not to.check(len(devices) == 2, "both edu devices are there", devices):
        return
    first, other = devices
    guest.run(LOAD_VFIO)
    status, by = doctor(guest)
    to.check(status == 1 and by["iommu"]["state"] == "ok" and by["devices"]["state"] == "failed"
             and other in by["devices"]["text"], "doctor: the group is shared; the other device is named", by)
    status, found = query_json(guest, "list")
    one = {d["address"]: d for d in found}.get(first, {})
    to.check(other in one.get("group_members", []) and one.get("group_sharers"), "list: the group's members", found)
    refused = guest.run(f"usdmactl bind {first}")
    to.check(refused.status == 1 and other in refused.err, "bind: refused, naming the other device", refused.err)
    # Bound by hand: the kernel allows a group whose other members have no driver.
    guest.run(f"echo vfio-pci > /sys/bus/pci/devices/{first}/driver_override; echo {first} > /sys/bus/pci/drivers_probe")
    opened = guest.run(f"usdmactl selftest {first}")
    to.check(opened.status == 0, "bound by hand: works while the other devices have no driver", opened.out + opened.err)
    status, said = query_json(guest, f"reset {first}")
    to.check(status == 1 and "cannot be reset by itself" in said.get("error", ""), "reset: refused with the reason", said)
    reset_during_copy(guest, to, programs, first, "stays")


# ---- a device that hangs ---------------------------------------------------------------------------


def reset_during_copy(guest, to, programs, first, reset_works):
    """Runs vm-reset, which loses the device during a copy; then the next program can use it."""
    run_tap(guest, to, "vm-reset", programs.own("vm-reset"), [reset_works], [first])
    after = guest.run(f"usdmactl selftest {first}")
    to.check(after.status == 0, "after the device was lost during a copy: the next program copies on it", after.out + after.err)


def hanging_device(guest, to, programs):
    first = edu_addresses(guest)[0]
    guest.run(LOAD_VFIO)
    guest.run(f"usdmactl bind {first}")
    reset_during_copy(guest, to, programs, first, "resets")


# ---- NUMA nodes -------------------------------------------------------------------------------------------


def perf_rows(guest, arguments, prefix=""):
    """(rows of a short run of usdma-perf, its error output); no rows: it failed."""
    done = guest.run(f"{prefix} usdma-perf -q --json - --seconds 0.01 --repeats 1 --cold-bytes 4M --verify {arguments}", 120)
    try:
        return json.loads(done.out)["rows"], done.err
    except (ValueError, KeyError):
        return [], done.out + done.err


def two_nodes(guest, to, programs):
    rows, said = perf_rows(guest, "--numa all -s 4K -w h2d,page-d2h")
    node_pairs = [(r["client_node"], r["engine_node"]) for r in rows]
    to.check(node_pairs == [(c, e) for c in (0, 1) for e in (0, 1) for _ in range(2)], "usdma-perf: each pair of nodes, each direction", said or node_pairs)
    to.check(rows and all(r["client_cpu"] // 2 == r["client_node"] and r["engine_cpu"] // 2 == r["engine_node"] for r in rows),
             "usdma-perf: client and engines run on the nodes named", rows)
    to.check(rows and all(r["host_memory_node"] == r["client_node"] and r["verified"] for r in rows),
             "usdma-perf: host memory is on the client's node, and the copies are verified", rows)
    for node in (0, 1):
        rows, said = perf_rows(guest, "-s 4K -w h2d", f"USDMA_NUMA_NODE={node}")
        to.check([r["host_memory_node"] for r in rows] == [node], f"USDMA_NUMA_NODE={node}: the library's pinned memory is on this node", said or rows)
    refused = guest.run("usdma-perf --numa 0:2")
    to.check(refused.status == 1 and "node 2" in refused.err and "0, 1" in refused.err, "usdma-perf: an invalid node is refused", refused.err)
