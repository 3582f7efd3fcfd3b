#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the tree and runs its tests.

  ./tools/check                       the gate: what CI runs first
  ./tools/check unit                  one suite of the gate's tests
  ./tools/check copies-process 'acl-*'    single tests
  ./tools/check copies-process --case 'batch*'    one case of a test
  ./tools/check all [--resume]        the gate and every other job
  ./tools/check asan tsan             some jobs
  ./tools/check asan copies-embedded  a test under AddressSanitizer; also with asan-rest, tsan, valgrind
  ./tools/check repeat 10 --busy [TEST...]    tests repeatedly; --busy: with a busy loop on each CPU
  ./tools/check --list                the jobs, and about how long each takes

The last line is "N passed, N failed, N skipped"; the exit status is 0 only when
nothing failed and something ran.  Trees and logs are in build-check/.
"""
import argparse
import contextlib
import fcntl
import os
import subprocess
import sys
import textwrap

import building  # fills JOBS
from check import JOBS, State, TOP, in_suites, install_packages, run_job, select


def arguments():
    parser = argparse.ArgumentParser(prog="./tools/check", description=__doc__, epilog="jobs (*: not part of all):\n" + job_lines(None),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="jobs, suites, tests (* and ? as in file names), or: all, repeat N")
    parser.add_argument("--list", action="store_true", help="print the jobs and exit")
    parser.add_argument("--case", metavar="PATTERN", help="only the cases of this name (USDMA_TEST_CASE)")
    parser.add_argument("--resume", action="store_true", help="with all: skip the jobs that passed on this state of the tree")
    parser.add_argument("--busy", action="store_true", help="with repeat: run a busy loop for each CPU")
    parser.add_argument("--fuzz-seconds", type=int, default=60, metavar="S", help="total duration of the job fuzz (60)")
    parser.add_argument("--soak-minutes", type=float, default=10, metavar="M", help="duration of the job soak (10)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time (%(default)s)")
    parser.add_argument("--build-root", type=os.path.abspath, default=os.path.join(TOP, "build-check"), metavar="DIR", help="build folder (build-check)")
    args = parser.parse_intermixed_args()
    if args.jobs < 1 or not 0 < args.soak_minutes <= 100000 or args.fuzz_seconds < 1:
        parser.error("--jobs, --fuzz-seconds and --soak-minutes take numbers above 0")
    return args


def job_lines(state):
    return "\n".join(textwrap.fill(f"{j['about']}; about {state.minutes(name) if state else j['minutes']} min", 100, subsequent_indent=" " * 16,
                                   initial_indent=f"{' ' if j['in_all'] else '*'} {name:14}") for name, j in JOBS.items())


def job_of_tests(args, names):
    """A job that builds and runs these suites and tests of the gcc tree."""
    def fn(run):
        where = run.configure(where=run.dir("gcc"))
        tests = select(where, names) if names else in_suites(where, building.GATE, without=["slow"])
        run.build(where=where, tests=tests, what="build what the tests need")
        run.test(tests, where=where, repeat=args.repeat)
    return fn


def plan(args):
    """[(name of the run, function or None for that of the job)]; args.tests: those to which the jobs are limited."""
    names, args.repeat, args.tests = args.name or ["gate"], 1, []
    if names[0] == "repeat":
        args.repeat, names = int(names[1]) if names[1:] and names[1].isdigit() else 10, names[2:]
        return [("repeat", job_of_tests(args, names))]
    names = [n for n in JOBS if JOBS[n]["in_all"]] if names == ["all"] else names
    tests, jobs = [n for n in names if n not in JOBS], [n for n in names if n in JOBS]
    if jobs and all(JOBS[n]["takes_tests"] for n in jobs):
        tests, args.tests = [], tests
    return [(n, None) for n in jobs] + ([("tests", job_of_tests(args, tests))] if tests else [])


@contextlib.contextmanager
def busy_loops(wanted):
    """Runs a busy loop for each CPU."""
    loop = ["sh", "-c", "while kill -0 $PPID 2>/dev/null; do for i in 1 2 3 4 5 6 7 8 9; do :; done; done"]
    with contextlib.ExitStack() as stack:
        for _ in range(os.cpu_count() or 1) if wanted else ():
            stack.callback(stack.enter_context(subprocess.Popen(loop)).kill)
        yield


def table(earlier, runs):
    print(f"\n{'job':34} {'passed':>8} {'failed':>8} {'skipped':>8} {'time':>8}")
    row = "{:34} {:8} {:8} {:8} {:6.0f} s".format
    print("".join(row(name, *was["points"], was["seconds"]) + "  (earlier)\n" for name, was in earlier), end="")
    for run in runs:
        print(row(run.name, *run.results.counts(), run.seconds))
        print("".join(f"  {what:60} {seconds:6.0f} s\n" for what, seconds in run.parts if seconds >= 1), end="")
    print("".join(f"FAILED [{run.name}] {title}\n" for run in runs for title, _ in run.results.failed))


def main():
    args = arguments()
    state = State(args.build_root)
    if args.list:
        print(job_lines(state))
        return 0
    todo = plan(args)
    jobs, done, runs = [n for n, fn in todo if not fn] or ["gate"], [], []
    if args.resume and not args.tests:
        done = [n for n in jobs if state.passed(n)]
        todo = [(n, fn) for n, fn in todo if n not in done]
        print(f"passed already on this state: {' '.join(done) or 'none'}")
    os.makedirs(args.build_root, exist_ok=True)
    lock = os.open(args.build_root, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"./tools/check: another one runs in {args.build_root}; wait for it, or give --build-root") from None
    if len(todo) > 1:
        print("runs " + ", ".join(f"{n} ({state.minutes(n)} min)" for n, fn in todo if not fn) +
              f": about {sum(state.minutes(n) for n, fn in todo if not fn)} minutes", flush=True)
    if not install_packages(jobs):
        print("0 passed, 1 failed, 0 skipped")
        return 1
    with busy_loops(args.busy):
        for name, fn in todo:
            runs.append(run_job(name, args, fn))
            if not fn and not args.tests:
                state.note(runs[-1])
    table([(n, state.jobs[n]) for n in done], runs)
    passed, failed, skipped = map(sum, zip(*(state.jobs[n]["points"] for n in done), *(r.results.counts() for r in runs)))
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
