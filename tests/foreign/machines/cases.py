# SPDX-License-Identifier: BSD-3-Clause
"""The cases that machines run."""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vm"))
from guests.cases import SECONDS, as_user, doctor, group_of, guest_as, query_json  # noqa: E402
from guests.guest import GuestError  # noqa: E402
from machines.machine import QEMU_ABORTS  # noqa: E402
from machines.suites import SOME  # noqa: E402

FIND_DEVICES = "for d in /sys/bus/pci/devices/*; do case $(cat $d/class) in 0x0801*|0x0880*) basename $d;; esac; done"


def addresses(guest):
    return guest.run(FIND_DEVICES).out.split()


# ---- transports -------------------------------------------------------------------------------------------

RESTORE_FILES = ("[ -e /dev/.iommu ] && mv /dev/.iommu /dev/iommu; [ -e /dev/vfio/.devices ] && mv /dev/vfio/.devices /dev/vfio/devices; "
                 "[ -e /dev/vfio/.vfio ] && mv -f /dev/vfio/.vfio /dev/vfio/vfio; true")
TRANSPORTS = {
    "iommufd": "true",
    "type1": "mv /dev/iommu /dev/.iommu",
    # As described in Documentation/userspace-api/iommufd.rst: iommufd's file replaces that of VFIO's container.
    "iommufd-compat": "mv /dev/vfio/devices /dev/vfio/.devices; mv /dev/vfio/vfio /dev/vfio/.vfio; ln -s /dev/iommu /dev/vfio/vfio",
}
# The names that usdmactl info prints.
BACKENDS = {"iommufd": "iommufd", "type1": "type1", "iommufd-compat": "type1"}


def transport(guest, to, name, first):
    """Leaves only the device files of this transport, and checks that the library uses it."""
    guest.run(RESTORE_FILES)
    changed = guest.run(TRANSPORTS[name])
    to.transport = name
    to.suite("tools")
    status, said = query_json(guest, f"info {first}")
    return to.check(status == 0 and said.get("transport") == BACKENDS[name], "info: the library uses this transport",
                    (changed.err, said))


# ---- tools ------------------------------------------------------------------------------------------------


def bind_all(guest, to, devices, engine="sdma"):
    to.suite("tools")
    guest.run("modprobe -a vfio-pci vfio_iommu_type1")
    status, found = query_json(guest, "list")
    engines = {d["address"]: d.get("engine") for d in found} if isinstance(found, list) else {}
    to.check(status == 0 and all(engines.get(d) == engine for d in devices), "list: names the engine of each device", found)
    for d in devices:
        bound = guest.run(f"usdmactl bind {d}")
        to.check(bound.status == 0, f"bind {d}", bound.out + bound.err)


def tools(guest, to, devices, driver="sdma"):
    to.suite("tools")
    status, checks = doctor(guest)
    to.check(status == 0 and checks.get("devices", {}).get("state") == "ok" and checks.get("permissions", {}).get("state") == "ok",
             "doctor: reports no problem", checks)
    for d in devices:
        status, said = query_json(guest, f"info {d}")
        engine, regions = said.get("engine") or {}, {r["name"]: r for r in said.get("regions", [])}
        to.check(status == 0 and engine.get("driver") == driver and engine.get("channels", 0) >= 1 and
                 (driver != "sdma" or regions.get("BAR2", {}).get("mappable")),
                 f"info {d}: regions and the engine's limits", said)
        done = guest.run(f"usdmactl selftest {d}", SECONDS)
        to.check(done.status == 0, f"selftest {d}: every kind of copy", done.out + done.err)
        status, said = query_json(guest, f"reset {d}")
        to.check(status == 0 and said.get("reset"), f"reset {d}", said)
        done = guest.run(f"usdmactl selftest {d} --size 64K", SECONDS)
        to.check(done.status == 0, f"selftest {d}: after its reset", done.out + done.err)


