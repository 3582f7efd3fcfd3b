#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks docs/internals.md against the code: each function of its tables is defined in the named file, and its body names
the listed calls; a table with the column "leaves the path" is complete: what its functions call, of the functions
that driver and lib define, is in the row or a leaf, and what they call on the path has a row or is a leaf; leaves call
only leaves; each other name `like_this` that comes with a file is in it; the layers are those of the includes' check,
in their order; queue/submit.h alone calls into a ring.  TAP.
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


KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "alignas", "static_assert", "catch", "decltype", "asm"}
# Names that are also members of the standard library's classes.
STANDARD = {"size", "size_t", "lock", "unlock", "exchange", "at", "is_never", "passed", "fail"}


@functools.cache
def code(path):
    """Without comments, texts, preprocessor lines and attributes; None: there is no such file."""
    if not os.path.isfile(os.path.join(TOP, path)):
        return None
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", read(path), flags=re.S)
    text = re.sub(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", "", text, flags=re.M)
    return re.sub(r"__attribute__\(\(.*?\)\)|\[\[.*?\]\]", "", text)


def block_from(text, at):
    """The text from this brace to the matching one."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if not depth:
            return text[at:i + 1]
    return text[at:]


# What may be between a function's parameters and its body.
BEHIND = re.compile(r"\s*(?:(?:const|noexcept(?:\([^()]*\))?|override|final|mutable|&&?|->[^{]*)\s*)*(?::(?!:)[^{]*)?$")


def functions(text):
    """(name, behind its opening parenthesis, its opening brace) of each function that is defined here."""
    for m in re.finditer(r"[^;{}]+(?=\{)", text):
        name = re.compile(r"(?<![\w:~])(?:\w+::)*(\w+)\s*\(").search(m[0], behind_template(m[0]))
        if name and name[1] not in KEYWORDS and "=" not in m[0][:name.start()] and m[0].count("(") == m[0].count(")") \
                and BEHIND.match(m[0], closing(m[0], name.end())):
            yield name[1], m.start() + name.end(), m.end()


def closing(text, at, pair="()"):
    """Behind the parenthesis that closes the one in front of at."""
    depth = 1
    while depth and at < len(text):
        depth += {pair[0]: 1, pair[1]: -1}.get(text[at], 0)
        at += 1
    return at


def behind_template(text):
    found = re.match(r"\s*template\s*<", text)
    return closing(text, found.end(), "<>") if found else 0


def bodies(text, name):
    """All definitions with this name, with parameters and initializers: overloads, methods."""
    return [text[begin:brace] + block_from(text, brace) for found, begin, brace in functions(text) if found == name]


@functools.cache
def ours():
    """Names of the functions that driver and lib define, and of the classes among them: those with a constructor."""
    names, classes = set(), set()
    for path in glob.glob(os.path.join(TOP, "driver/**/*.*"), recursive=True) + glob.glob(os.path.join(TOP, "lib/**/*.*"), recursive=True):
        if path.endswith((".h", ".cpp")):
            text = code(os.path.relpath(path, TOP))
            names |= {name for name, _, _ in functions(text)}
            classes |= set(re.findall(r"\b(?:class|struct) (\w+)", text))
    return names - STANDARD, names & classes


def calls_of(body):
    names, classes = ours()
    return ({c for c in re.findall(r"(?<!\w)([a-z_]\w*)(?:<[\w:<>, *]*>)?\(", body) if c in names}
            | {c for c in re.findall(r"(?<!\w)([a-z_]\w*) [a-z_]\w*(?=[;({])", body) if c in classes})


def wrong_in(function, path, calls):
    text = code(path)
    if text is None:
        return [f"there is no file {path}"]
    found = bodies(text, function)
    if not found:
        return [f"{path} does not define {function}"]
    return [f"{function} does not name {c}" for c in calls if not any(re.search(rf"\b{c}\b", b) for b in found)]


def missing_in(function, path, named):
    """Calls that the page does not list."""
    called = set().union(*map(calls_of, bodies(code(path) or "", function)))
    return [f"{function} calls {c}: name it in the row, and give it a row if it is on the path" for c in sorted(called - named)]


def rows(page):
    """(first heading, cells) of each row of all tables."""
    for head, table in re.findall(r"^(\|[^\n]*\|)\n\|[-|]+\|\n((?:\|[^\n]*\n)+)", page, flags=re.M):
        for line in table.splitlines():
            yield head.strip("| ").split("|")[0].strip(), [c.strip() for c in line.strip().strip("|").split("|")]


def leaves_of(page):
    return {name: QUOTED.findall(cells[1])[0] for head, cells in rows(page) if head == "leaf" for name in QUOTED.findall(cells[0])}


def check_functions(page):
    n = 0
    leaves = leaves_of(page)
    table = [cells for head, cells in rows(page) if head == "function"]
    complete = [cells for cells in table if len(cells) == 4]
    # The second name in the first cell is the one that callers use: an operation of a table, a lambda.
    listed = set(leaves).union(*(QUOTED.findall(cells[0])[:2] for cells in complete))
    for cells in table:
        function, path, calls = QUOTED.findall(cells[0])[0], QUOTED.findall(cells[1])[0], QUOTED.findall(cells[2])
        off = QUOTED.findall("".join(cells[3:]))
        wrong = wrong_in(function, path, calls + off)
        if len(cells) == 4:
            wrong += missing_in(function, path, set(calls) | set(off) | set(leaves))
            wrong += [f"{c} has no row" for c in calls if c not in listed and c in ours()[0]]
        point(f"{function} in {path}", wrong)
        n += 1
    for leaf, path in leaves.items():
        point(f"{leaf}, a leaf", wrong_in(leaf, path, []) + missing_in(leaf, path, set(leaves)))
    point("functions are checked", [] if n >= 40 and len(complete) >= 60 else [f"only {n} rows were read, {len(complete)} of complete tables"])


def check_files(page):
    """`name` … in `file`, and the column of files in the other tables."""
    for name, path in re.findall(r"`(\w+)`(?: of)? in `([\w/.]+)`", page):
        point(f"{name} in {path}", [] if code(path) is not None and re.search(rf"\b{name}\b", code(path)) else ["it is not there"])
    for head, cells in rows(page):
        if head == "lock":
            path, names = QUOTED.findall(cells[1])[0], QUOTED.findall(cells[0])
            text = code(path)
            lost = [n for n in names if text is None or (not re.search(rf"\b{n}\b", text))]
            point(f"{cells[0]}: {path}", [f"{n} is not there" for n in lost])
    lost = [p for p in QUOTED.findall(page) if re.match(r"(lib|driver|tests|tools)/", p) and not os.path.exists(os.path.join(TOP, p))]
    point("every path exists", lost)


def check_layers(page):
    said = [QUOTED.findall(c[0])[0] for head, c in rows(page) if head == "folder"]
    order = [f for f in includes.LAYERS if f.startswith("lib/core/")]
    point("the layers, in the order of tests/style/includes.py", [] if said == order else [f"here {said}", f"there {order}"])


def check_engine_calls():
    call = re.compile(r"ops->(post|doorbell|submit_copy|wake)\(")
    callers = {os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, "lib/**/*.*"), recursive=True)
               if p.endswith((".h", ".cpp")) and call.search(code(os.path.relpath(p, TOP)))}
    point("only queue/submit.h calls an engine's operations", [] if callers == {"lib/core/queue/submit.h"} else sorted(callers))


def main():
    page = read(PAGE)
    check_functions(page)
    check_files(page)
    check_layers(page)
    check_engine_calls()
    return points.end()


if __name__ == "__main__":
    sys.exit(main())
