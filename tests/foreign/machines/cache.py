# SPDX-License-Identifier: BSD-3-Clause
"""
A cache for folders that take long to make: each is made under a temporary name, then renamed, by one process at a time.
A folder that a process uses is not deleted.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time

AT = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "usdma-check", "foreign")
MANIFEST = "manifest.json"
_in_use = []  # open manifests, each with a shared lock, until the process exits


class CacheError(Exception):
    """A folder cannot be made; the text has the reason and a remedy."""


def key(*parts):
    """A hash of the texts from which a folder is made: a part of its name."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def manifest(folder):
    """The manifest of a complete folder; None: there is none."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def _locked(cache, kind):
    """Serializes the makers of one kind.  The kernel releases the lock of a process that was killed."""
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, kind + ".lock"), "a", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _use(folder):
    """The manifest; the folder is not deleted before this process exits.  None: there is no such folder."""
    try:
        f = open(os.path.join(folder, MANIFEST), encoding="utf-8")  # pylint: disable=consider-using-with
    except OSError:
        return None
    fcntl.flock(f, fcntl.LOCK_SH)
    if manifest(folder) is None or os.fstat(f.fileno()).st_nlink == 0:  # deleted before it was locked
        f.close()
        return None
    _in_use.append(f)
    return manifest(folder)


def _delete(folder, wait):
    """Deletes a folder unless a process uses it (wait: after the last one).  The manifest is deleted first."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            os.unlink(os.path.join(folder, MANIFEST))
    except BlockingIOError:
        return
    except OSError:
        pass
    shutil.rmtree(folder, ignore_errors=True)


def _others(cache, kind, folder):
    """Folders of this kind that are older, or incomplete as their maker was interrupted."""
    return [os.path.join(cache, n) for n in os.listdir(cache)
            if n.startswith(kind + "-") and os.path.join(cache, n) != folder]


def made(cache, kind, name, make, say, fresh=False):
    """
    The folder KIND-NAME; if there is none, make(folder) fills it and returns its manifest.  fresh: made in any case.
    Folders of the kind with other names are older: they are deleted when this one is complete.
    """
    folder = os.path.join(cache, f"{kind}-{name}")
    if not fresh and _use(folder):
        return folder
    with _locked(cache, kind):
        if not fresh and _use(folder):  # another process made it while this one waited
            return folder
        for old in _others(cache, kind, folder):
            if manifest(old) is None:
                shutil.rmtree(old, ignore_errors=True)
        partial = tempfile.mkdtemp(prefix=f"{kind}-{name}.part-", dir=cache)
        try:
            _fill(partial, make, kind, say)
            _delete(folder, True)
            os.rename(partial, folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        for old in _others(cache, kind, folder):
            _delete(old, False)
        _use(folder)
    return folder


def _fill(folder, make, kind, say):
    start = time.monotonic()
    os.chmod(folder, 0o755)
    facts = make(folder)
    facts["seconds"] = round(time.monotonic() - start)
    with open(os.path.join(folder, MANIFEST), "w", encoding="utf-8") as f:
        json.dump(facts, f, indent=1)
    say(f"{kind}: made in {facts['seconds']} s")