def quickstart(guest, to, devices):
    to.suite("quickstart")
    guest.run("[ -e /tmp/file ] || dd if=/dev/urandom of=/tmp/file bs=1M count=8")
    done = guest.run(f"USDMA_DEVICES={','.join(devices)} usdma-quickstart --file /tmp/file", SECONDS)
    sums = re.findall(r"\b[0-9a-f]{64}\b", done.out)
    to.check(done.status == 0 and len(set(sums)) <= 1, "quickstart: every checksum is the file's", done.out + done.err)


# ---- suites -----------------------------------------------------------------------------------------------


def run_suites(guest, to, programs, devices, names=None, without=(), engine="sdma", seconds=SECONDS, settings=None):
    for s in programs.of[engine]:
        if (names and s.name not in names) or s.name in without or s.devices > len(devices):
            continue
        to.suite(s.name)
        to.tap(s.name, guest.run(s.command(devices, settings), seconds))


# ---- users --------------------------------------------------------------------------------------------------


# Who is in the group usdma, with this limit on locked memory.
MEMBER = ("unlimited", "member")


def grant(guest, *paths):
    """Sets the permissions that the udev rule sets."""
    return guest.run(f"chgrp usdma {' '.join(paths)} && chmod 660 {' '.join(paths)}")


def cdev_of(guest, device):
    return guest.run(f"ls /sys/bus/pci/devices/{device}/vfio-dev").out.strip()


def file_is_reported(guest, to, device, path, name):
    """Doctor and open report this file."""
    _, checks = doctor(guest_as(guest, *MEMBER))
    to.check(path in (checks.get("permissions", {}).get("fix") or ""), f"doctor: {name}", checks.get("permissions"))
    done = guest_as(guest, *MEMBER).run(f"usdmactl selftest {device}")
    to.check(done.status == 1 and path in done.err and "permission" in done.err, f"open: {name}", done.out + done.err)


def works_for_user(guest, to, device, name):
    status, checks = doctor(guest_as(guest, *MEMBER))
    to.check(status == 0, f"doctor: {name}", checks)
    done = guest_as(guest, *MEMBER).run(f"usdmactl selftest {device}")
    to.check(done.status == 0, f"selftest: {name}", done.out + done.err)


def member_of_the_group(guest, to, programs, devices):
    first = devices[0]
    groups = [f"/dev/vfio/{group_of(guest, d)}" for d in devices]
    cdevs = [f"/dev/vfio/devices/{cdev_of(guest, d)}" for d in devices]
    to.transport = "iommufd"
    to.suite("without root")
    file_is_reported(guest, to, first, groups[0], "no permission at all: the IOMMU group's file is reported")
    grant(guest, "/dev/iommu")
    file_is_reported(guest, to, first, cdevs[0], "permission for one of iommufd's two files: the other is reported")
    grant(guest, *cdevs)
    works_for_user(guest, to, first, "a user of the group, with the device's own file")
    short = guest.run(as_user(f"usdmactl selftest {first}", 64, "member"))
    to.check(short.status == 1 and "memlock" in short.err.lower(), "64 KiB of locked memory: reported as the cause", short.out + short.err)
    guest.run(f"mv /dev/vfio/vfio /dev/vfio/.vfio; mv {groups[0]} /dev/.group")
    works_for_user(guest, to, first, "a kernel without groups")
    guest.run(f"mv /dev/vfio/.vfio /dev/vfio/vfio; mv /dev/.group {groups[0]}; mv /dev/iommu /dev/.iommu")
    to.transport = "type1"
    to.suite("without root")
    grant(guest, *groups)
    guest.run("chmod 666 /dev/vfio/vfio")
    works_for_user(guest, to, first, "a user of the group, with the IOMMU group's file")
    copies = next(s for s in programs.suites if s.name == "async")
    to.tap("async as a user", guest_as(guest, *MEMBER).run(copies.command([first]).replace("exec env", "env")))
    guest.run("mv /dev/.iommu /dev/iommu")


# ---- copies in the background -----------------------------------------------------------------------------


def start(guest, name, command):
    """Starts a command in the background; its output goes to /tmp/NAME."""
    guest.run(f"rm -f /tmp/{name} /tmp/{name}.status; (sh -c '{command}; echo $? >/tmp/{name}.status' >/tmp/{name} 2>&1 </dev/null &)")


