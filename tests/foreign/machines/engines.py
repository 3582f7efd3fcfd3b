# SPDX-License-Identifier: BSD-3-Clause
"""Cases of machines with the model of an engine: Linux's driver and dmatest on it, and our driver on the kernel's VFIO."""

import re

from machines import cases
from machines.cases import SECONDS, doctor, query_json, found, run_suites, tools, transport


class LinuxDriver:
    """Linux's driver of an engine; load: the command that loads it; errors: messages about a faulty device."""

    def __init__(self, name, engine, load, errors):
        self.name, self.engine, self.load, self.errors = name, engine, load, errors

    def channels(self, options):
        """The number of channels of a device with these options."""
        raise NotImplementedError

    def threads(self, options):
        """The number of dmatest's threads: one for each operation of a channel."""
        return self.channels(options)

    def all_channels(self, situation):
        return sum(map(self.channels, situation.devices))

    def has_all(self, visit, devices, name):
        """Checks that the driver has bound all devices and channels, and has logged no error."""
        guest = visit.machine
        drivers = [driver_of(guest, d) for d in devices]
        there = guest.run("ls /sys/class/dma").out.split()
        log = guest.run("dmesg").out
        ok = all(d == self.name for d in drivers) and len(there) == self.all_channels(visit.situation) and not any(e in log for e in self.errors)
        return visit.to.check(ok, name, (drivers, there, log[-2000:]))

    def probe(self, visit):
        devices = found(visit)
        visit.to.transport = self.name
        visit.to.suite("probe")
        done = visit.machine.run(self.load, SECONDS)
        visit.to.check(done.status == 0, "the module is loaded", done.out + done.err)
        self.has_all(visit, devices, "binds each device, has each channel, and logs no error")


def driver_of(guest, device):
    return guest.run(f"basename $(readlink /sys/bus/pci/devices/{device}/driver)").out.strip()


# ---- dmatest -------------------------------------------------------------------------------------------------


def dmatest(guest, threads, iterations, timeout=120000):
    """({thread: (tests, failures)}, output): all operations of all channels."""
    guest.run("dmesg -c >/dev/null")
    # Its parameter "wait" does not wait for threads that have not started.
    done = guest.run(f"insmod /dmatest.ko timeout={timeout} iterations={iterations} run=1 || exit 1; n=0\n"
                     f"until [ $(dmesg | grep -c ': summary ') -ge {threads} ] || [ $n = 1500 ]; do n=$((n+1)); sleep 0.5; done\nrmmod dmatest", 900)
    said = guest.run("dmesg").out
    found_ = re.findall(r"dmatest: (\S+): summary (\d+) tests, (\d+) failures", said)
    return {name: (int(n), int(bad)) for name, n, bad in found_}, f"{done.out}{done.err}\n{said[-3000:]}"


def passes_dmatest(driver, visit, iterations, name):
    threads = sum(map(driver.threads, visit.situation.devices))
    summaries, said = dmatest(visit.machine, threads, iterations)
    ok = len(summaries) == threads and all(s == (iterations, 0) for s in summaries.values())
    if visit.to.check(ok, name, (summaries, said)):
        visit.to.note(f"dmatest: {threads} threads, {iterations} tests each")
    return ok


def noticed_by_dmatest(driver, visit, rule):
    """Whether dmatest fails while the first device has this fault, and its output."""
    threads = sum(map(driver.threads, visit.situation.devices))
    summaries, said = visit.servers[0].failing(rule, lambda: dmatest(visit.machine, threads, 3, 3000))
    return any(bad for _, bad in summaries.values()), said


def mistakes(driver, visit, rules):
    """How many of the model's deliberate faults, {name: rule}, dmatest notices."""
    to, noticed = visit.to, 0
    to.suite("mistakes")
    passes_dmatest(driver, visit, 3, "without a fault dmatest passes")
    for name, rule in rules.items():
        found_, said = noticed_by_dmatest(driver, visit, rule)
        noticed += found_
        how = ", ".join(sorted(set(re.findall(r"dmatest: \S+: result #\d+: '(?!test passed)([^']*)'", said))))
        to.note(f"{name} ({rule}): {f'noticed by dmatest: {how}' if found_ else 'not noticed'}")
        if not passes_dmatest(driver, visit, 3, f"after {name}: dmatest passes again"):
            to.note(said)
    return noticed


