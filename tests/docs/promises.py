#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The table "Promises of the headers" in docs/reliability.md: each row has a number of its own, names calls of its header, and
existing tests; each call of <usdma/usdma.h>, <usdma/uring.h> and <usdma/file.h> is in one.  TAP.

promises.py [BUILD-DIR]     with a build directory: meson has the tests, too
"""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
from pages import TOP, point, points, read  # noqa: E402

PAGE, TITLE = "docs/reliability.md", "Promises of the headers"
NATIVE = ("usdma/usdma.h", "usdma/uring.h", "usdma/file.h")
BACKENDS = ("", "-embedded", "-process")
QUOTED = re.compile(r"`([^`]+)`")


class Row:
    def __init__(self, line):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        self.name, self.whole = cells[0], len(cells) == 4 and all(cells)
        where, _, calls = (cells + [""] * 4)[2].partition(":")
        self.header = "".join(QUOTED.findall(where))
        self.calls = QUOTED.findall(calls)
        self.tests = [tuple(t.partition(": ")[::2]) for t in QUOTED.findall((cells + [""] * 4)[3])]

    @property
    def path(self):
        """Below include/; without a folder it is the library's own."""
        return self.header if "/" in self.header else "usdma/" + self.header


def rows():
    _, _, section = read(PAGE).partition(f"\n## {TITLE}\n")
    section = re.split(r"^## ", section, flags=re.M)[0]
    return [Row(line) for line in section.splitlines() if re.match(r"\| *P", line)]


def header(path):
    full = "include/" + path
    return read(full) if os.path.isfile(os.path.join(TOP, full)) else None


def declared(path):
    text = re.sub(r"/\*.*?\*/|^#[^\n]*", "", header(path), flags=re.S | re.M)
    return set(re.findall(r"USDMA_API[^;(]*?\b(\w+)\(", text))


# ---- the tests, by the text of the build files -----------------------------------------------------------------------


def sources_in(text):
    return re.findall(r"'([\w./-]+\.cpp)'", text)


def tests_of(build_file):
    """{name: sources, below the file's folder}: tables with files(...), test(NAME, executable(...)), and variables of both."""
    text = re.sub(r"#.*", "", read(build_file))
    found = {}
    for name, sources in re.findall(r"'([\w-]+)':\s*[\[{](?:'sources':\s*)?\[?files\(([^)]*)\)", text):
        found[name] = sources_in(sources)
    for name, sources in re.findall(r"\btest\('([\w-]+)',\s*executable\('[\w-]+',([^:]*?)\b\w+:", text):
        found[name] = sources_in(sources)
    made = dict(re.findall(r"^\s*(\w+) = executable\('[\w-]+',(.*?)\b\w+:", text, re.M | re.S))
    for name, variable in re.findall(r"\btest\('([\w-]+)',\s*(\w+)\b", text):
        if variable in made:
            found[name] = sources_in(made[variable])
    for names, body in re.findall(r"^foreach \w+, \w+ : \{([^}]*)\}(.*?)^endforeach", text, re.M | re.S):
        for variable in re.findall(r"\btest\(name,\s*(\w+)\b", body):
            for name in re.findall(r"'([\w-]+)':", names):
                found[name] = sources_in(made.get(variable, ""))
    folder = os.path.dirname(build_file)
    return {name: [os.path.join(folder, s) for s in sources] for name, sources in found.items() if sources}


def all_tests():
    found = {}
    for folder, _, files in os.walk(os.path.join(TOP, "tests")):
        if "meson.build" in files:
            found.update(tests_of(os.path.relpath(os.path.join(folder, "meson.build"), TOP)))
    found["vm"] = ["tests/vm/guests/cases.py"]
    return found


def is_in(function, text):
    """The function is defined in the text, and registered as a test; or it is a cell of the pairs that the gate runs."""
    if f'\t"{function}",\n' in text:
        return True
    if re.search(rf"^def {function}\(guest, to, ", text, re.M):
        return True
    return (re.search(rf"^(?:static )?void {function}\(void \*\*", text, re.M) and
            re.search(rf"\b(?:cmocka_)?unit(?:_test)?(?:_setup|_teardown|_setup_teardown)?\({function}\b", text))


def missing_test(row, tests):
    for name, function in row.tests:
        texts = [read(s) for s in tests.get(name, []) if os.path.isfile(os.path.join(TOP, s))]
        if name not in tests:
            yield f"{row.name}: there is no test '{name}'"
        elif not function or not any(is_in(function, t) for t in texts):
            yield f"{row.name}: {name} has no test function '{function}' in its list ({', '.join(tests[name])})"


def missing_call(row):
    text = header(row.path)
    if text is None:
        yield f"{row.name}: there is no header include/{row.path}"
        return
    for call in row.calls:
        if not re.search(rf"\b{re.escape(call)}\b", text):
            yield f"{row.name}: {call} is not in {row.path}"


def not_of_meson(all_rows, build):
    with open(os.path.join(build, "meson-info/intro-tests.json"), encoding="utf-8") as f:
        names = {t["name"] for t in json.load(f)}
    for name in sorted({name for row in all_rows for name, _ in row.tests}):
        if not names & {name + backend for backend in BACKENDS}:
            yield f"{name} is no test of {build}"


def numbers(all_rows):
    """A number stays with its promise: tests/mutants names it.  A new row takes one that no other has."""
    names = [row.name for row in all_rows]
    yield from (f"{n} is the name of two rows" for n in sorted(set(names)) if names.count(n) > 1)
    yield from (f"{n} is no number" for n in names if not re.fullmatch(r"P\d+", n))


def main():
    all_rows, tests = rows(), all_tests()
    named = {call for row in all_rows for call in row.calls if row.path in NATIVE}
    point(f"{PAGE} has the table", [] if all_rows else [f"no rows below '## {TITLE}'"])
    point("each number names one row", list(numbers(all_rows)))
    point("each row has a promise, a header, calls and tests",
          [f"{r.name}: something is missing" for r in all_rows if not (r.whole and r.header and r.calls and r.tests)])
    point("the calls are in their headers", [w for r in all_rows for w in missing_call(r)])
    point("the tests exist", [w for r in all_rows for w in missing_test(r, tests)])
    point("calls are found in the native headers", [f"none in {h}" for h in NATIVE if len(declared(h)) < 4])
    point("each native call has a promise", [f"{c} of {h} is in no row" for h in NATIVE for c in sorted(declared(h) - named)])
    if len(sys.argv) > 1:
        point("meson has the tests", list(not_of_meson(all_rows, sys.argv[1])))
    return points.end()


if __name__ == "__main__":
    sys.exit(main())