def load(guest, to, device, name="load"):
    """Starts copies on the device, and waits until they run."""
    start(guest, name, f"env USDMA_DEVICES={device} foreign-load")
    seen = guest.run(f"n=0; until grep -q 'round 3' /tmp/{name} || [ $n = 600 ]; do n=$((n+1)); sleep 0.1; done; cat /tmp/{name}")
    return to.check("round 3" in seen.out, f"copies run on {device}", seen.out + seen.err)


def ended(guest, name="load", seconds=120):
    """(status, or None if it still runs; the end of its output)."""
    guest.run(f"n=0; until [ -e /tmp/{name}.status ] || [ $n = {seconds * 10} ]; do n=$((n+1)); sleep 0.1; done", seconds + 60)
    status = guest.run(f"cat /tmp/{name}.status").out.strip()
    return (int(status) if status else None), guest.run(f"tail -n 5 /tmp/{name}").out


def kill_load(guest):
    guest.run("killall -9 foreign-load; sleep 0.2; rm -f /tmp/load.status")


def owners(guest, to, device, transport_name):
    """A second program gets an error that names the process that uses the device."""
    to.suite("in use")
    if not load(guest, to, device):
        return
    for command in ("selftest", "reset", "info"):
        done = guest.run(f"usdmactl {command} {device}")
        to.check(done.status == 1 and "in use by another process" in done.err, f"{transport_name}: {command} reports that the device is in use",
                 done.out + done.err)
    done = guest.run(f"usdmactl unbind {device}")
    to.check(done.status == 1 and "foreign-load)" in done.err, "unbind: refused, naming the process", done.out + done.err)
    kill_load(guest)


def killed_programs(guest, to, device):
    to.suite("program killed")
    for n in ("first", "second", "third"):
        load(guest, to, device)
        kill_load(guest)
        done = guest.run(f"usdmactl selftest {device}", SECONDS)
        to.check(done.status == 0, f"killed during a copy ({n} time): the next program copies", done.out + done.err)


def server_killed(visit, device, server):
    """usdma-sim is killed during a copy."""
    guest, to = visit.machine, visit.to
    to.suite("killed")
    load(guest, to, device)
    visit.dead.append(server)
    server.kill()
    begun = time.monotonic()
    status, said = ended(guest)
    to.check(status == 1 and "failed: copying" in said, "usdma-sim killed during a copy: the program exits with the reason", (status, said))
    to.note(f"it exited {time.monotonic() - begun:.1f} s after its device")
    done = guest.run(f"usdmactl info {device}")
    to.check(done.status == 1 and "does not answer" in done.err, "info: the device does not answer", done.out + done.err)
    status, checks = doctor(guest)
    text = checks.get("devices", {})
    to.check(status == 1 and text.get("state") == "failed" and "does not answer" in text.get("text", ""), "doctor: the device does not answer", text)


def emulator_killed(visit, device, server):
    """QEMU is killed during a copy; usdma-sim serves the next client."""
    load(visit.machine, visit.to, device)
    visit.machine.kill()
    visit.machine_dead = True
    ctl = os.path.join(server.build_dir, "tools/usdmactl/usdmactl")
    p = subprocess.run([ctl, "selftest", f"vfio-user:{server.socket}"], capture_output=True, text=True, check=False, timeout=120)
    visit.to.check(p.returncode == 0 and server.alive(), "QEMU killed during a copy: the device serves the next client", p.stdout + p.stderr)


def removed_by_kernel(guest, to, device):
    """The kernel removes the PCI function during a copy; a rescan finds it again."""
    to.suite("unplugged")
    load(guest, to, device)
    guest.run(f"echo 1 > /sys/bus/pci/devices/{device}/remove", SECONDS)
    status, said = ended(guest)
    whole = guest.run("cat /tmp/load").out
    to.check(status == 1 and "failed: copying" in said and "requests it back" in whole, "the program exits with the reason", (status, whole[-800:]))
    to.check(device not in addresses(guest), "the device is removed from the guest", addresses(guest))
    guest.run("echo 1 > /sys/bus/pci/rescan")
    done = guest.run(f"usdmactl bind {device} && usdmactl selftest {device}", SECONDS)
    to.check(done.status == 0, "it is found again, bound, and copies", done.out + done.err)


