# SPDX-License-Identifier: BSD-3-Clause
"""The checks that look at the source or watch a run.  They share the tree of check gcc; only coverage has one of its own."""
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

from check import TOP, check, tail
from building import BUILD, CLANG
from verdicts import AT, Verdicts, forget_old, newest_first


def commands_of(where):
    """What the build runs for each source, by its path in the tree; generated sources are left out."""
    with open(os.path.join(where, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    found = {}
    for e in entries:
        path = os.path.relpath(os.path.normpath(os.path.join(e["directory"], e["file"])), TOP)
        if not path.startswith("..") and os.path.exists(os.path.join(TOP, path)):
            found.setdefault(path, e)
    return {path: found[path] for path in sorted(found) if not os.path.join(TOP, path).startswith(where)}


def headers_in(*folders):
    return sorted(os.path.relpath(os.path.join(at, name), TOP) for folder in folders
                  for at, _, names in os.walk(os.path.join(TOP, folder)) for name in names if name.endswith((".h", ".hpp")))


CPPCHECK = ["cppcheck", "--std=c++20", "--language=c++", "--enable=warning,performance,portability", "--inline-suppr", "--quiet",
            "--library=posix", "--suppressions-list=tools/checks/cppcheck.supp", "-I.", "-Iinclude", "-D__linux__", "-D__x86_64__",
            '-DUSDMA_VERSION="0"', "--template={file}:{line}: {severity}: {message} [{id}]", "--error-exitcode=1"]


@check("cppcheck", "cppcheck: driver, lib, tools; what it is not asked has its reason", ("python", "cppcheck"))
def cppcheck(run):
    run.each("cppcheck", [(folder, [*CPPCHECK, "-j", str(run.jobs), folder]) for folder in ("driver", "lib", "tools")], deadline=600)


STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def includes_for(header, commands):
    """Where the sources beside a header, or else near it, find what they include."""
    folder = os.path.dirname(header)
    near = [e for p, e in commands.items() if os.path.dirname(p) == folder] or \
           [e for p, e in commands.items() if p.split("/")[0] == folder.split("/")[0]]
    words = [w for e in near for w in re.findall(r"(?:^|\s)(-I\S+|-isystem\S*|-isystem \S+)", e["command"])]
    return list(dict.fromkeys(w for word in words for w in [word.replace("-isystem ", "-isystem")]))


@check("headers", "each header compiles alone: public ones as C11 and C++20 by gcc and clang", BUILD + ("clang",))
def headers(run):
    where = run.configure(where=run.dir("gcc"))
    program, include = os.path.join(TOP, "tests/install/headers.py"), os.path.join(TOP, "include")
    for cc, cxx in (("cc", "c++"), (CLANG["CC"], CLANG["CXX"])):
        run.tap(f"public headers, {cxx}", ["python3", "-B", program, include, cc, cxx])
    commands = commands_of(where)
    run.each("private header", [
        (h, ["g++", "-std=c++20", "-D_GNU_SOURCE", '-DUSDMA_VERSION="0"', *STRICT, *includes_for(h, commands), "-Wno-interference-size",
             "-Wno-missing-field-initializers", "-xc++", "-include", os.path.join(TOP, h), "/dev/null"])
        for h in headers_in("driver", "lib", "tools")], cwd=where)


@check("style", "spelling, format, words, shell syntax, includes, what commits say, and that want of memory is heard of", ("python", "style"))
def style(run):
    texts = [p for p in run.must("files of the tree", ["git", "ls-files"]).split() if not p.startswith(("docs/abi/", "tests/fuzz/corpus/"))]
    run.each("spelling", [("the whole tree", ["codespell", *texts])])
    run.each("want of memory", [("driver and lib", ["python3", "-B", os.path.join(TOP, "tools/checks/growth.py")])])
    run.each("words", [("no private ones", ["python3", "-B", os.path.join(TOP, "tools/checks/words.py"), TOP])])
    run.each("format", formatted(run, [p for p in texts if p.endswith((".c", ".cpp", ".h"))]))
    run.each("includes", [("no arrow upward, no new circle", ["python3", "-B", os.path.join(TOP, "tools/checks/includes.py"), TOP])])
    run.each("commits", [("what they say", ["python3", "-B", os.path.join(TOP, "tools/checks/commits.py"), TOP])])
    run.each("shell", [(p, ["bash", "-n", p]) for p in texts if is_shell(p)])


# Another version of it formats in another way.
FORMATTER = "14"


def formatted(run, sources):
    said = run.must("clang-format", ["clang-format", "--version"])
    if not re.search(rf"version {FORMATTER}\.", said):
        run.results.skip("format", f"clang-format {FORMATTER} is wanted, here is: {said.strip()}")
        return []
    return [(f"{part[0]} …", ["clang-format", "--dry-run", "--Werror", *part]) for part in
            (sources[at:at + 40] for at in range(0, len(sources), 40))]


def is_shell(path):
    with open(os.path.join(TOP, path), "rb") as f:
        return path.endswith(".sh") or re.match(rb"#! ?/bin/(ba)?sh", f.readline())


# io_uring_enter sleeps, which valgrind 3.19 does not know: it would stop all other threads meanwhile.
MEMCHECK_ENV = {"USDMA_IO_URING": "0", "USDMA_TEST_SMALL": "1"}
# It keeps notes on each page that is mapped: 10 GB for the addresses of device pointers, of which the library only warns when
# it does not get them.
MEMCHECK = ["prlimit", f"--as={64 << 30}", "valgrind", "--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
            "--show-leak-kinds=definite,indirect", "--error-exitcode=99", "--num-callers=20", "--fair-sched=yes"]
NOT_IN_MEMCHECK = {"core-wait": "counts waits that slept in io_uring, in which valgrind stops all threads",
                   "sim-memory": "maps pages a second time by mremap, which valgrind refuses"}


@check("valgrind", "memcheck on the unit tests: no error, no leak", BUILD + ("valgrind",))
def valgrind(run):
    run.build(where=run.dir("gcc"))
    with open(os.path.join(run.dir("gcc"), "meson-info/intro-tests.json"), encoding="utf-8") as f:
        units = [t for t in json.load(f) if "usdma:unit" in t["suite"] and t["cmd"][0].startswith(run.dir("gcc"))]
    for t in [t for t in units if t["name"] in NOT_IN_MEMCHECK]:
        run.results.skip(f"{t['name']} in valgrind", NOT_IN_MEMCHECK[t["name"]])
    units = [t for t in units if t["name"] not in NOT_IN_MEMCHECK]
    run.say(f"memcheck: {len(units)} programs")
    cases = [(t["name"], ["env", *(f"{k}={v}" for k, v in t["env"].items()), *MEMCHECK, *t["cmd"]]) for t in units]
    for name, status, out in run.commands(cases, deadline=300, env=MEMCHECK_ENV):
        if status is None:
            run.results.skip(f"{name} in valgrind", run.late())
            continue
        run.results.add_tap(f"{name} in valgrind", out, status, tail(out))
    if not units:
        run.results.add(False, "there are no unit tests to run in valgrind")


# clang before 16 wants this beside -ftrivial-auto-var-init=zero, which g++ 12 does not.
KNOWN_TO_CLANG = ["--extra-arg=-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang",
                  "--extra-arg=-Wno-unused-command-line-argument"]


@check("tidy", "clang-tidy 14 with .clang-tidy: driver, lib, tools; any finding fails", BUILD + ("tidy", "clang"))
def tidy(run):
    where = run.configure(where=run.dir("gcc"))
    commands = commands_of(where)
    sources = newest_first([p for p in commands if p.startswith(("driver/", "lib/", "tools/"))])
    verdicts = Verdicts(CLANG["CXX"], run.must("clang-tidy and its rules", ["clang-tidy", "--version"]) + rules())
    with ThreadPoolExecutor(run.jobs) as pool:
        known = dict(zip(sources, pool.map(lambda p: verdicts.known(commands[p]), sources)))
    unknown = [p for p in sources if not known[p]]
    run.say(f"{len(sources) - len(unknown)} of {len(sources)} are as they were when nothing was found ({AT})")
    for p in sources:
        if known[p]:
            run.results.add(True, f"tidy: {p}")
    if unknown or not sources:
        run.each("tidy", [(p, ["clang-tidy", "-p", where, "--quiet", *KNOWN_TO_CLANG, p]) for p in unknown],
                 passed=lambda p: verdicts.keep(commands[p]), deadline=600)
    forget_old()


def rules():
    with open(os.path.join(TOP, ".clang-tidy"), encoding="utf-8") as f:
        return f.read()


@check("coverage", "lines and branches of driver and lib that unit, integration and fault tests run, by folder", BUILD + ("coverage",))
def coverage(run):
    suites = ["unit", "integration", "fault"]
    run.build("-Db_coverage=true", "-Doptimization=0", "-Ddebug=false", "-Dpython=disabled", suites=suites)
    run.test(patience=3, suites=suites)
    report = run.dir() + "/coverage.json"
    run.must("gcovr", ["gcovr", "--root", TOP, "--object-directory", run.dir(), "-j", str(run.jobs), "--exclude-throw-branches",
                       "--exclude-unreachable-branches", *(f"--filter={TOP}/{d}/" for d in ("driver", "lib")),
                       "--json-summary", report, run.dir()])
    with open(report, encoding="utf-8") as f:
        folders = by_folder(json.load(f)["files"])
    run.results.add(folders.get("lib/core", {}).get("lines_run", 0) > 0, "lines and branches by folder", str(folders))
    run.figures["coverage"] = folders
    print(f"\n{'folder':24} {'lines':>8} {'run':>7} {'branches':>10} {'taken':>7}")
    for name, v in folders.items():
        print(f"{name:24} {v['lines']:8} {share(v, 'lines'):>7} {v['branches']:10} {share(v, 'branches'):>7}")
    print(flush=True)


def by_folder(files):
    """driver/base, lib/core, …: sums; a line for all of it."""
    sums = {}
    for f in files:
        parts = os.path.relpath(os.path.realpath(os.path.join(TOP, f["filename"])), TOP).split("/")
        for name in ("/".join(parts[:-1][:2]), "all"):
            v = sums.setdefault(name, {"lines": 0, "lines_run": 0, "branches": 0, "branches_run": 0})
            for what, key in (("lines", "line"), ("branches", "branch")):
                v[what] += f[f"{key}_total"]
                v[f"{what}_run"] += f[f"{key}_covered"]
    return dict(sorted(sums.items(), key=lambda kv: (kv[0] == "all", kv[0])))


def share(v, what):
    return f"{100 * v[what + '_run'] / v[what]:.1f} %" if v[what] else "-"
