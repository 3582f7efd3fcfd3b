#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The fault table as Markdown: build/tests/fault/fault-table 2>&1 | tests/fault/table.py [--modes]

A cell has the results that the caller got and the longest time until then over the
wait modes; with --modes each wait mode has its own row.
"""
import re
import sys

CELL = re.compile(r"^# (\S+)\s+(\w+)\s+(poll|interrupt|hybrid|any) +(.+), (\d+) us; (.+?); (.+)$")
NOT_STRUCK = "not struck"


def cell_text(runs):
    """The results of one or several wait modes."""
    struck = [r for r in runs if r[0] != NOT_STRUCK]
    if not struck:
        return "-" if runs else "not run"
    return f"{distinct(struck, 0)}, {max(r[1] for r in struck) / 1000:.1f} ms{struck[0][4]}"


def distinct(runs, column):
    return " or ".join(sorted({word for r in runs if r[0] != NOT_STRUCK for word in r[column].split(" or ")}))


def main():
    by_mode = "--modes" in sys.argv[1:]
    cells, faults, paths = {}, [], []
    for line in sys.stdin:
        m = CELL.match(line)
        if not m:
            continue
        fault, path, mode, result, us, state, leaks = m.groups()
        row = (fault, mode) if by_mode else (fault,)
        faults += [row] if row not in faults else []
        paths += [path] if path not in paths else []
        result, separator, count = result.partition(" (k =")
        cells.setdefault((row, path), []).append((result, int(us), state, leaks, separator + count))
    paths.sort(key=["pinned", "pageable", "batch", "descriptor", "peer"].index)
    print("| fault | " + ("wait mode | " if by_mode else "") + " | ".join(paths) + " | state after | left behind |")
    print("|---" * (len(paths) + 3 + by_mode) + "|")
    for row in faults:
        row_runs = [r for p in paths for r in cells.get((row, p), [])]
        print(f"| `{row[0]}` | " + (f"{row[1]} | " if by_mode else "") + " | ".join(cell_text(cells.get((row, p), [])) for p in paths)
              + f" | {distinct(row_runs, 2)} | {distinct(row_runs, 3).replace('nothing left', 'nothing')} |")
    return 0 if cells else 1


sys.exit(main())