def removed_by_qemu(visit, device, number):
    """QEMU unplugs the device.  The last step of a machine: QEMU up to 11.1.3 aborts then."""
    guest, to = visit.machine, visit.to
    to.suite("unplugged")
    guest.run(f"env USDMA_DEVICES={device} foreign-load >/dev/ttyS0 2>&1 </dev/null &")
    guest.wait_for_console("round 3", 60)
    monitor = guest.monitor()
    done = monitor.command("device_del", id=f"dev{number}")
    to.check(done[0], "QEMU accepts device_del", done)
    lines = guest.wait_for_console("failed: copying", 60)
    to.check("requests it back" in lines and "failed: copying" in lines, "device_del: the program exits with the reason", lines[-2000:])
    state = "no answer"
    try:
        guest.run(f"n=0; while [ -e /sys/bus/pci/devices/{device} ] && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.1; done", 60)
        state = "removed" if device not in addresses(guest) else "not removed"
        monitor.close()
    except GuestError:
        visit.machine_dead = True
    if visit.machine_dead and QEMU_ABORTS in guest.logs():
        to.skip("device_del: QEMU continues", "a bug of QEMU, not of 11.1.3 only: it aborts when it deletes such a device (docs/devices.md)")
    else:
        to.check(state == "removed", "device_del: QEMU continues, and the device is removed from the guest", state)


# ---- faults -----------------------------------------------------------------------------------------------

# (rule, True: some paths must fail; False: none; None: either).
RULES = (("fail%7", True), ("fail%5/transfer", True), ("hang@3", True), ("hang@3/device", True), ("drop-irq%2", None),
         ("drop-record%3", None), ("slow%9/20000", False))


def faults(visit, devices):
    guest, to = visit.machine, visit.to
    to.suite("faults")
    for rule, must_fail in RULES:
        accepted, output = visit.servers[0].send_command("faults", rule)
        to.check(accepted, f"{rule}: set", output)
        result = guest.run(f"CMOCKA_MESSAGE_OUTPUT=TAP USDMA_DEVICES={','.join(devices)} foreign-faults struck", SECONDS)
        to.tap(rule, result)
        count = re.search(r"# reported (\d+), carried (\d+)", result.out)
        errors = int(count.group(1)) if count else -1
        to.check(errors >= 0 and (must_fail is None or (errors > 0) == must_fail),
                 f"{rule}: {'errors' if must_fail else 'no errors' if must_fail is False else 'any number of errors'}", result.out)
        visit.servers[0].send_command("clear")
        to.tap(f"after {rule}", guest.run(f"CMOCKA_MESSAGE_OUTPUT=TAP USDMA_DEVICES={','.join(devices)} foreign-faults clean", SECONDS))


# ---- memory -----------------------------------------------------------------------------------------------


def churn(guest, to, device, rounds):
    to.suite("pages given to others" if rounds <= 1000 else f"pages given to others, {rounds} rounds")
    to.tap(f"{rounds} rounds", guest.run(f"CMOCKA_MESSAGE_OUTPUT=TAP USDMA_DEVICES={device} foreign-churn {rounds}", 1500))


def huge_pages(guest, to, programs, devices):
    to.suite("huge pages")
    guest.run("echo 400 > /proc/sys/vm/nr_hugepages")
    free = "sed -n 's/HugePages_Free: *//p' /proc/meminfo"
    before = int(guest.run(free).out)
    to.check(before >= 300, "huge pages are reserved", before)
    start(guest, "load", f"env USDMA_HUGE_PAGES=require USDMA_DEVICES={devices[0]} foreign-load")
    guest.run("n=0; until grep -q 'round 3' /tmp/load || [ $n = 600 ]; do n=$((n+1)); sleep 0.1; done")
    used = before - int(guest.run(free).out)
    to.check(used > 0, "pinned memory is in huge pages", (used, guest.run("cat /tmp/load").out))
    kill_load(guest)
    for s in programs.suites:
        if s.name in ("async", "copies", "core-streams", "acl-ops"):
            to.tap(s.name, guest.run(s.command(devices).replace("exec env", "exec env USDMA_HUGE_PAGES=require"), SECONDS))
    guest.run("echo 0 > /proc/sys/vm/nr_hugepages")


