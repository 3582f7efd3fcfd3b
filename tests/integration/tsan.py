#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs built with ThreadSanitizer and a library built without, with USDMA_CHECK=race.  Prints TAP.

tsan.py RACE-TSAN [--all]      USDMA_TEST_SCALE runs of each program; --all: the programs of race.py, too
"""
import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tap import Points  # noqa: E402

THREADS = ("thread_handover", "thread_function", "thread_query", "thread_event", "thread_polls", "thread_signals", "small_copies", "threads_many")
# Races in which one access is by the CPU.
HOST = ("source_reused", "result_too_early", "guard_store")
REPORTED = (*THREADS, *HOST, "shared_staging", "reused_buffer", "cleared_early", "one_table", "non_blocking_source", "guard_load",
            "guard_shared", "guard_threads", "guard_chained", "guard_fork", "guard_waited")
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/checking.md")
STATUS = 99


def suppressions():
    """The suppressions of docs/checking.md."""
    with open(PAGE, encoding="utf-8") as f:
        return "".join(line for line in f if line.startswith("called_from_lib:"))


def start():
    """Prefix of the command: older versions of TSan fail with many random address bits."""
    with open("/proc/sys/vm/mmap_rnd_bits", encoding="ascii") as f:
        many = int(f.read()) > 28
    fixed = ["setarch", "-R"]
    return fixed if many and subprocess.run([*fixed, "true"], capture_output=True, check=False).returncode == 0 else []


def run(words, left_out, check, seed):
    env = dict(os.environ, USDMA_DEVICES="sim:mem=64M:engines=2:channels=16", USDMA_CHECK=check + ",exit=0", USDMA_TEST_SEED=str(seed),
               TSAN_OPTIONS=f"suppressions={left_out} exitcode={STATUS} atexit_sleep_ms=0")
    return subprocess.run([*start(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False, env=env)


def check_form(program, left_out, name, form, rounds):
    """(whether each round has the expected result, the point's name, details of a failure)"""
    for _ in range(rounds):
        check, seed = random.choice(("race", "race,early")), random.randrange(1 << 30)
        done = run([program, name, form], left_out, check, seed)
        wrong = form == "racy" and (done.returncode != STATUS or "data race" not in done.stderr or "'usdma stream'" not in done.stderr)
        if wrong or form == "fixed" and (done.returncode or "WARNING" in done.stderr):
            return False, f"{name}: {form}", f"{check}, USDMA_TEST_SEED={seed}: exit status {done.returncode}\n{done.stderr}"
    return True, f"{name}: {form}", ""


def check_forms(to, program, left_out, everything, rounds):
    names = run([program], left_out, "race", 1).stdout.split()
    to.add(set(REPORTED) <= set(names), "the programs are there", f"{names}")
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    to.add(all(f"| `{name}` |" in page for name in THREADS), "docs/checking.md has each program")
    forms = [(name, form) for name in (names if everything else (*THREADS, *HOST)) for form in ("racy", "fixed") if form == "fixed" or name in REPORTED]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for point in pool.map(lambda one: check_form(program, left_out, *one, rounds), forms):
            to.add(*point)


def main():
    to, program = Points(), sys.argv[1]
    with tempfile.NamedTemporaryFile("w", suffix=".supp") as f:
        f.write(suppressions())
        f.flush()
        first = run([program, "guard_store", "fixed"], f.name, "late", 1)
        if "unexpected memory mapping" in first.stderr:
            to.skip("programs built with TSan", "TSan cannot map its memory here")
            return to.end()
        done = run([program, "guard_store", "racy"], f.name, "late", 1)
        to.add(done.returncode == 0 and "WARNING" not in done.stderr, "without USDMA_CHECK=race TSan reports nothing", done.stderr)
        stack = run([program, "guard_store", "racy"], f.name, "race", 1).stderr.split("Previous read", 1)[-1].split("\n\n")[0]
        to.add("aclrtMemcpyAsync" in stack and "guard_store" in stack, "the report has the stack of the copy's call", stack)
        done = run([program, "small_copies", "fixed"], os.devnull, "race", 1)
        to.add(done.returncode == 0 and "WARNING" not in done.stderr, "the engine's copies are not reported", done.stderr)
        check_forms(to, program, f.name, "--all" in sys.argv, int(os.environ.get("USDMA_TEST_SCALE", "1")))
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
