# SPDX-License-Identifier: BSD-3-Clause
"""Prints TAP; several machines report their points at the same time."""

import re
import sys
import threading

POINT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*-?\s*(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(#.*)?$")


class Report:
    def __init__(self, out=sys.stdout):
        self._lock = threading.Lock()
        self._out = out
        self.count = 0
        self.failed = 0

    def point(self, ok, name, detail=""):
        with self._lock:
            self.count += 1
            self.failed += not ok
            clean = name.replace("#", "\\#")
            print(f"{'ok' if ok else 'not ok'} {self.count} - {clean}", file=self._out)
            for line in detail.splitlines():
                print(f"# {line}", file=self._out)
            self._out.flush()

    def skip(self, name, why):
        with self._lock:
            self.count += 1
            print(f"ok {self.count} - {name} # SKIP {why}", file=self._out, flush=True)

    def note(self, text):
        with self._lock:
            for line in text.splitlines():
                print(f"# {line}", file=self._out)
            self._out.flush()

    def end(self):
        print(f"1..{self.count}", file=self._out, flush=True)


class Scope:
    """A report that puts the situation's name before each point."""

    def __init__(self, report, name):
        self.report = report
        self.name = name

    def check(self, ok, name, detail=""):
        self.report.point(bool(ok), f"{self.name}: {name}", "" if ok else str(detail))
        return bool(ok)

    def skip(self, name, why):
        self.report.skip(f"{self.name}: {name}", why)

    def note(self, text):
        self.report.note(f"{self.name}: {text}")

    def tap(self, name, result):
        """Reports each point of a program's TAP, and one for its plan and status."""
        points, plan, bail = parse(result.out)
        for ok, text, skipped in points:
            if skipped is not None:
                self.report.skip(f"{self.name}: {name}: {text}", skipped)
            else:
                self.report.point(ok, f"{self.name}: {name}: {text}")
        whole = bail is None and plan == len(points) and (result.status == 0 or any(not p[0] for p in points))
        why = f"status {result.status}, {len(points)} of {plan} points{', ' + bail if bail else ''}"
        self.check(whole, f"{name}: ran to its end", why)
        if not whole or not all(p[0] for p in points):
            self.note(f"output of {name}:\n{excerpt(result)}")  # once for all of its points


def excerpt(result, lines=60):
    text = (result.out + "\n" + result.err).splitlines()
    return "\n".join(text[-lines:])


def parse(text):
    """The points (ok, name, why skipped or None), the planned number (None: no plan), the bail-out text."""
    points, plan, bail = [], None, None
    for line in text.splitlines():
        m = POINT.match(line)
        if m:
            name, _, directive = m.group(3).partition(" # ")
            skipped = directive[4:].strip() if directive.upper().startswith("SKIP") else None
            points.append((m.group(1) is None, name.strip(), skipped))
        m = PLAN.match(line)
        if m:
            plan = (plan or 0) + int(m.group(1))
        if line.startswith("Bail out!"):
            bail = line
    return points, plan, bail
