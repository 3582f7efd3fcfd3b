# SPDX-License-Identifier: BSD-3-Clause
"""
Whether each seeded defect still applies to the tree and names a promise, whether the lists' reader sees mistakes, and whether a
test that fails without a defect is an error.  TAP.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
from defects import HERE, TOP, Bad, Defect, mutated, read_lists  # noqa: E402

GOOD = "a-name @ boundary @ P1 @ a.cpp @ f @ i < n => i <= n"
TEXT = "int g(int i)\n{\n\treturn i < n;\n}\n\nint f(int i, int n)\n{\n\tif (i < n)\n\t\tstep(i);\n\treturn n;\n}\n"


def applies():
    defects = read_lists()
    mutated(TOP, defects)
    assert len(defects) >= 150, f"{len(defects)} defects"


def promises():
    with open(os.path.join(TOP, "docs/reliability.md"), encoding="utf-8") as f:
        listed = set(re.findall(r"^\| (P\d+) \|", f.read(), re.M))
    wrong = [d.where for d in read_lists() if d.promise not in listed and not d.equivalent]
    assert not wrong, f"no such promise: {wrong}"


def change(line, text=TEXT):
    with tempfile.TemporaryDirectory() as top:
        with open(os.path.join(top, "a.cpp"), "w", encoding="utf-8") as f:
            f.write(text)
        return mutated(top, [Defect("a.list:1", line, [])])["a.cpp"]


def changes():
    assert "if ((usdma_mutant(1) ? (i <= n) : (i < n)))" in change(GOOD)
    assert "return i < n;" in change(GOOD), "only in the function f"
    assert "{ if (usdma_mutant(1)) {  } else { step(i); } }" in change(GOOD.replace("i < n => i <= n", "step(i); => "))


def mistakes():
    for line in (GOOD.replace("i < n =>", "i > n =>"), GOOD.replace(" @ f @ ", " @ h @ "), GOOD.replace("boundary", "bad luck"), "a-name @ boundary"):
        try:
            change(line)
        except Bad:
            continue
        raise AssertionError(f"accepted: {line}")


def runner():
    loader = importlib.machinery.SourceFileLoader("mutants_run", os.path.join(HERE, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Tried:
    """Of the runner's Tests and Results: the outcomes of each test, {name: (how it fails without the defect, how with it)}."""

    def __init__(self, outcomes):
        self.outcomes, self.undecided, self.result = outcomes, {}, None

    def baseline(self, name):
        return {"reached": ["a-name"], "seconds": 1, "fails": self.outcomes[name][0]}

    def catches(self, _defect, name):
        return self.outcomes[name][1]

    def key(self, of):
        return of if isinstance(of, str) else of.name

    def get(self, _defect):
        return self.result

    def put(self, _what, _key, result):
        self.result = result


def failing_tests():
    """A test that fails anyhow decides nothing; one that catches the defect does, beside it."""
    run = runner()
    for outcomes, decided, status in (({"good": ("", ""), "broken": ("not ok", "not ok")}, False, 1), ({"broken": ("not ok", "")}, False, 1),
                                      ({"good": ("", "a case"), "broken": ("not ok", "")}, True, 0), ({"good": ("", "")}, True, 1)):
        d, tried = Defect("a.list:1", GOOD, list(outcomes)), Tried(outcomes)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            run.try_one(d, tried, tried, [d.tests], 600)
            new = run.report([(d, tried.result)], tried.undecided)
        assert ("a-name" not in tried.undecided) == decided, (outcomes, tried.undecided)
        assert ("SURVIVED" in said.getvalue()) == (outcomes == {"good": ("", "")}), said.getvalue()
        assert (new > 0) == bool(status), (outcomes, new)


def main():
    failed, tests = 0, (applies, promises, changes, mistakes, failing_tests)
    print(f"1..{len(tests)}")
    for n, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {n} - {test.__name__}")
        except (AssertionError, Bad, OSError) as e:
            failed += 1
            print(f"not ok {n} - {test.__name__}\n# {e}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