# ---- the situations ---------------------------------------------------------------------------------------


# Lines of an SMMUv3 for each access of the transfer that a case of tests/vm sends to an unmapped address.
UNMAPPED_ACCESS = ("arm-smmu-v3 [^ ]+: (event 0x10 received:|[[:space:]]0x[0-9a-f]{16}$|event: F_TRANSLATION .* iova: 0x666000[0-9a-f]{3} |"
                   "unpriv data (read|write) s1 )")
# Messages of level error that are none: RAS; ioatdma when it releases a function (drivers/dma/ioat/init.c); md about
# disks that the test makes fail (drivers/md/raid5.c).
NO_COMPLAINT = "RAS:|ioatdma .*: Removing dma and dca services$|md/raid:md0: (Disk failure on|Operation continuing on)|" + UNMAPPED_ACCESS
# Of a device whose server was killed.
KILLED_SERVER_ERRORS = "|vfio-pci .*: Unable to change power state from D3cold to D0, device inaccessible$"


class Visit:
    """A machine, its situation, and the scope that gets its points."""

    def __init__(self, machine, to, shop, kernel, situation):
        self.machine, self.to, self.shop, self.kernel, self.situation = machine, to, shop, kernel, situation
        self.programs = shop.programs(situation)
        self.servers = machine.servers
        self.dead = []  # servers that a case killed
        self.machine_dead = False  # a case killed the machine, or it aborted

    def check_alive(self):
        """Checks the servers, QEMU's log and the guest's, but for what a case killed."""
        self.to.transport = "none"
        self.to.suite("machine")
        alive = [s.alive() for s in self.servers if s not in self.dead]
        self.to.check(all(alive), "usdma-sim runs until the end", "\n".join(s.read_log()[-3000:] for s in self.servers))
        if not self.dead:
            said = self.machine.complaints()
            self.to.check(not said, "QEMU prints only the messages that docs/devices.md names", "\n".join(said[:20]))
        if not self.machine_dead:
            expected = NO_COMPLAINT + (KILLED_SERVER_ERRORS if self.dead else "")
            done = self.machine.run(f"dmesg -r | grep '^<[0-3]>' | grep -v -E '{expected}' | tail -n 20")
            self.to.check(done.status == 0 and not done.out, "the guest's kernel logs no error", done.out)


def found(visit):
    """The devices' PCI addresses; there is one for each server."""
    devices = addresses(visit.machine)
    visit.to.check(len(devices) == len(visit.servers), "the guest has all devices", devices)
    return devices


def everything(visit):
    devices = found(visit)
    bind_all(visit.machine, visit.to, devices)
    for name in visit.kernel.transports:
        if transport(visit.machine, visit.to, name, devices[0]):
            tools(visit.machine, visit.to, devices)
            if visit.situation.programs == "some":
                run_suites(visit.machine, visit.to, visit.programs, devices, names=SOME)
                continue
            quickstart(visit.machine, visit.to, devices)
            run_suites(visit.machine, visit.to, visit.programs, devices, without=NOT_HERE)


def unsafe_interrupts(visit):
    """An IOMMU that does not remap interrupts: refused until the setting that the error names accepts it."""
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    for name in visit.kernel.transports:
        guest.run(RESTORE_FILES)
        guest.run(TRANSPORTS[name])
        to.transport = name
        to.suite("tools")
        refused = guest.run(f"usdmactl selftest {devices[0]}")
        setting = re.search(r"echo 1 > (\S+)", refused.err)
        to.check(refused.status == 1 and "remap interrupts" in refused.err and setting, "refused; the error names the setting that accepts it", refused.err)
        if setting:
            guest.run(f"echo 1 > {setting.group(1)}")
        if transport(guest, to, name, devices[0]):
            tools(guest, to, devices)
            all_of_them = visit.situation.all_suites and name == visit.kernel.transports[0]
            run_suites(guest, to, visit.programs, devices, names=None if all_of_them else SOME, without=NOT_HERE)
        guest.run("echo 0 > /sys/module/iommufd/parameters/allow_unsafe_interrupts")


