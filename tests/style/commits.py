#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks commit messages: "area: what" in at most 75 columns, an empty line, and a
body that explains why, in lines of at most 100.  Commits before SINCE are ignored.

  tests/style/commits.py [DIR]      exit status 1: it prints what is wrong
"""
import re
import subprocess
import sys

SINCE = "2026-11-23T00:00:00Z"
SUBJECT = re.compile(r"^[a-zA-Z0-9_.,/ -]+: \S.*[^.]$")


def wrong_with(text):
    subject, _, rest = text.partition("\n")
    if len(subject) > 75:
        yield f"the subject has {len(subject)} columns, at most 75 are allowed"
    if not SUBJECT.match(subject):
        yield 'the subject is not "area: what", without a full stop'
    if not rest.strip():
        yield "there is no body that explains why"
    elif not rest.startswith("\n"):
        yield "there is no empty line after the subject"
    if any(len(line) > 100 for line in rest.splitlines()):
        yield "a line of the body is longer than 100 columns"


def main(where):
    log = subprocess.run(["git", "-C", where, "log", "--no-merges", f"--since={SINCE}", "--format=%h%x00%B%x01"],
                         capture_output=True, text=True, check=False)
    if log.returncode:
        print(f"no history to read: {log.stderr.strip()}")
        return 0
    found = 0
    for entry in filter(str.strip, log.stdout.split("\x01")):
        commit, text = entry.strip("\n").split("\x00")
        for what in wrong_with(text.rstrip("\n")):
            print(f'{commit} "{text.splitlines()[0]}": {what}')
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
