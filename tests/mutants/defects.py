# SPDX-License-Identifier: BSD-3-Clause
"""The lists of seeded defects (*.list), and a copy of the tree with all of them compiled in, each behind a switch."""
import glob
import os
import re
import shutil
import subprocess
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
KINDS = ("missing step", "lost error", "missing check", "condition", "boundary", "off by one", "after a failure", "other process", "wake-up", "order")
OPTIMISER = ("maybe-uninitialized", "uninitialized", "array-bounds", "stringop-overflow", "null-dereference")  # warns in those headers, too
MOST = 4096  # numbers, and bytes of MUTANT_REACHED
# Included by each changed source.  MUTANT is read once, when a library or a program is loaded: the number of the active
# defect; -1: none, but MUTANT_REACHED, a file of a byte for each, notes which ones would have run.  System calls by number:
# some tests make those of the C library fail.
SWITCH = """#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
namespace usdma_mutants __attribute__((visibility("hidden"))) {
inline volatile unsigned char *reached;
inline int load()
{
	const char *n = std::getenv("MUTANT"), *path = std::getenv("MUTANT_REACHED");
	const int active = n ? std::atoi(n) : 0;
	if (active >= 0 || !path)
		return active < 0 ? 0 : active;
	const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	const long at = syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	reached = reinterpret_cast<volatile unsigned char *>(at);
	return at == -1 ? 0 : -1;
}
inline int active = load();
inline bool note(int n)
{
	if (active < 0)
		reached[n] = 1;
	return false;
}
}
#define usdma_mutant(n) (__builtin_expect(usdma_mutants::active > 0, 0) ? usdma_mutants::active == (n) : usdma_mutants::note(n))
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
        self.more = []  # the other tests that its list names
        self.number = 1  # for the switch; see give_numbers()
        self.equivalent = self.promise.removeprefix("equivalent: ") if self.promise.startswith("equivalent: ") else ""
        if self.kind not in KINDS:
            raise Bad(f"{where}: '{self.kind}' is none of: {', '.join(KINDS)}")

    def switched(self):
        if self.old.endswith(";"):
            return f"{{ if (usdma_mutant({self.number})) {{ {self.new} }} else {{ {self.old} }} }}"
        kind = "bool" if self.old.startswith("(") else ""  # a whole condition, which may be a pointer
        return f"(usdma_mutant({self.number}) ? {kind}({self.new}) : {kind}({self.old}))"

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
    """All defects, in order of the lists' names."""
    defects = []
    for path in sorted(glob.glob(os.path.join(folder, "*.list"))):
        tests, first = [], len(defects)
        with open(path, encoding="utf-8") as f:
            for n, line in enumerate(f.read().splitlines(), 1):
                if line.startswith("tests: "):
                    tests = line.split()[1:]
                elif line and not line.startswith("#"):
                    defects.append(Defect(f"{os.path.basename(path)}:{n}", line, tests))
        every = dict.fromkeys(t for d in defects[first:] for t in d.tests)
        for d in defects[first:]:
            d.more = [t for t in every if t not in d.tests]
    names = [d.name for d in defects]
    if double := {n for n in names if names.count(n) > 1}:
        raise Bad(f"two defects of the name {', '.join(sorted(double))}")
    give_numbers(defects)
    return defects


def give_numbers(defects):
    """By their names: a new one changes the number of hardly any other, so that little is compiled again."""
    taken = {0}
    for d in sorted(defects, key=lambda d: d.name):
        d.number = zlib.crc32(d.name.encode()) % MOST
        while d.number in taken:
            d.number = (d.number + 1) % MOST
        taken.add(d.number)


def mutated(top, defects):
    """{file: text with all its defects}."""
    files = {}
    for d in defects:
        files.setdefault(d.file, []).append(d)
    return {name: _change(top, name, some) for name, some in files.items()}


def _change(top, name, some):
    with open(os.path.join(top, name), encoding="utf-8") as f:
        text = f.read()
    changes = sorted(((d.position(text), d) for d in some), key=lambda s: s[0], reverse=True)
    for (at, d), (behind, other) in zip(changes[1:], changes):
        if at + len(d.old) > behind:
            raise Bad(f"{d.where} and {other.where} overlap")
    for at, d in changes:
        text = text[:at] + d.switched() + text[at + len(d.old):]
    ignored = "".join(f'#pragma GCC diagnostic ignored "-W{w}"\n' for w in OPTIMISER)
    return f'#pragma GCC system_header\n{ignored}#line 1 "{name}"\n{text}'


def copy_tree(top, to, defects):
    """
    The tree, also what is not in git's index yet, with the defects; files that are the same are left alone: a short build.
    A source with defects is a header of the system, without warnings, which the defects may cause.
    """
    changed = mutated(top, defects)
    names = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    for name in names:
        source, target = os.path.join(top, name), os.path.join(to, name)
        if os.path.isfile(source):
            text, own = changed.get(name), name.endswith(".cpp")
            put(target, text and ('#include "mutant.h"\n' + (f'#include "{os.path.basename(name)}.inc"\n' if own else text)).encode(), source)
            if text and own:
                put(target + ".inc", text.encode())
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
