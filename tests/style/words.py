#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Counts private words: names and phrases for which the field has a word of its
own (CONTRIBUTING.md, "Words").  Parts of names count, too: a_glimpse is one.

  tests/style/words.py [DIR]            exit status 1: there are some, by place
  tests/style/words.py [DIR] --count    a line for each word, and the sum
"""
import argparse
import collections
import re
import subprocess
import sys

# What is said instead, by the word that is not said.
INSTEAD = {
    "lane": "hardware queue; check", "limbo": "deferred free", "glimpse": "snapshot", "pump": "progress thread", "crew": "pool",
    "squash": "cancel", "enliven": "publish, start", "plumbing": "sync descriptors", "stillness": "watchdog", "mend": "fix",
    "stands still": "hangs", "as most are": "fast path", "is nobody's": "unused", "let go": "release", "told it": "report",
    "is not to be had": "is unavailable", "are not to be had": "are unavailable", "cannot be.": "is invalid",
    "by the caches": "cached", "past the caches": "non-temporal",
}
# The history tells of its time; what the compiler prints is as it prints it.
LEFT = re.compile(r"^CHANGELOG|^docs/abi/|^docs/compatibility|^tests/fuzz/corpus/|^tests/style/words")


def pattern_of(word):
    if word.isalpha():
        return re.compile(rf"(?<![A-Za-z]){word}(s|es|ed|ing|ings)?(?![A-Za-z])", re.I)
    return re.compile(r"\b" + re.escape(word).replace(r"\ ", r"\s+") + ("" if word.endswith(".") else r"\b"), re.I)


PATTERNS = {word: pattern_of(word) for word in INSTEAD}


def files_of(top):
    listed = subprocess.run(["git", "-C", top, "ls-files"], capture_output=True, text=True, check=True)
    return [p for p in listed.stdout.split("\n") if p and not LEFT.search(p)]


def places(top):
    """(word, file, line) for each."""
    for path in files_of(top):
        try:
            with open(f"{top}/{path}", encoding="utf-8") as f:
                text = f.read()
        except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
            continue
        for word, pattern in PATTERNS.items():
            for found in pattern.finditer(text):
                yield word, path, text.count("\n", 0, found.start()) + 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", nargs="?", default=".")
    p.add_argument("--count", action="store_true", help="count only")
    args = p.parse_args()
    found = list(places(args.dir))
    if args.count:
        sums = collections.Counter(word for word, _, _ in found)
        print("\n".join(f"{word:20} {sums[word]:5}" for word in INSTEAD), f"{'all':20} {len(found):5}", sep="\n")
        return 0
    for word, path, line in found:
        print(f"{path}:{line}: '{word}': say {INSTEAD[word]}")
    if not found:
        print(f"none of {len(INSTEAD)} private words")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
