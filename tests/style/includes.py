#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks the includes of driver and lib.  A module is a header with its source.  A
folder may include from the layers that LAYERS has before it.  Errors: an include
of a higher layer; an include cycle that is not in CYCLES, or a cycle there that
no longer exists; an include of one engine, or the software device, in another.

  tests/style/includes.py [DIR]     exit status 1: something is wrong
"""
import os
import re
import sys

# The lowest first; a folder includes from itself and those before it.
LAYERS = ("driver/base", "driver/copy", "driver/pci", "driver/vfio", "driver/vfio_user", "driver/dma/request", "driver/dma/channel", "driver/dma/engine",
          "driver/dma/registry", "driver/dma/reduce", "driver/dma/softop", "driver/hw", "driver/sim",
          "driver/dma/transports", "driver/dma", "driver/engines",
          "lib/core/base", "lib/core/config", "lib/core/device", "lib/core/memory", "lib/core/queue", "lib/core/stream", "lib/core/copy",
          "lib/core/file", "lib/core/check", "lib/core", "lib/native", "lib/share", "lib/acl", "lib/ascend", "lib/hccl", "lib/hccl_comm", "lib/hcomm", "lib/python")
# These folders do not include each other; what two of them need is in driver/dma, or is a register map in driver/hw.
SEPARATE = re.compile(r"driver/(?:sim|engines/[^/]+)(?=/)")
# Cycles that are accepted for now (issue 18).
CYCLES = (
    {"lib/acl/report", "lib/acl/report_thread", "lib/acl/state"},
)


def modules(top):
    """{module: the modules that it includes}"""
    found = {}
    for at, _, names in sorted(os.walk(top)):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), top)
            if not path.startswith(("driver/", "lib/")) or not path.endswith((".h", ".cpp")):
                continue
            with open(os.path.join(top, path), encoding="utf-8") as f:
                said = re.findall(r'^\s*#\s*include\s+"((?:driver|lib)/[^"]+)"', f.read(), re.M)
            module = os.path.splitext(path)[0]
            found.setdefault(module, set()).update(u for u in (os.path.splitext(s)[0] for s in said) if u != module)
    return found


def layer_of(module):
    """The index of the longest entry of LAYERS that contains the module; None: there is none."""
    fits = [f for f in LAYERS if module == f or module.startswith(f + "/")]
    return LAYERS.index(max(fits, key=len)) if fits else None


def are_separate(module, other):
    """True: neither may include the other."""
    here, there = SEPARATE.match(module), SEPARATE.match(other)
    return bool(here and there and here[0] != there[0])


def reach_of(module, includes):
    seen, todo = set(), [module]
    while todo:
        for u in includes.get(todo.pop(), ()):
            if u not in seen:
                seen.add(u)
                todo.append(u)
    return seen


def cycles(includes):
    reach = {u: reach_of(u, includes) for u in includes}
    found = []
    for u in sorted(includes):
        if u in reach[u] and not any(u in c for c in found):
            found.append({v for v in reach[u] if u in reach.get(v, ())})
    return found


def errors_in(includes):
    for u, included in sorted(includes.items()):
        for v in sorted(included):
            low, high = layer_of(u), layer_of(v)
            if low is None or high is None:
                yield f"{u} includes {v}: one of them is in no folder of LAYERS"
            elif high > low:
                yield f"{u} includes {v}: a higher layer"
            elif are_separate(u, v):
                yield f"{u} includes {v}: engines and models do not include each other"
    now = cycles(includes)
    for c in now:
        if c not in CYCLES:
            yield f"a cycle: {', '.join(sorted(c))}"
    for c in CYCLES:
        if c not in now:
            yield f"no longer a cycle, remove it from CYCLES: {', '.join(sorted(c))}"


def main(top):
    includes = modules(top)
    wrong = list(errors_in(includes))
    print("\n".join(wrong) or f"{len(includes)} modules, {len(CYCLES)} accepted cycles")
    return 1 if wrong or not includes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
