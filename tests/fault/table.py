#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The fault table as Markdown: build/tests/fault/fault-table 2>&1 | tests/fault/table.py [--modes]

A cell: what the caller heard, and the longest time of the wait modes until then;
with --modes each wait mode has a row of its own.
"""
import re
import sys

CELL = re.compile(r"^# (\S+)\s+(\w+)\s+(poll|interrupt|hybrid|any) +(.+), (\d+) us; (.+?); (.+)$")
NOWHERE = "does not come here"


def said(runs):
    """What was heard in one or several wait modes."""
    met = [r for r in runs if r[0] != NOWHERE]
    if not met:
        return "-" if runs else "not run"
    return f"{every(met, 0)}, {max(r[1] for r in met) / 1000:.1f} ms{met[0][4]}"


def every(runs, column):
    return " or ".join(sorted({word for r in runs if r[0] != NOWHERE for word in r[column].split(" or ")}))


def main():
    each = "--modes" in sys.argv[1:]
    cells, faults, paths = {}, [], []
    for line in sys.stdin:
        m = CELL.match(line)
        if not m:
            continue
        fault, path, mode, heard, us, state, stays = m.groups()
        row = (fault, mode) if each else (fault,)
        faults += [row] if row not in faults else []
        paths += [path] if path not in paths else []
        heard, many, count = heard.partition(" (k =")
        cells.setdefault((row, path), []).append((heard, int(us), state, stays, many + count))
    paths.sort(key=["pinned", "pageable", "batch", "descriptor", "peer"].index)
    print("| fault | " + ("wait mode | " if each else "") + " | ".join(paths) + " | state after | left behind |")
    print("|---" * (len(paths) + 3 + each) + "|")
    for row in faults:
        all_of = [r for p in paths for r in cells.get((row, p), [])]
        print(f"| `{row[0]}` | " + (f"{row[1]} | " if each else "") + " | ".join(said(cells.get((row, p), [])) for p in paths)
              + f" | {every(all_of, 2)} | {every(all_of, 3).replace('nothing stays', 'nothing')} |")
    return 0 if cells else 1


sys.exit(main())
