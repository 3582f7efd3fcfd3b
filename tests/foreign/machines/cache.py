# SPDX-License-Identifier: BSD-3-Clause
"""
What is dear to make is kept in the user's cache: made beside its place, then renamed, by one maker at a time; and nothing
is taken from under a run that uses it.
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
_in_use = []  # open manifests, each with a shared lock, until the process ends


class CacheError(Exception):
    """It cannot be made; the text says why, and what helps."""


def key(*parts):
    """Names what is made from these texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def manifest(folder):
    """What is known of something finished; None: it is not there."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def _locked(cache, kind):
    """Makers of one kind come one after the other.  The kernel lets go of the lock of one that was killed."""
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, kind + ".lock"), "a", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _use(place):
    """What is known of it; it stays there as long as this process does.  None: it is not there."""
    try:
        f = open(os.path.join(place, MANIFEST), encoding="utf-8")  # pylint: disable=consider-using-with
    except OSError:
        return None
    fcntl.flock(f, fcntl.LOCK_SH)
    if manifest(place) is None or os.fstat(f.fileno()).st_nlink == 0:  # it went before the lock came
        f.close()
        return None
    _in_use.append(f)
    return manifest(place)


def _forget(folder, wait):
    """Deletes it unless a run uses it (wait: once no run does); what is half deleted has no manifest."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            os.unlink(os.path.join(folder, MANIFEST))
    except BlockingIOError:
        return
    except OSError:
        pass
    shutil.rmtree(folder, ignore_errors=True)


def _others(cache, kind, place):
    """Older ones, and what makers that were interrupted left."""
    return [os.path.join(cache, n) for n in os.listdir(cache)
            if n.startswith(kind + "-") and os.path.join(cache, n) != place]


def made(cache, kind, name, make, say, fresh=False):
    """
    The folder KIND-NAME, made by make(folder) -> what is known of it, unless it is there.  fresh: made anew all the same.
    Folders of the kind by other names are older: they go once this one stands.
    """
    place = os.path.join(cache, f"{kind}-{name}")
    if not fresh and _use(place):
        return place
    with _locked(cache, kind):
        if not fresh and _use(place):  # another made it while this one waited
            return place
        for old in _others(cache, kind, place):
            if manifest(old) is None:
                shutil.rmtree(old, ignore_errors=True)
        folder = tempfile.mkdtemp(prefix=f"{kind}-{name}.part-", dir=cache)
        try:
            _fill(folder, make, kind, say)
            _forget(place, True)
            os.rename(folder, place)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for old in _others(cache, kind, place):
            _forget(old, False)
        _use(place)
    return place


def _fill(folder, make, kind, say):
    start = time.monotonic()
    os.chmod(folder, 0o755)
    known = make(folder)
    known["seconds"] = round(time.monotonic() - start)
    with open(os.path.join(folder, MANIFEST), "w", encoding="utf-8") as f:
        json.dump(known, f, indent=1)
    say(f"{kind}: made in {known['seconds']} s")
