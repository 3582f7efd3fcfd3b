#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/style/commits.py accepts good commit messages and rejects bad ones.  Prints TAP."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import Points  # noqa: E402

WHY = "\n\nBecause.\n"
CASES = [("core: a full ring wakes the waiter" + WHY, "2026-11-23T12:00:00Z", ""),
         ("lib, driver: two areas" + WHY, "2026-11-23T12:00:00Z", ""),
         ("no area at all" + WHY, "2026-11-21T12:00:00Z", ""),  # before the rule
         ("no area at all" + WHY, "2026-11-23T12:00:00Z", 'not "area: what"'),
         ("core: it has a full stop." + WHY, "2026-11-23T12:00:00Z", 'not "area: what"'),
         ("core: " + "x" * 70 + WHY, "2026-11-23T12:00:00Z", "76 columns"),
         ("core: no more lines", "2026-11-23T12:00:00Z", "no body"),
         ("core: a subject\nthat goes on" + WHY, "2026-11-23T12:00:00Z", "no empty line"),
         ("core: a long line\n\n" + "x" * 101, "2026-11-23T12:00:00Z", "longer than 100")]


def output_of(message, date):
    env = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    with tempfile.TemporaryDirectory() as where:
        git = ["git", "-C", where, "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
        subprocess.run([*git, "init", "-q"], check=True, env=env)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", message], check=True, env=env)
        done = subprocess.run([sys.executable, os.path.join(TOP, "tests/style/commits.py"), where], capture_output=True, text=True, check=False, env=env)
        return done.returncode, done.stdout + done.stderr


def main():
    to = Points()
    for message, date, wrong in CASES:
        status, said = output_of(message, date)
        to.add(status == bool(wrong) and wrong in said, f"{wrong or 'good'}: {message.splitlines()[0][:40]}", said)
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
