#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Counts private words and long lines: names and phrases for which the field has a
word of its own (CONTRIBUTING.md, "Words").  Parts of names count, too:
a_glimpse is one.  words.ceiling has the most that a folder may have; lower it
when the count falls.

  tests/style/words.py [DIR]            exit status 1: a folder is above its ceiling
  tests/style/words.py [DIR] --list [FOLDER]    each place, and what to say instead
  tests/style/words.py [DIR] --count    a line for each word, by folder
"""
import argparse
import collections
import os
import re
import subprocess
import sys

# What is said instead, by the word that is not said.
INSTEAD = {
    "lane": "hardware queue; check", "limbo": "deferred free", "glimpse": "snapshot", "pump": "progress thread", "crew": "pool",
    "squash": "cancel", "enliven": "publish, start", "plumbing": "sync descriptors", "stillness": "watchdog", "mend": "fix",
    "immortal": "static", "forsaken": "orphaned", "abandoned": "timed out", "outbox": "send queue", "desk": "table", "board": "status page",
    "suspect": "may be written", "spent": "used up", "located": "translated", "locate": "translate", "lend": "provide", "lent": "provided",
    "nobody": "no one; unused", "settle": "retire", "room": "space, slots", "door": "doorbell, listener", "look": "check, read, poll",
    "ask": "request, query", "tell": "report, notify", "told": "reported, notified", "away": "(the direct verb)", "way": "path, mode, kind",
    "far": "remote; other LLC", "near": "local; same LLC", "place": "mapping, address, position", "span": "range", "ends": "endpoints",
    "known": "valid, cached", "kept": "retained, saved", "quiet": "quiesced, idle", "cut": "abort, cancel, carve", "watch": "poll, monitor",
    "unit": "engine", "gone": "removed, lost, closed", "whoever": "the caller, the owner", "whom": "the caller, the owner", "wants": "needs, expects",
    "tells": "reports", "stands": "is",
    "stands still": "hangs", "as most are": "fast path", "is nobody's": "unused", "let go": "release", "told it": "report",
    "is not to be had": "is unavailable", "are not to be had": "are unavailable", "cannot be.": "is invalid",
    "by the caches": "cached", "past the caches": "non-temporal",
}
# Standard terms and ordinary English: not counted.
ALLOWED = re.compile(r"""
    std::span|<span>|(so|as)\s+far|\bway\s+that\b|look(ed|s|ing)?[\s-]+up|in[- ]place|\bplace\s+of\b
    |cmocka_unit_test\w*|CMUnitTest|unit_tests|unit/unit-|unit\s+tests?|--suite\s+unit|unit\s*/|\bunit\s*\(|s\.unit|dsmi_(get_)?board_info\w*|pboard_info|\bboard_id
    """, re.I | re.X)
MOST_COLUMNS = 120
FOLDERS = ("driver", "lib", "tools", "include", "docs", "tests")
# The history tells of its time; what the compiler prints is as it prints it; the lists of defects quote the sources.
LEFT = re.compile(r"^CHANGELOG|^docs/abi/|^docs/images/|^docs/compatibility|^tests/mutants/.*\.list|^tests/fuzz/corpus/|^tests/style/words")


def pattern_of(word):
    if word.isalpha():
        return re.compile(rf"(?<![A-Za-z]){word}(s|es|ed|ing|ings)?(?![A-Za-z])", re.I)
    return re.compile(r"\b" + re.escape(word).replace(r"\ ", r"\s+") + ("" if word.endswith(".") else r"\b"), re.I)


PATTERNS = {word: pattern_of(word) for word in INSTEAD}


def files_of(top):
    listed = subprocess.run(["git", "-C", top, "ls-files"], capture_output=True, text=True, check=True)
    return [p for p in listed.stdout.split("\n") if p and not LEFT.search(p)]


def places(top, folder=""):
    """(word, file, line) for each."""
    for path in files_of(top):
        if not path.startswith(folder):
            continue
        try:
            with open(f"{top}/{path}", encoding="utf-8") as f:
                text = ALLOWED.sub(lambda m: " " * len(m[0]), f.read())
        except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
            continue
        lower = text.lower()
        for word, pattern in PATTERNS.items():
            if word.split()[0] not in lower:
                continue  # far quicker than the pattern
            for found in pattern.finditer(text):
                yield word, path, text.count("\n", 0, found.start()) + 1


def long_lines(top):
    for path in files_of(top):
        if path.startswith(FOLDERS) and re.search(r"\.(h|cpp|c)$", path):
            with open(f"{top}/{path}", encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    if len(line.rstrip("\n").expandtabs(8)) > MOST_COLUMNS:
                        yield "long line", path, number


def ceilings(top):
    with open(os.path.join(top, "tests/style/words.ceiling"), encoding="utf-8") as f:
        return {folder: int(most) for folder, most in (line.split() for line in f if not line.startswith("#"))}


def check(top):
    """True: each folder has exactly what its ceiling allows, or less is said to be a reason to lower it."""
    counts = collections.Counter(path.split("/")[0] for _, path, _ in places(top))
    good = True
    for folder, most in ceilings(top).items():
        n = counts[folder]
        if n > most:
            print(f"{folder}: {n} private words, at most {most}: tests/style/words.py --list {folder}")
        elif n < most:
            print(f"{folder}: {n} private words: lower its ceiling ({most}) in tests/style/words.ceiling")
        good &= n == most
    for _, path, line in long_lines(top):
        print(f"{path}:{line}: more than {MOST_COLUMNS} columns")
        good = False
    if good:
        print(f"no folder has more private words than its ceiling, no line more than {MOST_COLUMNS} columns")
    return good


def print_counts(top):
    counts = collections.Counter((word, path.split("/")[0]) for word, path, _ in places(top))
    print(f"{'':22}" + "".join(f"{folder:>9}" for folder in FOLDERS))
    for word in (*INSTEAD, None):
        row = [sum(n for (w, f), n in counts.items() if f == folder and word in (w, None)) for folder in FOLDERS]
        if any(row):
            print(f"{word or 'all':22}" + "".join(f"{n:9}" for n in row))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", nargs="?", default=".")
    p.add_argument("--list", nargs="?", const="", metavar="FOLDER", help="each place")
    p.add_argument("--count", action="store_true", help="count only")
    args = p.parse_args()
    if args.count:
        print_counts(args.dir)
        return 0
    if args.list is None:
        return 0 if check(args.dir) else 1
    for word, path, line in sorted(places(args.dir, args.list), key=lambda f: f[1:]):
        print(f"{path}:{line}: '{word}': say {INSTEAD[word]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
