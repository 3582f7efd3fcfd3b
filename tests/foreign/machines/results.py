# SPDX-License-Identifier: BSD-3-Clause
"""Results by kernel, transport, IOMMU, suite and situation."""

import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vm"))
from guests import report  # noqa: E402


class Ledger:
    """Counts of points for each kernel, transport, IOMMU, suite and situation."""

    def __init__(self, engine_of):
        self._lock = threading.Lock()
        self._rows, self._engine_of = {}, engine_of

    def add(self, where, ok):
        with self._lock:
            row = self._rows.setdefault(where, [0, 0, 0.0])
            row[not ok] += 1

    def took(self, where, seconds):
        with self._lock:
            self._rows.setdefault(where, [0, 0, 0.0])[2] += seconds

    def rows(self):
        with self._lock:
            return [{"kernel": k, "transport": t, "iommu": i, "suite": s, "situation": m, "engine": self._engine_of[m],
                     "passed": n[0], "failed": n[1], "seconds": round(n[2], 1)}
                    for (k, t, i, s, m), n in sorted(self._rows.items()) if n[0] or n[1]]


class Scope(report.Scope):
    """Points of one machine; those between suite() and the next belong to that row of the table."""

    def __init__(self, out, ledger, name, kernel, iommu):
        super().__init__(out, name)
        self._ledger, self._kernel, self._iommu = ledger, kernel, iommu
        self._transport, self._suite, self._since = "none", "machine", time.monotonic()

    def elsewhere(self, kernel, iommu):
        """A scope for points of the same situation that do not run in its machine."""
        return Scope(self.report, self._ledger, self.name, kernel, iommu)

    def _where(self):
        return self._kernel, self._transport, self._iommu, self._suite, self.name

    def _until_now(self):
        now = time.monotonic()
        self._ledger.took(self._where(), now - self._since)
        self._since = now

    @property
    def transport(self):
        return self._transport

    @transport.setter
    def transport(self, name):
        self._until_now()
        self._transport = name

    def suite(self, name):
        """The suite of the points that follow."""
        self._until_now()
        self._suite = name

    def check(self, ok, name, detail=""):
        self._ledger.add(self._where(), bool(ok))
        return super().check(ok, f"{self.transport}: {name}" if self.transport != "none" else name, detail)

    def tap(self, name, result):
        points, plan, bail = report.parse(result.out)
        for ok, text, skipped in points:
            if skipped is not None:
                self.skip(f"{name}: {text}", skipped)
        for ok, text, skipped in points:
            if skipped is None:
                self.check(ok, f"{name}: {text}")
        whole = bail is None and plan == len(points) and points and (result.status == 0 or any(not p[0] for p in points))
        self.check(whole, f"{name}: ran to its end", f"status {result.status}, {len(points)} of {plan} points{', ' + bail if bail else ''}")
        if not whole or not all(p[0] for p in points):
            self.note(f"output of {name}:\n{report.excerpt(result)}")


def write(path, ledger, versions, seconds, made, situations):
    """For tests/foreign/table.  situations: those that have run."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    with open(path + ".part", "w", encoding="utf-8") as f:
        json.dump({"date": today, "cpus": os.cpu_count(), "seconds": round(seconds), "made": made, "versions": versions, "situations": situations,
                   "rows": ledger.rows()}, f, indent=1)
    os.rename(path + ".part", path)
