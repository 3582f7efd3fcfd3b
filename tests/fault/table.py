#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The fault table as Markdown: build/tests/fault/fault-table 2>&1 | tests/fault/table.py

A cell: what the caller heard, and the longest time of the wait modes until then.
"""
import re
import sys

CELL = re.compile(r"^# (\S+)\s+(\w+)\s+(poll|interrupt|hybrid)\s+(.+?)\s+(\d+) us  (.+)$")
cells, faults, paths = {}, [], []
for line in sys.stdin:
    m = CELL.match(line)
    if not m:
        continue
    fault, path, _, outcome, us, state = m.groups()
    faults += [fault] if fault not in faults else []
    paths += [path] if path not in paths else []
    cells.setdefault((fault, path), []).append((outcome, int(us), state))
print("| fault | " + " | ".join(paths) + " | state after |")
print("|---" * (len(paths) + 2) + "|")
for fault in faults:
    row = []
    for path in paths:
        runs = cells.get((fault, path), [("not run", 0, "")])
        row.append(f"{' or '.join(sorted({o for o, _, _ in runs}))}, {max(u for _, u, _ in runs) / 1000:.1f} ms")
    state = " or ".join(sorted({s for p in paths for _, _, s in cells.get((fault, p), [])}))
    print(f"| `{fault}` | " + " | ".join(row) + f" | {state} |")
sys.exit(0 if cells else 1)
