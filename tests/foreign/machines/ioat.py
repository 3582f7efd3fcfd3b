# SPDX-License-Identifier: BSD-3-Clause
"""Cases of machines with Intel I/OAT: Linux's and DPDK's driver on our model, and our driver on the kernel's VFIO."""

import re

from machines import engines
from machines.cases import SECONDS, bind_all, found
from guests.guest import GuestError

# ---- Linux: probe and dmatest --------------------------------------------------------------------------------


def has_raid(options):
    return "ioat-3.3" in options


class Ioatdma(engines.LinuxDriver):
    def __init__(self):
        super().__init__("ioatdma", "ioat", "modprobe ioatdma", ("Self-test", "failed to start", "fatal error"))

    def channels(self, options):
        return int(options[options.index("--channels") + 1]) if "--channels" in options else 1

    def threads(self, options):
        return self.channels(options) * (3 if has_raid(options) else 1)

    def probe(self, visit):
        super().probe(visit)
        options = visit.situation.devices
        caps = visit.machine.run("cat /sys/class/dma/*/quickdata/cap").out.splitlines()
        raid_channels = sum(self.channels(o) for o in options if has_raid(o))
        visit.to.check(sum("xor" in c and "pq" in c for c in caps) == raid_channels and all("copy" in c for c in caps), "XOR and PQ are those of 3.3", caps)


DRIVER = Ioatdma()


def linux_probe_and_dmatest(visit):
    DRIVER.probe(visit)
    visit.to.suite("dmatest")
    engines.passes_dmatest(DRIVER, visit, 50, "copies, XOR and PQ on all channels are right")


# ---- Linux: md -----------------------------------------------------------------------------------------------

# md is set up by its files in sysfs (Documentation/admin-guide/md.rst), without mdadm.
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
    """The number of descriptors that the model has executed since start_counting()."""
    m = re.search(r"struck \d+ of (\d+)", server.send_command("state")[1])
    return int(m.group(1)) if m else -1


def start_counting(server):
    """A fault rule that never strikes counts descriptors."""
    server.send_command("faults", "slow@1000000000/1")


class Array:
    """An md array.  Each step is a point; at_least: the descriptors that the device has to execute for it."""

    def __init__(self, visit, server):
        self.guest, self.to, self.server = visit.machine, visit.to, server
        self.data = self.run("head -c $((64 * 1024 * 256)) /dev/urandom >/tmp/data; sha256sum /tmp/data | cut -d' ' -f1").out.strip()

    def run(self, command):
        return self.guest.run(f". /tmp/md.sh; {command}", 1200)

    def step(self, name, command, says="", at_least=0):
        start_counting(self.server)
        done = self.run(command)
        used = descriptors(self.server)
        ok = done.status == 0 and (not says or done.out.strip() == says) and used >= at_least
        self.to.check(ok, f"{name}{', by the device' if at_least else ''}",
                      (done.out, done.err, f"{used} descriptors, {at_least} expected", self.guest.run("dmesg | tail").out))
        return ok

    def holds(self, name):
        sums = self.run("sum 0; sum 256").out.split()
        return self.to.check(sums == [self.data, self.data], f"{name}: SHA-256 of all that was written", (sums, self.data))


def raid(visit, level, lost, spares):
    """The parity of a stripe is at least one descriptor, and so is each page that is copied into it."""
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
    linux_probe_and_dmatest(visit)
    guest = visit.machine
    guest.run(f"modprobe brd rd_nr=8 rd_size={DISK_KIB}; modprobe raid456; cat >/tmp/md.sh <<'END'\n{MD}END", SECONDS)
    raid(visit, "raid5", ["ram1"], ["4"])
    guest.run("for i in 0 1 2 3 4 5; do dd if=/dev/zero of=/dev/ram$i bs=1M; done", SECONDS)
    raid(visit, "raid6", ["ram1", "ram2"], ["4", "5"])


# ---- Linux: deliberate faults of the model -------------------------------------------------------------------

# The first device has copies only, so that no later completion of another operation hides a wrong one.
MISTAKES = {
    "a length that is off by one": "wrong%1/length",
    "a completion that comes before the data": "wrong%1/early",
    "a completion that names another descriptor": "wrong@2/completion",
    "lost interrupts": "drop-irq%1",
}


def noticed_by_probe(visit):
    """
    The self-test of XOR validation gets an unexpected error: the kernel panics, or, if the driver's timer sees the halt
    first, resets the channel and fails the test.
    """
    guest = visit.machine
    guest.run("rmmod ioatdma")
    visit.servers[1].send_command("faults", "wrong%1/error")
    try:
        return "Self-test" in guest.run("modprobe ioatdma; dmesg -c", SECONDS).out
    except GuestError:
        visit.machine_dead = True
    return "fatal error" in guest.logs()


def mistakes(visit):
    DRIVER.probe(visit)
    noticed = engines.mistakes(DRIVER, visit, MISTAKES)
    found_ = noticed_by_probe(visit)
    visit.to.note(f"the wrong error bit (wrong%1/error): {'noticed by the self-test' if found_ else 'not noticed'}")
    visit.to.check(noticed + found_ >= 4, "at least four of five faults are noticed", noticed + found_)


# ---- DPDK ----------------------------------------------------------------------------------------------------


def dpdk(visit):
    guest, to, devices = visit.machine, visit.to, found(visit)
    bind_all(guest, to, devices, "ioat")
    to.transport = "DPDK"
    to.suite("dmadev_autotest")
    program = visit.shop.dpdk()
    # DPDK loads no plugins from a folder that is writable by all users.
    guest.run("echo 128 >/proc/sys/vm/nr_hugepages; chmod 755 / /dpdk; mkdir -p /var/run")
    done = guest.run(program.command("dmadev_autotest"), 1800)
    to.check("Test OK" in done.out and done.status == 0, f"DPDK {program.version}: dmadev_autotest", done.out[-4000:] + done.err[-4000:])
    guest.run("echo 0 >/proc/sys/vm/nr_hugepages")


def ours(visit):
    engines.ours(DRIVER, visit)
