# SPDX-License-Identifier: BSD-3-Clause
"""Cases of machines with Intel I/OAT: drivers of others on our model, and our driver by the kernel's VFIO."""

import re

from machines import cases
from machines.cases import SECONDS, query_json, bind_all, found, run_suites, tools, transport
from guests.guest import GuestError

NO_ERRORS = ("Self-test", "failed to start", "fatal error")


# ---- Linux: probe and dmatest --------------------------------------------------------------------------------


def channels_of(options):
    return int(options[options.index("--channels") + 1]) if "--channels" in options else 1


def has_raid(options):
    return "ioat-3.3" in options


def driver_of(guest, device):
    return guest.run(f"basename $(readlink /sys/bus/pci/devices/{device}/driver)").out.strip()


def at_ioatdma(guest, to, devices, channels, name):
    """It has all functions, and found nothing wrong with them."""
    drivers = [driver_of(guest, d) for d in devices]
    there = guest.run("ls /sys/class/dma").out.split()
    log = guest.run("dmesg").out
    return to.check(all(d == "ioatdma" for d in drivers) and len(there) == channels and not any(e in log for e in NO_ERRORS), name,
                    (drivers, there, log[-2000:]))


def probe(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    options = visit.situation.devices
    to.transport = "ioatdma"
    to.suite("probe")
    done = guest.run("modprobe ioatdma", SECONDS)
    to.check(done.status == 0, "the module is loaded", done.out + done.err)
    at_ioatdma(guest, to, devices, sum(map(channels_of, options)), "takes each function and each channel; no self-test fails")
    caps = guest.run("cat /sys/class/dma/*/quickdata/cap").out.splitlines()
    raid = sum(channels_of(o) for o in options if has_raid(o))
    to.check(sum("xor" in c and "pq" in c for c in caps) == raid and all("copy" in c for c in caps), "XOR and PQ are those of 3.3", caps)


def threads_of(situation):
    """How many dmatest starts: one for each operation of a channel."""
    return sum(channels_of(o) * (3 if has_raid(o) else 1) for o in situation.devices)


def dmatest(guest, threads, iterations, timeout=120000):
    """({thread: (tests, failures)}, what it said): all operations of all channels."""
    guest.run("dmesg -c >/dev/null")
    # Its own parameter "wait" does not wait for threads that have not begun.
    done = guest.run(f"insmod /dmatest.ko timeout={timeout} iterations={iterations} run=1 || exit 1; n=0\n"
                     f"until [ $(dmesg | grep -c ': summary ') -ge {threads} ] || [ $n = 1500 ]; do n=$((n+1)); sleep 0.5; done\nrmmod dmatest", 900)
    said = guest.run("dmesg").out
    found_ = re.findall(r"dmatest: (\S+): summary (\d+) tests, (\d+) failures", said)
    return {name: (int(n), int(bad)) for name, n, bad in found_}, f"{done.out}{done.err}\n{said[-3000:]}"


def passes_dmatest(visit, iterations, name):
    threads = threads_of(visit.situation)
    summaries, said = dmatest(visit.machine, threads, iterations)
    ok = len(summaries) == threads and all(s == (iterations, 0) for s in summaries.values())
    if visit.to.check(ok, name, (summaries, said)):
        visit.to.note(f"dmatest: {', '.join(sorted(summaries))}: {iterations} tests each")
    return ok


def linux_probe_and_dmatest(visit):
    probe(visit)
    visit.to.suite("dmatest")
    passes_dmatest(visit, 50, "copies, XOR and PQ on all channels are right")


# ---- Linux: md -----------------------------------------------------------------------------------------------

# md is set up by its files in sysfs (Documentation/admin-guide/md.rst): no tool of its own is needed.
DISK_KIB, CHUNK_KIB, DATA_CHUNKS = 16384, 64, 256
MD = f"""md=/sys/block/md0/md
finish() {{ n=0; until [ "$(cat $md/sync_action)" = idle ] && [ "$(cat $md/degraded)" = 0 ]; do
	n=$((n+1)); [ $n -lt 3000 ] || {{ cat /proc/mdstat; return 1; }}; sleep 0.2; done; }}
build() {{ echo md0 >/sys/module/md_mod/parameters/new_array && echo none >$md/metadata_version && echo $1 >$md/level &&
	echo 4 >$md/raid_disks && echo {CHUNK_KIB * 1024} >$md/chunk_size && echo 2 >$md/layout || return 1
	for i in 0 1 2 3; do
		echo 1:$i >$md/new_dev && echo {DISK_KIB} >$md/dev-ram$i/size && echo $i >$md/dev-ram$i/slot || return 1
	done
	echo {DISK_KIB} >$md/component_size && echo active >$md/array_state && finish; }}
put() {{ dd if=/tmp/data of=/dev/md0 bs={CHUNK_KIB}k seek=$1 conv=fsync 2>&1; }}
sum() {{ echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/md0 bs={CHUNK_KIB}k skip=$1 count={DATA_CHUNKS} 2>/dev/null | sha256sum | cut -d' ' -f1; }}
lose() {{ for d; do echo faulty >$md/dev-$d/state || return 1; n=0
	until echo remove >$md/dev-$d/state; do n=$((n+1)); [ $n -lt 300 ] || return 1; sleep 0.2; done 2>/dev/null; done; }}
spare() {{ echo frozen >$md/sync_action || return 1
	for i; do echo 1:$i >$md/new_dev && echo {DISK_KIB} >$md/dev-ram$i/size || return 1; done
	echo recover >$md/sync_action && finish; }}
scan() {{ echo $1 >$md/sync_action && finish && cat $md/mismatch_cnt; }}
spoil() {{ dd if=/dev/urandom of=/dev/ram$1 bs=4k seek=5 count=1 conv=fsync 2>&1; }}
drop() {{ echo clear >$md/array_state; }}
"""


def descriptors(server):
    """How many the model has run since count()."""
    m = re.search(r"struck \d+ of (\d+)", server.tell("state")[1])
    return int(m.group(1)) if m else -1


def count(server):
    server.tell("faults", "slow@1000000000/1")


class Array:
    """An array of md's, step by step; each is a point, and takes at least so many descriptors of the device."""

    def __init__(self, visit, server):
        self.guest, self.to, self.server = visit.machine, visit.to, server
        self.data = self.run("head -c $((64 * 1024 * 256)) /dev/urandom >/tmp/data; sha256sum /tmp/data | cut -d' ' -f1").out.strip()

    def run(self, command):
        return self.guest.run(f". /tmp/md.sh; {command}", 1200)

    def step(self, name, command, says="", at_least=0):
        count(self.server)
        done = self.run(command)
        used = descriptors(self.server)
        ok = done.status == 0 and (not says or done.out.strip() == says) and used >= at_least
        self.to.check(ok, f"{name}{', by the device' if at_least else ''}", (done.out, done.err, f"{used} descriptors, {at_least} expected", self.guest.run("dmesg | tail").out))
        return ok

    def holds(self, name):
        sums = self.run("sum 0; sum 256").out.split()
        return self.to.check(sums == [self.data, self.data], f"{name}: SHA-256 of all that was written", (sums, self.data))


def raid(visit, level, lost, spares):
    """The stripe's parity is at least one descriptor, and so is each page that is copied into it."""
    stripes = DISK_KIB // 4
    data_pages = DATA_CHUNKS * CHUNK_KIB // 4
    a = Array(visit, next(s for s in visit.servers if has_raid(s.options)))
    visit.to.suite(level.upper().replace("RAID", "RAID-"))
    if not a.step(f"{level} of four disks: parity of all stripes", f"build {level}", at_least=stripes):
        return
    a.step("written", "put 0", at_least=data_pages)
    a.run("put 256")
    a.holds("written")
    a.step("a check finds no difference", "scan check", "0", stripes)
    a.step(f"{len(lost)} of the disks fail", "lose " + " ".join(lost))
    a.holds("without them")
    a.step("written without them", "put 256", at_least=data_pages)
    a.step("rebuilt on new disks", "spare " + " ".join(spares), at_least=stripes // 2)
    a.holds("rebuilt")
    a.step("a check finds no difference after the rebuild", "scan check", "0", stripes)
    a.run("spoil 3")
    a.step("a check finds a page of parity that was overwritten", "[ $(scan check) -gt 0 ]", at_least=stripes)
    a.step("it is repaired", "scan repair >/dev/null; scan check", "0", stripes)
    a.holds("repaired")
    a.step("ended", "drop")


def linux(visit):
    probe(visit)
    visit.to.suite("dmatest")
    passes_dmatest(visit, 50, "copies, XOR and PQ on all channels are right")
    guest = visit.machine
    guest.run(f"modprobe brd rd_nr=8 rd_size={DISK_KIB}; modprobe raid456; cat >/tmp/md.sh <<'END'\n{MD}END", SECONDS)
    raid(visit, "raid5", ["ram1"], ["4"])
    guest.run("for i in 0 1 2 3 4 5; do dd if=/dev/zero of=/dev/ram$i bs=1M; done", SECONDS)
    raid(visit, "raid6", ["ram1", "ram2"], ["4", "5"])


# ---- Linux: deliberate faults of the model -------------------------------------------------------------------

MISTAKES = {
    "a length that is off by one": "wrong%1/length",
    "a completion that comes before the data": "wrong%1/early",
    "a completion that names another descriptor": "wrong@2/completion",
    "lost interrupts": "drop-irq%1",
}


def noticed_by_dmatest(visit, rule):
    """The first device has copies only, so that no later completion of another operation hides a wrong one."""
    summaries, said = visit.servers[0].failing(rule, lambda: dmatest(visit.machine, threads_of(visit.situation), 3, 3000))
    return any(bad for _, bad in summaries.values()), said


def noticed_by_probe(visit):
    """
    The self-test of XOR validation meets an error that it does not expect: the kernel stops, or, where its timer sees the
    halt first, resets the channel and fails the test.
    """
    guest = visit.machine
    guest.run("rmmod ioatdma")
    visit.servers[1].tell("faults", "wrong%1/error")
    try:
        return "Self-test" in guest.run("modprobe ioatdma; dmesg -c", SECONDS).out
    except GuestError:
        visit.gone = True
    return "fatal error" in guest.logs()


def mistakes(visit):
    to, noticed = visit.to, 0
    probe(visit)
    to.suite("mistakes")
    passes_dmatest(visit, 3, "nothing is wrong: dmatest passes")
    for name, rule in MISTAKES.items():
        found_, said = noticed_by_dmatest(visit, rule)
        noticed += found_
        to.note(f"{name} ({rule}): {'noticed by dmatest' if found_ else 'not noticed'}")
        if not passes_dmatest(visit, 3, f"after {name}: dmatest passes again"):
            to.note(said)
    found_ = noticed_by_probe(visit)
    to.note(f"the wrong error bit (wrong%1/error): {'noticed by the self-test' if found_ else 'not noticed'}")
    to.check(noticed + found_ >= 4, "at least four of five faults are noticed", noticed + found_)


# ---- DPDK ----------------------------------------------------------------------------------------------------


def dpdk(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices, "ioat")
    to.transport = "DPDK"
    to.suite("dmadev_autotest")
    program = visit.shop.dpdk()
    # DPDK takes no plugins from where anyone may write.
    guest.run("echo 128 >/proc/sys/vm/nr_hugepages; chmod 755 / /dpdk; mkdir -p /var/run")
    done = guest.run(program.command("dmadev_autotest"), 1800)
    to.check("Test OK" in done.out and done.status == 0, f"DPDK {program.version}: dmadev_autotest", done.out[-4000:] + done.err[-4000:])
    guest.run("echo 0 >/proc/sys/vm/nr_hugepages")


# ---- our driver ----------------------------------------------------------------------------------------------


def taken_from_ioatdma(guest, to, devices):
    to.suite("tools")
    guest.run("modprobe -a vfio-pci vfio_iommu_type1")
    _, listed = query_json(guest, "list")
    by = {d["address"]: d for d in listed} if isinstance(listed, list) else {}
    to.check(all(by.get(d, {}).get("driver") == "ioatdma" and by[d].get("engine") == "ioat" for d in devices), "list: ioatdma has them", listed)
    _, said = query_json(guest, "doctor")
    about = {c["id"]: c for c in said.get("checks", [])}.get("devices", {})
    to.check(about.get("state") == "advice" and "ioatdma" in about.get("text", ""), "doctor: ioatdma has them, which is no mistake", about)
    for d in devices:
        status, said = query_json(guest, f"bind {d}")
        to.check(status == 0 and said.get("former_driver") == "ioatdma", f"bind {d}: taken from ioatdma", said)


def given_back(guest, to, devices, channels):
    to.transport = "none"
    guest.run(cases.ALL_BACK)
    to.suite("given back")
    for d in devices:
        status, said = query_json(guest, f"unbind {d}")
        to.check(status == 0 and said.get("driver") == "ioatdma", f"unbind {d}: back to ioatdma", said)
    at_ioatdma(guest, to, devices, channels, "ioatdma has them all again; no self-test fails")


# Each doorbell is a message through the emulator: quickstart's thousands of single copies take too long.
SMALL = {"USDMA_TEST_SMALL": "1", "USDMA_POOL_SIZE": "64M"}
# Each page that the IOMMU maps is a message, too: 65536 of 4 KiB for one device's memory, and the guest's CPU is locked up meanwhile.
LARGE_PAGES = "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled"


def without_guest(visit):
    """The same suites on the model in the program itself, and over vfio-user."""
    to = visit.to.elsewhere("no guest", "none")
    for transport_ in ("embedded", "vfio-user"):
        to.transport = transport_
        for s in visit.programs.of["ioat"]:
            to.suite(s.name)
            to.tap(s.name, s.run_here(transport_, visit.programs.build_dir))


def ours(visit):
    without_guest(visit)
    guest, to, devices = visit.machine, visit.to, found(visit)
    channels = sum(map(channels_of, visit.situation.devices))
    guest.run(f"{LARGE_PAGES}; modprobe ioatdma", SECONDS)
    at_ioatdma(guest, to, devices, channels, "ioatdma has the functions first")
    taken_from_ioatdma(guest, to, devices)
    for name in visit.kernel.transports:
        if transport(guest, to, name, devices[0]):
            tools(guest, to, devices, "ioat")
            run_suites(guest, to, visit.programs, devices, engine="ioat", seconds=1500, settings=SMALL)
    given_back(guest, to, devices, channels)
