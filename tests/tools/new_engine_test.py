#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
tools/new-engine: new_engine_test.py [--build].  Prints TAP.

--build copies the tree, makes an engine of each kind there, builds it, and runs their tests and two suites of
integration on them; and checks that one file that was there has changed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import Points  # noqa: E402  pylint: disable=wrong-import-position

# Devices that do not exist: of QEMU's vendor id for such.
KINDS = (("toygoes", "1b36:fe01", "2", []), ("toystops", "1b36:fe02", "0", ["--stops"]))
TESTS = "tests/unit/unit-"
points = Points()


def run(*words, cwd=TOP, **how):
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **how)
    return done.returncode, done.stdout


def make(top, kind):
    name, ids, bar, more = kind
    return run(sys.executable, "-B", os.path.join(TOP, "tools/new-engine"), name, ids, bar, *more, "--top", top)


def text_of(top, path):
    with open(os.path.join(top, path), encoding="utf-8") as f:
        return f.read()


def files(top):
    found = (os.path.relpath(os.path.join(at, n), top) for at, _, names in os.walk(top) for n in names)
    return {p: text_of(top, p) for p in found}


def made_files(scratch):
    shutil.copytree(os.path.join(TOP, "driver/hw"), os.path.join(scratch, "driver/hw"))
    before = files(scratch)
    for kind in KINDS:
        status, log = make(scratch, kind)
        points.add(status == 0, f"makes {kind[0]}", log)
    after = files(scratch)
    changed = [p for p, text in before.items() if after[p] != text]
    points.add(changed == ["driver/hw/engines.inc"], "one file that was there has changed", str(changed))
    new = {p: t for p, t in after.items() if p not in before}
    wrong = [p for p, t in new.items() if not re.search(r"/toy(goes|stops)(/|_regs\.h|\.list)", "/" + p) or "%G" in t or "%S" in t or re.search(r"@\w+@", t)]
    points.add(new and not wrong, "all others are its own", str(wrong))
    points.add(max(t.count("\n") for t in new.values()) < 300, "none is long")
    vendors = [re.search(r"\{0x(\w{4}), 0x(\w{4})\}", new[f"driver/engines/{name}/ids.inc"]).groups() for name, *_ in KINDS]
    points.add(vendors == [("1b36", "fe01"), ("1b36", "fe02")], "the ids are those that were given", str(vendors))
    for words in (KINDS[0], ("Toy", "1b36:fe03", "0", []), ("toy", "1b36", "0", []), ("toy", "1b36:fe03", "1", [])):
        status, log = make(scratch, words)
        points.add(status != 0 and files(scratch) == after, f"refuses {' '.join(words[:3])}, and changes nothing", log)


def built(scratch):
    """As who adds an engine: only the generator has touched the copy."""
    tracked = run("git", "ls-files", "-co", "--exclude-standard")[1].split("\n")
    for path in filter(None, tracked):
        if not os.path.isfile(os.path.join(TOP, path)):
            continue
        os.makedirs(os.path.dirname(os.path.join(scratch, path)), exist_ok=True)
        shutil.copy2(os.path.join(TOP, path), os.path.join(scratch, path))
    for kind in KINDS:
        make(scratch, kind)
    names = [name for name, *_ in KINDS]
    build = os.path.join(scratch, "build")
    status, log = run("meson", "setup", build, "-Dpython=disabled", "--prefix=/usr", cwd=scratch)
    points.add(status == 0, "the tree is configured", log[-3000:])
    status, log = run("ninja", "-C", build, *(TESTS + n for n in names), "tests/integration/integration-native",
                      "tests/integration/integration-copies", "tests/install/engine-ids", "system/70-usdma.rules", cwd=scratch)
    points.add(status == 0, "it compiles without warnings", log[-6000:] if status or "warning" in log else "")
    for name in names:
        status, log = run(os.path.join(build, TESTS + name), cwd=scratch, timeout=600)
        points.add(status == 0, f"{name}: the cases of any engine", log[-4000:])
        for suite in ("native", "copies"):
            env = {**os.environ, "USDMA_DEVICES": f"sim:model={name},sim:model={name}", "USDMA_LOG": "error"}
            status, log = run(os.path.join(build, f"tests/integration/integration-{suite}"), cwd=scratch, env=env, timeout=900)
            points.add(status == 0, f"{name}: {suite} on two devices", log[-4000:])
    rules, ids = text_of(build, "system/70-usdma.rules"), run(os.path.join(build, "tests/install/engine-ids"))[1]
    points.add("fe01|0xfe02" in rules or "fe0[12]" in rules, "udev's rules have them", rules)
    points.add("toygoes 1b36:fe01" in ids and "toystops 1b36:fe02" in ids, "the table of drivers has them", ids)
    status, log = run(sys.executable, "-B", "tests/mutants/defects_test.py", cwd=scratch)
    points.add(status == 0, "the lists of mistakes fit the code", log)
    status, log = run(sys.executable, "-B", "tests/style/includes.py", ".", cwd=scratch)
    points.add(status == 0, "no include of a higher layer", log)


def main():
    with tempfile.TemporaryDirectory(prefix="usdma-new-engine-") as scratch:
        (built if "--build" in sys.argv else made_files)(scratch)
    return points.end()


sys.exit(main())
