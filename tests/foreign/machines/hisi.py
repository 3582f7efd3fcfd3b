# SPDX-License-Identifier: BSD-3-Clause
"""Cases of machines with HiSilicon's DMA engine: Linux's driver on our model of both chips, and our driver on the kernel's VFIO."""

from machines import engines
from machines.cases import SECONDS


class HisiDma(engines.LinuxDriver):
    """Debian's kernels for x86 lack it: the guest loads the module of built.py."""

    def __init__(self):
        super().__init__("hisi_dma", "hisi", "insmod /hisi_dma.ko", ("channel timeout!",))

    def channels(self, options):
        return 4 if "hisi-hip09" in options else 30

    def probe(self, visit):
        super().probe(visit)
        vectors = visit.machine.run("grep -c hisi_dma /proc/interrupts").out.strip()
        visit.to.check(vectors == str(self.all_channels(visit.situation)), "each channel has an interrupt", vectors)


DRIVER = HisiDma()


def linux(visit):
    guest, to = visit.machine, visit.to
    DRIVER.probe(visit)
    to.suite("dmatest")
    engines.passes_dmatest(DRIVER, visit, 50, "copies on all channels of both chips are right")
    to.suite("probe")
    done = guest.run(f"rmmod hisi_dma && {DRIVER.load}", SECONDS)
    to.check(done.status == 0, "the module is removed, and loaded again", done.out + done.err)
    to.suite("dmatest")
    engines.passes_dmatest(DRIVER, visit, 3, "copies are right after that")


# ---- deliberate faults of the model --------------------------------------------------------------------------

MISTAKES = {
    "a length that is off by one": "wrong%1/length",
    "a completion that comes before the data": "wrong%1/early",
    "a completion that names another submission": "wrong@2/completion",
    "a failure that is reported as success": "fail@2+wrong@1/error",
    "lost interrupts": "drop-irq%1",
}


def reports_errors(visit):
    """A submission that fails, which is reported, is not one of the hidden faults."""
    noticed, said = engines.noticed_by_dmatest(DRIVER, visit, "fail@2")
    visit.to.check(noticed and "task error!" in said, "a submission that fails: hisi_dma sees the error", said)


def mistakes(visit):
    DRIVER.probe(visit)
    noticed = engines.mistakes(DRIVER, visit, MISTAKES)
    reports_errors(visit)
    engines.passes_dmatest(DRIVER, visit, 3, "after that: dmatest passes again")
    visit.to.check(noticed >= 4, "at least four of five faults are noticed", noticed)


# ---- our driver ----------------------------------------------------------------------------------------------


def ours(visit):
    engines.ours(DRIVER, visit)
