# SPDX-License-Identifier: BSD-3-Clause
"""The lists of seeded defects (*.list), and a copy of the tree with all of them compiled in, each behind a switch."""
import glob
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
KINDS = ("missing step", "lost error", "missing check", "condition", "boundary", "off by one", "after a failure", "other process", "wake-up", "order")
# Forced into each C++ source of the copy. The number is read once, when a library or a program is loaded.
SWITCH = """#pragma once
#include <cstdlib>
namespace usdma_mutants {
[[gnu::visibility("hidden")]] inline int active = [] { const char *n = std::getenv("USDMA_MUTANT"); return n ? std::atoi(n) : 0; }();
}
#define usdma_mutant(n) __builtin_expect(usdma_mutants::active == (n), 0)
"""


class Bad(Exception):
    """A line of a list that is wrong or no longer applies."""


class Defect:
    def __init__(self, where, line, tests):
        words = line.split(" @ ")
        if len(words) != 6 or " => " not in words[5] + " ":
            raise Bad(f"{where}: not NAME @ KIND @ PROMISE @ FILE @ FUNCTION @ OLD => NEW")
        self.where, (self.name, self.kind, self.promise, self.file, self.function, change) = where, words
        self.old, self.new = (change + " ").split(" => ", 1)
        self.new, self.tests, self.folder = self.new.strip(), tests, os.path.basename(where.split(":")[0]).removesuffix(".list")
        self.equivalent = self.promise.removeprefix("equivalent: ") if self.promise.startswith("equivalent: ") else ""
        if self.kind not in KINDS:
            raise Bad(f"{where}: '{self.kind}' is none of: {', '.join(KINDS)}")

    def switched(self, number):
        if self.old.endswith(";"):
            return f"{{ if (usdma_mutant({number})) {{ {self.new} }} else {{ {self.old} }} }}"
        kind = "bool" if self.old.startswith("(") else ""  # a whole condition, which may be a pointer
        return f"(usdma_mutant({number}) ? {kind}({self.new}) : {kind}({self.old}))"

    def position(self, text):
        """Where OLD begins: once in the function (or, for -, in the file)."""
        begin, end = (0, len(text)) if self.function == "-" else self._body(text)
        found = [m.start() for m in re.finditer(re.escape(self.old), text[begin:end])]
        if len(found) != 1:
            raise Bad(f"{self.where}: '{self.old}' is {len(found)} times in {self.function} of {self.file}")
        return begin + found[0]

    def _body(self, text):
        found = list(re.finditer(rf"^(?![#\s}}/]).*(?<![\w.>]){re.escape(self.function)}\((?:[^;{{]|\n)*\n{{\n", text, re.M))
        if len(found) != 1:
            raise Bad(f"{self.where}: {len(found)} definitions of {self.function} in {self.file}")
        return found[0].end(), text.index("\n}", found[0].end() - 1)


def read_lists(folder=HERE):
    """All defects, numbered from 1 in order of the lists' names."""
    defects = []
    for path in sorted(glob.glob(os.path.join(folder, "*.list"))):
        tests = []
        with open(path, encoding="utf-8") as f:
            for n, line in enumerate(f.read().splitlines(), 1):
                if line.startswith("tests: "):
                    tests = line.split()[1:]
                elif line and not line.startswith("#"):
                    defects.append(Defect(f"{os.path.basename(path)}:{n}", line, tests))
    names = [d.name for d in defects]
    if double := {n for n in names if names.count(n) > 1}:
        raise Bad(f"two defects of the name {', '.join(sorted(double))}")
    return defects


def mutated(top, defects):
    """{file: text with all its defects}."""
    files = {}
    for number, d in enumerate(defects, 1):
        files.setdefault(d.file, []).append((number, d))
    return {name: _change(top, name, some) for name, some in files.items()}


def _change(top, name, some):
    with open(os.path.join(top, name), encoding="utf-8") as f:
        text = f.read()
    changes = sorted(((d.position(text), d, number) for number, d in some), key=lambda s: s[0], reverse=True)
    for (at, d, _), (behind, other, _) in zip(changes[1:], changes):
        if at + len(d.old) > behind:
            raise Bad(f"{d.where} and {other.where} overlap")
    for at, d, number in changes:
        text = text[:at] + d.switched(number) + text[at + len(d.old):]
    return text


def copy_tree(top, to, defects):
    """The tree of git's index with the defects in it; files that are the same are left alone, so that a build is short."""
    changed = mutated(top, defects)
    names = subprocess.run(["git", "-C", top, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    for name in names:
        source, target = os.path.join(top, name), os.path.join(to, name)
        if os.path.isfile(source):
            put(target, changed[name].encode() if name in changed else None, source)
    put(os.path.join(to, "mutant.h"), SWITCH.encode())


def put(target, data, source=None):
    if data is None:
        with open(source, "rb") as f:
            data = f.read()
    if os.path.exists(target):
        with open(target, "rb") as f:
            if f.read() == data:
                return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as f:
        f.write(data)
    if source:
        shutil.copymode(source, target)
