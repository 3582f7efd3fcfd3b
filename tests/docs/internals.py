#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
docs/internals.md against the code: each function of its tables is defined in the file that is named, and its body names
what it is said to call; each other name `like_this` that comes with a file stands there; the floors are those of the
includes' check, in their order; channel/submit.h alone calls into a ring.  TAP.
"""
import functools
import glob
import os
import re
import sys

sys.dont_write_bytecode = True
from pages import TOP, point, points, read  # noqa: E402

sys.path.insert(0, os.path.join(TOP, "tests/style"))
import includes  # noqa: E402

PAGE = "docs/internals.md"
QUOTED = re.compile(r"`([^`]+)`")


@functools.cache
def code(path):
    """Without comments and texts; None: there is no such file."""
    if not os.path.isfile(os.path.join(TOP, path)):
        return None
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", read(path), flags=re.S)


def block_from(text, at):
    """From this brace to its end."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if not depth:
            return text[at:i + 1]
    return text[at:]


def bodies(text, name):
    """All that this name is defined as: overloads, methods."""
    for m in re.finditer(rf"[\w*&>]\s[\w:*&]*\b{name}\([^;{{}}]*\)(?:\s*const)?(?:\s*:[^;{{}}]*)?\s*(?={{)", text):
        yield block_from(text, m.end())


def wrong_in(function, path, calls):
    text = code(path)
    if text is None:
        return [f"there is no file {path}"]
    found = list(bodies(text, function))
    if not found:
        return [f"{path} does not define {function}"]
    return [f"{function} does not name {c}" for c in calls if not any(re.search(rf"\b{c}\b", b) for b in found)]


def rows(page):
    """(cells) of each row of a table, without heads and lines."""
    for head, table in re.findall(r"^(\|[^\n]*\|)\n\|[-|]+\|\n((?:\|[^\n]*\n)+)", page, flags=re.M):
        for line in table.splitlines():
            yield head.strip("| ").split("|")[0].strip(), [c.strip() for c in line.strip().strip("|").split("|")]


def check_functions(page):
    n = 0
    for head, cells in rows(page):
        if head != "function":
            continue
        function, path = QUOTED.findall(cells[0])[0], QUOTED.findall(cells[1])[0]
        point(f"{function} in {path}", wrong_in(function, path, QUOTED.findall(cells[2])))
        n += 1
    point("functions are checked", [] if n >= 40 else [f"only {n} rows were read"])


def check_files(page):
    """`name` … in `file`, and the column of files in the other tables."""
    for name, path in re.findall(r"`(\w+)`(?: of)? in `([\w/.]+)`", page):
        point(f"{name} in {path}", [] if code(path) is not None and re.search(rf"\b{name}\b", code(path)) else ["it is not there"])
    for head, cells in rows(page):
        if head == "lock":
            path, names = QUOTED.findall(cells[1])[0], QUOTED.findall(cells[0])
            text = code(path)
            lost = [n for n in names if text is None or (not re.search(rf"\b{n}\b", text) and "helper" not in cells[0])]
            point(f"{cells[0]}: {path}", [f"{n} is not there" for n in lost])
    lost = [p for p in QUOTED.findall(page) if re.match(r"(lib|driver|tests|tools)/", p) and not os.path.exists(os.path.join(TOP, p))]
    point("every path is there", lost)


def check_floors(page):
    said = [QUOTED.findall(c[0])[0] for head, c in rows(page) if head == "folder"]
    order = [f for f in includes.FLOORS if f.startswith("lib/core/")]
    point("the floors, in the order of the check", [] if said == order else [f"here {said}", f"there {order}"])


def check_one_way():
    call = re.compile(r"ops->(post|doorbell|submit_copy|wake)\(")
    callers = {os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, "lib/**/*.*"), recursive=True)
               if p.endswith((".h", ".cpp")) and call.search(code(os.path.relpath(p, TOP)))}
    point("one way into a ring", [] if callers == {"lib/core/channel/submit.h"} else sorted(callers))


def main():
    page = read(PAGE)
    check_functions(page)
    check_files(page)
    check_floors(page)
    check_one_way()
    return points.end()


if __name__ == "__main__":
    sys.exit(main())
