# SPDX-License-Identifier: BSD-3-Clause
"""
What clang-tidy had nothing to say of, kept from run to run as a compiler cache keeps objects: by a hash of all that it
reads.  Only clean files are kept; a finding is looked for again each time.
"""
import hashlib
import os
import re
import shlex
import subprocess
import time

from check import TOP

AT = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "usdma-check", "tidy")
KEPT_DAYS = 60


def preprocessor(entry, clang):
    """The command of the build that lists, by clang, what a source includes."""
    words, kept = shlex.split(entry["command"]), []
    first = next(i for i, w in enumerate(words) if w.startswith("-"))
    rest = iter(words[first:])
    for w in rest:
        if w in ("-o", "-MQ", "-MF"):
            next(rest)
        elif w not in ("-c", "-MD"):
            kept.append(w)
    return [clang, *kept, "-w", "-M", "-MT", "all"]


def portable(path, directory):
    """As every checkout names it, whatever build folder."""
    path = os.path.realpath(os.path.join(directory, path))
    for name, top in (("BUILD", directory), ("TOP", TOP)):
        if path == top or path.startswith(top + os.sep):
            return name + path[len(top):]
    return path


class Verdicts:
    def __init__(self, clang, rules):
        """rules: what the answers depend on beside the sources, as text."""
        self.clang, self.rules, self.keys = clang, rules, {}

    def key(self, entry):
        """None: it does not even preprocess, which clang-tidy shall tell."""
        words, at = preprocessor(entry, self.clang), os.path.realpath(entry["directory"])
        p = subprocess.run(words, cwd=at, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           check=False, text=True)
        if p.returncode:
            return None
        files = re.sub(r"\\\n", " ", p.stdout).split()[1:]
        told = ["-I" + portable(w[2:], at) if w.startswith("-I") else w for w in words if w.startswith("-")]
        read = [f"{portable(f, at)} {hash_of(os.path.join(at, f))}" for f in files]
        return hashlib.sha256("\n".join([self.rules, *told, *read]).encode()).hexdigest()

    def known(self, entry):
        """It is as it was when nothing was found; that verdict is as new again."""
        key = self.keys[entry["file"]] = self.key(entry)
        path = os.path.join(AT, key) if key else None
        if not path or not os.path.exists(path):
            return False
        os.utime(path)
        return True

    def keep(self, entry):
        """After known() and a look; unless somebody edited it meanwhile."""
        key = self.key(entry)
        if key and key == self.keys[entry["file"]]:
            os.makedirs(AT, exist_ok=True)
            with open(os.path.join(AT, key), "w", encoding="ascii"):
                pass


def hash_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def forget_old():
    old = time.time() - KEPT_DAYS * 86400
    for e in os.scandir(AT) if os.path.isdir(AT) else ():
        if e.stat().st_mtime < old:
            os.unlink(e.path)


def newest_first(paths):
    """By the last commit that touched each: where time is short, what changed is looked at."""
    p = subprocess.run(["git", "log", "--format=", "--name-only"], cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, check=False, text=True)
    place = {}
    for i, line in enumerate(p.stdout.splitlines()):
        place.setdefault(line, i)
    return sorted(paths, key=lambda path: place.get(path, len(place) + 1))
