#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What ./tools/check builds and runs for its arguments.  Prints TAP."""
import os
import sys
import types

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/support"), os.path.join(TOP, "tools/check.d")]
import building  # noqa: E402
import main  # noqa: E402
from check import JOBS  # noqa: E402
from tap import Points  # noqa: E402

points = Points()


def planned(*names):
    args = types.SimpleNamespace(name=list(names))
    return [name for name, _ in main.plan(args)], args.tests


class Tree:
    """A run of a job in a tree with three tests; notes what it builds and runs."""

    dir, configure = staticmethod(lambda name=None: name), staticmethod(lambda *_, where, **__: where)
    tests = [{"name": n, "suite": {s}} for n, s in (("copies-embedded", "integration-embedded"), ("copies-process", "integration"), ("locks", "integration-embedded"))]

    def __init__(self, tests):
        self.options, self.built, self.ran = types.SimpleNamespace(tests=tests), [], []

    def build(self, tests, **_):
        self.built += tests

    def test(self, names, **_):
        self.ran += names

    def command(self, *_):
        return 0, ""


def of_job(name, tests):
    run = Tree(tests)
    JOBS[name]["fn"](run)
    return run.built, run.ran


def run_all():
    points.add(planned("asan", "copies-embedded") == (["asan"], ["copies-embedded"]), "a sanitizer and a test: the test in that job")
    points.add(planned("asan", "tsan", "locks", "copies") == (["asan", "tsan"], ["locks", "copies"]), "two of them, and two tests")
    points.add(planned("asan", "tsan") == (["asan", "tsan"], []), "without a test: all of theirs")
    points.add(planned("gate", "locks") == (["gate", "tests"], []), "another job and a test: both")
    points.add(planned("locks") == (["tests"], []), "a test alone")
    building.in_suites.__globals__["tests_of"] = lambda _where: Tree.tests
    points.add(of_job("asan", ["copies"]) == (["copies-embedded", "copies-process"],) * 2, "it builds and runs these only")
    points.add(of_job("asan", []) == (["copies-embedded", "locks"],) * 2, "else its suites")
    points.add(of_job("tsan", ["locks"]) == (["locks"],) * 2, "also under TSan")
    try:
        of_job("asan", ["lokcs"])
        said = ""
    except SystemExit as e:
        said = str(e)
    points.add("'lokcs'" in said, "a name of no test is refused", said)


run_all()
sys.exit(points.end())