# On kernel VFIO only one process at a time can open a device.
NOT_HERE = ("acl-ipc",)


def use_and_abuse(visit):
    """A device in use, killed programs, faults, huge pages, users without root."""
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    for name in ("iommufd", "type1"):
        if transport(guest, to, name, devices[0]):
            owners(guest, to, devices[0], name)
            killed_programs(guest, to, devices[0])
            faults(visit, devices)
    guest.run(RESTORE_FILES)
    to.transport = "iommufd"
    huge_pages(guest, to, visit.programs, devices)
    member_of_the_group(guest, to, visit.programs, devices)


def server_dies(visit):
    """A device's server is killed."""
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    if transport(guest, to, "iommufd", devices[0]):
        server_killed(visit, devices[0], visit.servers[0])


def machine_dies(visit):
    """The machine is killed."""
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    if transport(guest, to, "iommufd", devices[0]):
        to.suite("killed")
        emulator_killed(visit, devices[0], visit.servers[0])


def unplug(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    for name in ("type1", "iommufd"):
        if transport(guest, to, name, devices[0]):
            removed_by_kernel(guest, to, devices[0])
    removed_by_qemu(visit, devices[0], 1)


def released_pages(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    if transport(guest, to, visit.kernel.transports[0], devices[0]):
        churn(guest, to, devices[0], 10000)


def in_short(visit):
    """A minute of tests that failed before: for jobs without time for more."""
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    if transport(guest, to, "iommufd", devices[0]):
        tools(guest, to, devices)
        quickstart(guest, to, devices)
        run_suites(guest, to, visit.programs, devices, names=("async", "core-peers"))
        churn(guest, to, devices[0], 1000)
    if transport(guest, to, "type1", devices[0]):
        tools(guest, to, devices[:1])
        run_suites(guest, to, visit.programs, devices, names=("acl-order",))


def all_of_the_memory(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    server = visit.servers[0]
    bind_all(guest, to, devices)
    if transport(guest, to, "iommufd", devices[0]):
        to.suite("8 GiB in 4 KiB pages")
        result = guest.run(f"CMOCKA_MESSAGE_OUTPUT=TAP USDMA_DEVICES={devices[0]} foreign-big 8", visit.situation.deadline)
        to.tap("8 GiB", result)
        to.note("\n".join(line for line in result.out.splitlines() if line.startswith("# ")))
        to.note(f"usdma-sim: at most {server.status('VmHWM') >> 20} MiB resident, {server.status('VmPeak') >> 20} MiB of addresses, "
                f"{server.mappings()} mappings now")


def eight_devices(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    for name in visit.kernel.transports:
        if transport(guest, to, name, devices[0]):
            run_suites(guest, to, visit.programs, devices, names=("hccl-ring",))


def without_iommu(visit):
    """Without an IOMMU the device is refused, also when it was bound by hand."""
    guest, to, devices = visit.machine, visit.to, found(visit)
    first = devices[0]
    to.suite("tools")
    guest.run("modprobe -a vfio-pci vfio_iommu_type1")
    _, checks = doctor(guest)
    to.check(checks["iommu"]["state"] == "failed" and checks["iommu"]["fix"], "doctor: no IOMMU, with a remedy", checks)
    done = guest.run(f"usdmactl bind {first}")
    to.check(done.status == 1 and "IOMMU" in done.err, "bind: refused for lack of an IOMMU", done.err)
    if visit.kernel.noiommu:
        bound_without_iommu(guest, to, first)


def private_memory(visit):
    """QEMU's default memory, which is not shared: the device reaches all of it, also the rings, by messages."""
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices)
    to.transport = "iommufd"
    to.suite("memory that is not shared")
    for n in range(3):
        done = guest.run(f"usdmactl selftest {devices[0]}", SECONDS)
        to.check(done.status == 0, f"selftest, round {n + 1}: every kind of copy, by messages", done.out + done.err)
        done = guest.run(f"usdmactl reset {devices[0]}")
        to.check(done.status == 0, f"reset, round {n + 1}", done.out + done.err)


def bound_without_iommu(guest, to, first):
    to.suite("noiommu mode")
    guest.run("echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode")
    guest.run(f"echo vfio-pci > /sys/bus/pci/devices/{first}/driver_override; echo {first} > /sys/bus/pci/drivers_probe")
    at = guest.run(f"basename $(readlink /sys/bus/pci/devices/{first}/driver); ls /dev/vfio /dev/vfio/devices").out
    to.check("vfio-pci" in at and "noiommu-" in at, "the kernel has bound it in noiommu mode", at)
    _, checks = doctor(guest)
    to.check(checks["iommu"]["state"] == "failed" and checks["devices"]["state"] == "failed" and "noiommu" in checks["devices"]["text"],
             "doctor: noiommu mode is no IOMMU", checks)
    for command in ("selftest", "info", "reset"):
        done = guest.run(f"usdmactl {command} {first}")
        to.check(done.status == 1 and "noiommu mode" in done.err, f"{command}: refused with the reason", done.out + done.err)


# ---- the kernel's own tests -------------------------------------------------------------------------------

KSELFTEST_POINT = re.compile(r"^(not )?ok (\d+) (.*?)(?: # (SKIP|XFAIL)\s*(.*))?$")


def kernels_tests(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices, visit.situation.engine)
    to.transport = "all"
    guest.run("echo 16 > /proc/sys/vm/nr_hugepages")
    for name in sorted(visit.shop.selftests):
        to.suite("the kernel's tests")
        result = guest.run(f"/selftests/{name} {devices[0]}", SECONDS)
        kernels_points(to, name, result)
    done = guest.run(f"usdmactl selftest {devices[0]}", SECONDS)
    to.check(done.status == 0, "after all tests the device copies", done.out + done.err)


def kernels_driver(visit):
    """The kernel's own VFIO test of its user-space drivers, in each mode that this kernel has."""
    guest, to, devices, name = visit.machine, visit.to, found(visit), "vfio_pci_driver_test"
    bind_all(guest, to, devices, visit.situation.engine)
    to.transport = "selftests"
    to.suite(name)
    # 1 GiB of shared memory is mapped for each test, and each page of it is a message.
    guest.run("echo force >/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    modes = () if "iommufd" in visit.kernel.transports else ("vfio_type1_iommu", "vfio_type1v2_iommu")
    left_out = visit.situation.without
    words = [f"-T {t}" for t in left_out] + [f"-v {m}" for m in modes]
    for t, why in left_out.items():
        to.skip(f"{name}: {t}", why)
    kernels_points(to, name, guest.run(f"/selftests/{name} {' '.join(words)} {devices[0]}", 3000))
    to.suite("mistakes")
    case = f"{name}.vfio_type1_iommu.memcpy_success"
    done = visit.servers[0].failing("wrong%1/length", lambda: guest.run(f"/selftests/{name} -r {case} {devices[0]}", 600))
    to.check(done.status == 1 and f"not ok 1 {case}" in done.out, "a length that is off by one is detected", done.out + done.err)


def kernels_points(to, name, result):
    """Points of kselftest's TAP; status 4: the whole program is skipped."""
    points = [m for m in map(KSELFTEST_POINT.match, result.out.splitlines()) if m]
    for m in points:
        if m.group(4) == "SKIP":
            to.skip(f"{name}: {m.group(3)}", m.group(5) or "no reason given")
        else:
            to.check(not m.group(1), f"{name}: {m.group(3)}", "")
    if not points and result.status == 4:
        to.skip(name, (result.out + result.err).strip().splitlines()[-1] if result.out + result.err else "no reason given")
    else:
        to.check(points and result.status in (0, 4), f"{name}: ran to its end", f"status {result.status}")
    if result.status not in (0, 4):
        to.note(f"output of {name}:\n{result.out[-6000:]}\n{result.err[-2000:]}")
