#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Runs the checks of tests and sums up every single check in them.

  ./tools/check                 all of them
  ./tools/check gcc asan        some
  ./tools/check --list          which there are
  ./tools/check --bench         all of them, and the table of speeds

The last line is "N passed, N failed, N skipped"; the exit status is 0 only when
nothing failed and something ran.  Trees, logs and results.json stay in
build-check/.
"""
import argparse
import json
import os
import subprocess
import sys
import textwrap
import time
import traceback

sys.dont_write_bytecode = True
import building  # noqa: E402,F401  fills CHECKS
import analysis  # noqa: E402,F401
import soak  # noqa: E402,F401
from check import CHECKS, TOP, Run, Stop, complain  # noqa: E402

# Cheap ones first, and last what finds least: --minutes cuts that.  Any other comes behind.
ORDER = ("style", "gcc", "cppcheck", "headers", "valgrind", "clang", "asan", "tsan", "install", "vm", "foreign", "docs", "tidy", "fuzz", "coverage")


def arguments():
    parser = argparse.ArgumentParser(prog="./tools/check", description=__doc__,
                                     epilog="checks (*: only when asked for):\n" + check_lines(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", nargs="*", help="which to run (default: all but those with *)")
    parser.add_argument("--list", action="store_true", help="name the checks and leave")
    parser.add_argument("--bench", action="store_true", help="the check bench too")
    parser.add_argument("--fuzz-seconds", type=int, default=60, metavar="S", help="the check fuzz searches so long in all (60)")
    parser.add_argument("--soak-minutes", type=float, default=10, metavar="M", help="the check soak goes on so long (10)")
    parser.add_argument("--minutes", type=float, default=0, metavar="M", help="begins nothing after so long: those checks are skipped, and "
                                                                            "named (default: no limit)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at a time (default: %(default)s)")
    parser.add_argument("--build-root", default=os.path.join(TOP, "build-check"), metavar="DIR", help="where it builds (build-check)")
    args = parser.parse_args()
    unknown = [n for n in args.check if n not in CHECKS]
    if unknown or args.jobs < 1:
        parser.error(f"there is no check '{unknown[0]}': --list names them" if unknown else "--jobs takes 1 and more")
    if not 0 < args.soak_minutes <= 100000:
        parser.error("--soak-minutes takes minutes, more than 0")
    args.build_root = os.path.abspath(args.build_root)
    args.until = time.monotonic() + args.minutes * 60 if args.minutes > 0 else None
    return args


def check_lines():
    return "\n".join(textwrap.fill(CHECKS[n]["about"], 80, initial_indent=f"{' ' if CHECKS[n]['default'] else '*'} {n:9} ",
                                   subsequent_indent=" " * 12) for n in in_order())


def in_order():
    return sorted(CHECKS, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def chosen(args):
    names = args.check or [n for n in in_order() if CHECKS[n]["default"]]
    return names + (["bench"] if args.bench and "bench" not in names else [])


def install_packages(names):
    sets = list(dict.fromkeys(s for n in names for s in CHECKS[n]["packages"]))
    return subprocess.run([os.path.join(TOP, "tools/packages"), *sets], stdin=subprocess.DEVNULL, check=False).returncode == 0


def run_check(name, args):
    run = Run(name, args)
    try:
        if run.late():
            run.results.skip(name, run.late())
        else:
            CHECKS[name]["fn"](run)
    except Stop:
        pass
    except Exception:  # a bug in a check is that check's failure
        run.results.add(False, f"{name}: the check itself", traceback.format_exc())
    run.seconds = time.monotonic() - run.started
    seen = set()
    for title, log in run.results.failed:  # several points of one program share its log
        complain(f"--- [{name}] FAILED: {title}" + ("" if log in seen else f"\n{log}\n---"))
        seen.add(log)
    for title, why in run.results.skipped:
        run.say(f"skipped: {title}: {why}")
    return run


def table(runs):
    print(f"\n{'check':10} {'passed':>8} {'failed':>8} {'skipped':>8} {'time':>8}")
    for run in runs:
        r = run.results
        print(f"{run.name:10} {r.passed:8} {len(r.failed):8} {len(r.skipped):8} {run.seconds:6.0f} s")
    for run in runs:
        for title, _ in run.results.failed:
            print(f"FAILED [{run.name}] {title}")


def write_results(runs, args):
    """The same for programs, with what checks found beside points (coverage)."""
    os.makedirs(args.build_root, exist_ok=True)
    with open(os.path.join(args.build_root, "results.json"), "w", encoding="utf-8") as f:
        json.dump({run.name: {"passed": run.results.passed, "seconds": round(run.seconds, 1),
                              "failed": [title for title, _ in run.results.failed],
                              "skipped": [{"name": title, "why": why} for title, why in run.results.skipped], **run.figures}
                   for run in runs}, f, indent=1)


def main():
    args = arguments()
    if args.list:
        print(check_lines())
        return 0
    names = chosen(args)
    if not install_packages(names):
        print("0 passed, 1 failed, 0 skipped")
        return 1
    runs = [run_check(name, args) for name in names]
    table(runs)
    write_results(runs, args)
    passed = sum(r.results.passed for r in runs)
    failed = sum(len(r.results.failed) for r in runs)
    print(f"\n{passed} passed, {failed} failed, {sum(len(r.results.skipped) for r in runs)} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
