# SPDX-License-Identifier: BSD-3-Clause
"""Points (one check each, with a name) from TAP and from meson's log, and their sums."""
import json
import os
import re

POINT = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")
SKIP_PLAN = re.compile(r"^1\.\.0\s*#\s*skip\S*\s*(.*)$", re.I)
BAD = ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS")
DIRECTIVE = re.compile(r"^(.*?)\s*#\s*(skip|todo)\S*\s*(.*)$", re.I)


class Results:
    """What a check found."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []  # a count; names with logs; names with reasons

    def add(self, ok, name, log=""):
        if ok:
            self.passed += 1
        else:
            self.failed.append((name, log))

    def skip(self, name, why):
        self.skipped.append((name, why or "no reason given"))

    @property
    def count(self):
        return self.passed + len(self.failed) + len(self.skipped)

    def add_tap(self, test, text, status=0, log=""):
        """Each point of one test program's TAP; what went wrong around the points is a failed point of its own."""
        points, failed = 0, len(self.failed)
        for line in text.splitlines():
            plan, point = SKIP_PLAN.match(line), POINT.match(line)
            if plan:
                self.skip(test, plan.group(1))
                points += 1
            elif point:
                self._add_point(test, point, log)
                points += 1
        if "Bail out!" in text or (status and len(self.failed) == failed):
            self.add(False, f"{test}: ended badly (status {status})", log)
        elif not points:
            self.add(False, f"{test}: reported nothing", log)

    def _add_point(self, test, point, log):
        name, directive = point.group(2), DIRECTIVE.match(point.group(2))
        if directive:
            name, why = directive.group(1) or directive.group(3), directive.group(3)
            if not directive.group(1):  # cmocka's form; what the test said about it is in its log
                said = [line for line in log.splitlines() if "skip" in line.lower() and not POINT.match(line)]
                why = said[0].strip("# ") if said else "this environment cannot run it"
            self.skip(f"{test}: {name}", why)
        else:
            self.add(not point.group(1), f"{test}: {name}", log)

    def add_meson(self, path, status, log):
        """Each test of a meson run; those that speak TAP by their points.  Returns the entries of meson's log."""
        entries, failed, misread = [], len(self.failed), False
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                entries = [json.loads(line) for line in f]
        for t in entries:
            misread |= self._add_test(t)
        if not entries:
            self.add(False, "meson test ran nothing", log)
        elif status and len(self.failed) == failed and not misread:
            self.add(False, f"meson test ended with status {status}", log)
        return entries

    def _add_test(self, t):
        """True: meson saw a failure where there is a skip."""
        out, name, verdict = t.get("stdout") or "", t["name"], t["result"]
        log = f"{out}\n{t.get('stderr') or ''}".strip()
        if re.search(r"^(1\.\.\d|(not )?ok\b|Bail out!)", out, re.M):
            # cmocka writes a skipped test as "not ok 3 # SKIP name" and ends with 0; meson calls that a failure.
            misread = verdict == "FAIL" and t.get("returncode") == 0 and bool(re.search(r"^not ok \d+ # SKIP", out, re.M))
            bad = verdict in BAD and not misread
            self.add_tap(name, out, (t.get("returncode") or 1) if bad else 0, f"{verdict}\n{log}" if bad else log)
            return misread
        if verdict == "SKIP":
            self.skip(name, log.splitlines()[-1] if log else "")
        else:
            self.add(verdict in ("OK", "EXPECTEDFAIL"), name, f"{verdict}\n{log}")
        return False
