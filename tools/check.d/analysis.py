# SPDX-License-Identifier: BSD-3-Clause
"""The jobs that read the source, and coverage."""
import os
import re

from check import TOP, in_suites, read_json, tail
from building import BUILD, CLANG
from jobs import job

CPPCHECK = ["cppcheck", "--std=c++20", "--language=c++", "--enable=warning,performance,portability", "--inline-suppr", "--quiet",
            "--library=posix", "--suppressions-list=tests/style/cppcheck.supp", "-I.", "-Iinclude", "-D__linux__", "-D__x86_64__",
            '-DUSDMA_VERSION="0"', "--template={file}:{line}: {severity}: {message} [{id}]", "--error-exitcode=1"]


@job("cppcheck", 2, "cppcheck: driver, lib, tools; its suppressions give their reasons", ("python", "cppcheck"))
def cppcheck(run):
    run.each("cppcheck", [(folder, [*CPPCHECK, "-j", str(run.jobs), folder]) for folder in ("driver", "lib", "tools")])


def commands_of(where):
    """The build's command for each source of the tree, by path."""
    found = {}
    for e in read_json(where, "compile_commands.json"):
        path = os.path.relpath(os.path.normpath(os.path.join(e["directory"], e["file"])), TOP)
        if not path.startswith("..") and not os.path.join(TOP, path).startswith(where) and os.path.exists(os.path.join(TOP, path)):
            found.setdefault(path, e)
    return dict(sorted(found.items()))


STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-interference-size", "-Wno-missing-field-initializers"]


@job("headers", 2, "each private header compiles alone; public ones by clang, too", BUILD + ("clang",))
def headers(run):
    where = run.configure(where=run.dir("gcc"))
    run.tap("public headers by clang", ["python3", "-B", os.path.join(TOP, "tests/install/headers.py"), os.path.join(TOP, "include"),
                                        CLANG["CC"], CLANG["CXX"]])
    includes = sorted({w for e in commands_of(where).values() for w in re.findall(r"-isystem ?\S+|-I(?=/)\S+", e["command"])})
    include = [w for i in includes for w in i.split()] + [f"-I{TOP}", f"-I{TOP}/include", f"-I{TOP}/include/hccl"]
    run.each("private header", [
        (h, ["g++", "-std=c++20", "-D_GNU_SOURCE", '-DUSDMA_VERSION="0"', *STRICT, *include, "-xc++", "-include", h, "/dev/null"])
        for h in run.must("list of headers", ["git", "ls-files", "driver/*.h", "lib/*.h", "tools/*.h"]).split()])


# clang before 16 wants the first beside -ftrivial-auto-var-init=zero, which g++ 12 does not know; the others are g++'s.
KNOWN_TO_CLANG = ["-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang", "-Wno-unused-command-line-argument",
                  "-Wno-ignored-optimization-argument", "-Wno-unknown-warning-option"]


@job("tidy", 25, "clang-tidy 14 with .clang-tidy: driver, lib, tools; any finding fails", BUILD + ("tidy", "clang"))
def tidy(run):
    where = run.configure(where=run.dir("gcc"))
    run.must("clang-tidy", ["clang-tidy", "--version"])
    run.each("tidy", [(p, ["clang-tidy", "-p", where, "--quiet", *(f"--extra-arg={w}" for w in KNOWN_TO_CLANG), p])
                      for p in commands_of(where) if p.startswith(("driver/", "lib/", "tools/"))], deadline=1200)


@job("coverage", 15, "lines and branches of driver and lib that the suites unit, integration and fault run", BUILD + ("coverage",))
def coverage(run):
    where = run.configure("-Db_coverage=true", "-Doptimization=0", "-Ddebug=false", "-Dpython=disabled")
    names = in_suites(where, ["unit", "integration", "fault"])
    run.build(where=where, tests=names)
    run.test(names, where=where)
    said = run.must("gcovr", ["gcovr", "--root", TOP, "--object-directory", where, "-j", str(run.jobs), "--exclude-throw-branches",
                              "--exclude-unreachable-branches", *(f"--filter={TOP}/{d}/" for d in ("driver", "lib")),
                              "--print-summary", "--html-details", os.path.join(where, "coverage.html"), where])
    summary = re.findall(r"^(?:lines|branches): .*$", said, re.M)
    run.results.add(len(summary) == 2, "summary of the coverage", tail(said))
    run.say(f"{'; '.join(summary)} (pages: {where}/coverage.html)")
