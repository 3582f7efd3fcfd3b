#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Reads what driver and lib include.  A unit is a header with its source; a folder
stands on those that FLOORS has before it.  An arrow upward, or a circle of
units that is not in STANDING, is named; so is one there that is gone.

Engines and the software device include nothing of each other.

  tests/style/includes.py [DIR]     exit status 1: something is wrong
"""
import os
import re
import sys

# From the ground up; a folder includes those before it, and itself.
FLOORS = ("driver/base", "driver/copy", "driver/pci", "driver/vfio", "driver/dma/request", "driver/dma/channel", "driver/dma/engine",
          "driver/dma/registry", "driver/dma/reduce", "driver/dma/softop", "driver/hw", "driver/sim",
          "driver/dma/transports", "driver/dma", "driver/engines/dsa", "driver/engines/edu", "driver/engines/hisi", "driver/engines/ioat", "driver/engines/sdma", "driver/engines",
          "lib/core/base", "lib/core/config", "lib/core/check", "lib/core/device", "lib/core/memory", "lib/core/queue", "lib/core/stream", "lib/core/copy",
          "lib/core/file", "lib/core/ipc", "lib/core", "lib/native", "lib/acl", "lib/ascend", "lib/hccl", "lib/hccl_comm", "lib/python")
# Each of these folders stands alone; what two of them need is driver/dma's, or a register map in driver/hw.
APART = re.compile(r"driver/(?:sim|engines/[^/]+)(?=/)")
# What is to be taken apart (issue 18).
STANDING = (
    {"lib/acl/report", "lib/acl/report_thread", "lib/acl/state"},
)


def units(top):
    """{unit: the units that it includes}"""
    found = {}
    for at, _, names in sorted(os.walk(top)):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), top)
            if not path.startswith(("driver/", "lib/")) or not path.endswith((".h", ".cpp")):
                continue
            with open(os.path.join(top, path), encoding="utf-8") as f:
                said = re.findall(r'^\s*#\s*include\s+"((?:driver|lib)/[^"]+)"', f.read(), re.M)
            unit = os.path.splitext(path)[0]
            found.setdefault(unit, set()).update(u for u in (os.path.splitext(s)[0] for s in said) if u != unit)
    return found


def floor_of(unit):
    """The longest entry of FLOORS that it stands in; None: it stands nowhere."""
    fits = [f for f in FLOORS if unit == f or unit.startswith(f + "/")]
    return FLOORS.index(max(fits, key=len)) if fits else None


def apart(unit, other):
    """True: neither may know the other."""
    here, there = APART.match(unit), APART.match(other)
    return bool(here and there and here[0] != there[0])


def reach_of(unit, arrows):
    seen, todo = set(), [unit]
    while todo:
        for u in arrows.get(todo.pop(), ()):
            if u not in seen:
                seen.add(u)
                todo.append(u)
    return seen


def circles(arrows):
    reach = {u: reach_of(u, arrows) for u in arrows}
    found = []
    for u in sorted(arrows):
        if u in reach[u] and not any(u in c for c in found):
            found.append({v for v in reach[u] if u in reach.get(v, ())})
    return found


def wrong_in(arrows):
    for u, includes in sorted(arrows.items()):
        for v in sorted(includes):
            low, high = floor_of(u), floor_of(v)
            if low is None or high is None:
                yield f"{u} includes {v}: one of them stands in no folder of FLOORS"
            elif high > low:
                yield f"{u} includes {v}: upward"
            elif apart(u, v):
                yield f"{u} includes {v}: engines and models do not know each other"
    now = circles(arrows)
    for c in now:
        if c not in STANDING:
            yield f"a circle: {', '.join(sorted(c))}"
    for c in STANDING:
        if c not in now:
            yield f"no circle any more, take it out of STANDING: {', '.join(sorted(c))}"


def main(top):
    arrows = units(top)
    wrong = list(wrong_in(arrows))
    print("\n".join(wrong) or f"{len(arrows)} units, {len(STANDING)} circles that are known")
    return 1 if wrong or not arrows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