# ---- our driver ----------------------------------------------------------------------------------------------


def bind_from_driver(driver, guest, to, devices):
    to.suite("tools")
    guest.run("modprobe -a vfio-pci vfio_iommu_type1")
    _, listed = query_json(guest, "list")
    by = {d["address"]: d for d in listed} if isinstance(listed, list) else {}
    to.check(all(by.get(d, {}).get("driver") == driver.name and by[d].get("engine") == driver.engine for d in devices),
             f"list: the devices are bound to {driver.name}", listed)
    about = doctor(guest)[1].get("devices", {})
    to.check(about.get("state") == "advice" and driver.name in about.get("text", ""),
             f"doctor: the devices are bound to {driver.name}, which is advice and no failure", about)
    for d in devices:
        status, said = query_json(guest, f"bind {d}")
        to.check(status == 0 and said.get("former_driver") == driver.name, f"bind {d}: unbound from {driver.name}", said)


def given_back(driver, visit, devices):
    guest, to = visit.machine, visit.to
    to.transport = "none"
    guest.run(cases.RESTORE_FILES)
    to.suite("given back")
    for d in devices:
        status, said = query_json(guest, f"unbind {d}")
        to.check(status == 0 and said.get("driver") == driver.name, f"unbind {d}: back to {driver.name}", said)
    driver.has_all(visit, devices, f"{driver.name} is bound to all devices again, and logs no error")


# Each doorbell is a message through the emulator, which makes large tests too slow.
SMALL = {"USDMA_TEST_SMALL": "1", "USDMA_POOL_SIZE": "64M"}
# Each page that the IOMMU maps is a message: 65536 of 4 KiB for one device's memory would block the guest's CPU for too long.
LARGE_PAGES = "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled"


def without_guest(visit, engine):
    """The same suites without a guest: on the embedded model, and over vfio-user."""
    to = visit.to.elsewhere("no guest", "none")
    to.check(bool(visit.programs.of[engine]), f"the build has suites for {engine}")
    for transport_ in ("embedded", "vfio-user"):
        to.transport = transport_
        for s in visit.programs.of[engine]:
            to.suite(s.name)
            to.tap(s.name, s.run_here(transport_, visit.programs.build_dir))


# A chance of one in a hundred for each descriptor.
RANDOM_FAULTS = "fail~10000"


def random_faults(visit, devices):
    """Random operations while the host makes descriptors fail: 4,000, with --long 100,000."""
    to, server = visit.to, visit.servers[0]
    to.suite("random faults")
    settings = {**SMALL, "USDMA_TEST_SCALE": "25" if visit.shop.args.long else "1"}
    for s in (s for s in visit.programs.of[visit.situation.engine] if s.name == "completions"):
        result, state = server.failing(RANDOM_FAULTS, lambda s=s: (visit.machine.run(s.command(devices, settings), 3000), server.send_command("state")[1]))
        to.tap(s.name, result)
        struck, executed = map(int, re.search(r"struck (\d+) of (\d+)", state).groups())
        to.check(struck > executed / 400 > 5, "one descriptor in a hundred fails", state)
        to.note(f"{' '.join(re.findall('# (.* failed)', result.out))}; {struck} of {executed} descriptors")


def ours(driver, visit):
    without_guest(visit, driver.engine)
    guest, to, devices = visit.machine, visit.to, found(visit)
    guest.run(f"{LARGE_PAGES}; {driver.load}", SECONDS)
    driver.has_all(visit, devices, f"{driver.name} binds the devices first")
    bind_from_driver(driver, guest, to, devices)
    for name in visit.kernel.transports:
        if transport(guest, to, name, devices[0]):
            tools(guest, to, devices, driver.engine)
            run_suites(guest, to, visit.programs, devices, engine=driver.engine, seconds=1500, settings=SMALL)
            random_faults(visit, devices)
    given_back(driver, visit, devices)
