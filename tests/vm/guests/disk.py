# SPDX-License-Identifier: BSD-3-Clause
"""Files on a disk that fails: a device mapper target on null_blk."""

MODULES = ["null_blk", "dm_mod", "dm_flakey", "crc32c_generic", "ext4"]
SECONDS = 900  # of real time, on a busy machine
BACKENDS = {"io_uring": "1", "threads": "0"}


def fails(guest, to, programs):
    guest.run(f"modprobe null_blk gb=1 memory_backed=1; modprobe -a {' '.join(MODULES)}")
    for name, io_uring in BACKENDS.items():
        to.tap(f"vm-disk by {name}", guest.run(
            f"exec env CMOCKA_MESSAGE_OUTPUT=TAP USDMA_DEVICES=sim:mem=64M:engines=1:channels=8 USDMA_TEST_IO_URING={io_uring} "
            "USDMA_HANG_MS=1000 USDMA_LOG=error vm-disk", SECONDS))
