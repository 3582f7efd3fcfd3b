#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Build options that cannot work are refused by meson with the reason; those that leave something out.  TAP."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import Points  # noqa: E402

REFUSED = [("-Ddefault_library=static", "share the state in libusdma.so"), ("-Ddefault_library=both", "share the state in libusdma.so")]


def without(to):
    with tempfile.TemporaryDirectory() as where:
        # As where there is no UCX.
        done = subprocess.run(["meson", "setup", where, TOP, "-Dnet=disabled", "-Dpython=disabled"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if not done.returncode:
            done = subprocess.run(["ninja", "-C", where, "-t", "targets", "all"], stdout=subprocess.PIPE, text=True, check=False)
        to.add(done.returncode == 0 and "usdmactl:" in done.stdout and "usdma-net" not in done.stdout, "without UCX all but usdma-net is built", done.stdout)


def main():
    to = Points()
    if sys.argv[1:] == ["more"]:
        without(to)
        return to.end()
    for option, reason in REFUSED:
        with tempfile.TemporaryDirectory() as where:
            done = subprocess.run(["meson", "setup", where, TOP, option], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        to.add(done.returncode != 0 and reason in done.stdout, f"{option} is refused", done.stdout)
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
