# SPDX-License-Identifier: BSD-3-Clause
"""Runs pytest on the given files and prints each test's result as TAP.  run_tap.py FILE..."""
import contextlib
import sys

import pytest


class Tap:
    def __init__(self, out):
        self.out = out
        self.count = 0
        self.bad = 0

    def point(self, ok, name, directive=""):
        self.count += 1
        self.bad += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name.replace('#', '')}{directive}", file=self.out, flush=True)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.point(False, f"{report.nodeid} ({report.when})")
        elif report.skipped:
            self.point(True, report.nodeid, f" # SKIP {report.longrepr[2]}")
        elif report.when == "call":
            self.point(True, report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.point(False, f"collecting {report.nodeid}")


def main():
    tap = Tap(sys.stdout)
    with contextlib.redirect_stdout(sys.stderr):
        status = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[tap])
    print(f"1..{tap.count}", flush=True)
    return 1 if tap.bad or not tap.count else int(status)


sys.exit(main())
