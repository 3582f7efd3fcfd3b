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
    fault, path, _, outcome, us, _ = m.groups()
    faults += [fault] if fault not in faults else []
    paths += [path] if path not in paths else []
    cells.setdefault((fault, path), []).append((outcome, int(us)))
print("| fault | " + " | ".join(paths) + " |")
print("|---" * (len(paths) + 1) + "|")
for fault in faults:
    row = []
    for path in paths:
        runs = cells.get((fault, path), [("not run", 0)])
        row.append(f"{' or '.join(sorted({o for o, _ in runs}))}, {max(u for _, u in runs) / 1000:.1f} ms")
    print(f"| `{fault}` | " + " | ".join(row) + " |")
sys.exit(0 if cells else 1)
