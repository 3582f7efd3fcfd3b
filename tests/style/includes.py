#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks the includes of driver and lib.  A module is a header with its source.  A
folder may include from the layers that LAYERS has before it.  Errors: an include
of a higher layer; an include cycle that is not in CYCLES, or a cycle there that
no longer exists; an include of one engine, or the software device, in another; a call
of a function of a header that the file does not include, not even by others: builds
that join sources do not see it.

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


COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
# A function of a header, not static; and any function that is declared or defined, members as well.
DECLARED = re.compile(r"^(?!static\b|typedef\b|using\b|return\b)[A-Za-z_][\w:<>*&, \[\]]*?[ *&](\w+_\w+)\(", re.M)
OWN = re.compile(r"^[ \t]*(?!return\b|else\b)[A-Za-z_][\w:<>*&,\[\]]*[ \w:<>*&,\[\]]*[ *&:](\w+)\(", re.M)
CALLED = re.compile(r"(?<![\w.>:])(?:\w+::)?(\w+_\w+)\(")


def sources(top):
    """{path: text}"""
    found = {}
    for at, _, names in sorted(os.walk(top)):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), top)
            if path.startswith(("driver/", "lib/")) and path.endswith((".h", ".cpp")):
                with open(os.path.join(top, path), encoding="utf-8") as f:
                    found[path] = f.read()
    return found


def included_by(text):
    return re.findall(r'^\s*#\s*include\s+"((?:driver|lib)/[^"]+)"', text, re.M)


def modules(files):
    """{module: the modules that it includes}"""
    found = {}
    for path, text in files.items():
        module = os.path.splitext(path)[0]
        found.setdefault(module, set()).update(u for u in (os.path.splitext(s)[0] for s in included_by(text)) if u != module)
    return found


def missing_includes(files):
    """(path, function, header), of functions that one header has."""
    code = {path: COMMENT_OR_TEXT.sub(" ", text) for path, text in files.items()}
    includes = {path: included_by(text) for path, text in files.items()}
    headers = {}
    for path in (p for p in code if p.endswith(".h")):
        for name in DECLARED.findall(code[path]):
            headers.setdefault(name, set()).add(path)
    own = {path: set(OWN.findall(text)) for path, text in code.items()}
    for path, text in code.items():
        seen = {path} | reach_of(path, includes)
        declared = set().union(*(own.get(u, ()) for u in seen))
        for name in sorted(set(CALLED.findall(text)) - declared):
            if len(headers.get(name, ())) == 1 and layer_of(min(headers[name])[:-2]) <= layer_of(os.path.splitext(path)[0]):
                yield path, name, min(headers[name])


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
    files = sources(top)
    includes = modules(files)
    wrong = list(errors_in(includes))
    if not any("no folder of LAYERS" in w for w in wrong):
        wrong += [f"{path} calls {name}(), and does not include {header}" for path, name, header in missing_includes(files)]
    print("\n".join(wrong) or f"{len(includes)} modules, {len(CYCLES)} accepted cycles")
    return 1 if wrong or not includes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
