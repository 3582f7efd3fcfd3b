#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs libFuzzer on each target of a build with -Dfuzz=true; a finding fails.  TAP.

search.py BUILD_DIR CORPUS_DIR [--seconds S]

New inputs are saved in CORPUS_DIR/TARGET for the next run; a failing input is saved as BUILD_DIR/fuzz-TARGET-*.
"""
import argparse
import os
import re
import subprocess

SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


def search(build, corpus, name, seconds):
    """(passed, output)"""
    found = os.path.join(corpus, name)
    os.makedirs(found, exist_ok=True)
    words = [os.path.join(build, "tests/fuzz", f"fuzz-{name}"), f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=30",
             "-rss_limit_mb=4000", f"-artifact_prefix={build}/fuzz-{name}-", found, os.path.join(SEEDS, name)]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=seconds * 3 + 300, env={**os.environ, **SANITIZERS})
    except subprocess.TimeoutExpired as e:
        return False, f"{e}\n"
    executions = int((re.findall(r"number_of_executed_\w+: *([0-9]+)", done.stdout) or [0])[0])
    edges, features = (re.findall(r"cov: ([0-9]+) ft: ([0-9]+)", done.stdout) or [(0, 0)])[-1]
    print(f"# {name}: {executions} executions, {edges} edges, {features} features")
    return done.returncode == 0 and executions > 0, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("corpus")
    parser.add_argument("--seconds", type=int, default=60, help="in all (60)")
    args = parser.parse_args()
    targets, failed = sorted(os.listdir(SEEDS)), 0
    print(f"1..{len(targets)}")
    for name in targets:
        passed, output = search(args.build, args.corpus, name, max(1, args.seconds // len(targets)))
        print(f"ok - fuzz {name}" if passed else f"{output}not ok - fuzz {name}", flush=True)
        failed += not passed
    return 1 if failed or not targets else 0


raise SystemExit(main())
