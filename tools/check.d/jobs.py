# SPDX-License-Identifier: BSD-3-Clause
"""The table of jobs, and what is known of their last runs."""
import hashlib
import json
import os
import subprocess
import time
import traceback

from check import TOP, Run, Stop

JOBS = {}


def job(name, minutes, about, packages=(), in_all=True):
    """Makes a function(run) a job. minutes: about how long it takes on two cores, the first time."""
    def add(fn):
        JOBS[name] = {"fn": fn, "about": about, "minutes": minutes, "packages": list(packages), "in_all": in_all}
        return fn
    return add


def install_packages(names):
    sets = list(dict.fromkeys(s for n in names for s in JOBS[n]["packages"]))
    return not sets or subprocess.run([os.path.join(TOP, "tools/packages"), *sets], stdin=subprocess.DEVNULL, check=False).returncode == 0


def run_job(name, options, fn=None):
    run = Run(name, options)
    try:
        (fn or JOBS[name]["fn"])(run)
    except Stop:
        pass
    except Exception:  # a fault of a job is that job's failure
        run.results.add(False, f"{name}: the job itself", traceback.format_exc())
    run.seconds = time.monotonic() - run.started
    seen = set()
    for title, log in run.results.failed:  # several points of one program share its log
        run.say(f"FAILED: {title}" + ("" if log in seen else f"\n{log}\n---"))
        seen.add(log)
    for title, why in run.results.skipped:
        run.say(f"skipped: {title}: {why}")
    return run


class State:
    """What passed on this state of the tree, for --resume, and how long each job took; in BUILD-ROOT/state.json."""

    def __init__(self, root):
        self.path, self.tree = os.path.join(root, "state.json"), tree_hash()
        try:
            with open(self.path, encoding="utf-8") as f:
                self.jobs = json.load(f)
        except (OSError, ValueError):
            self.jobs = {}

    def minutes(self, name):
        return max(1, round(self.jobs[name]["seconds"] / 60)) if name in self.jobs else JOBS[name]["minutes"]

    def passed(self, name):
        return self.jobs.get(name, {}).get("passed_at") == self.tree

    def note(self, run):
        self.jobs[run.name] = {"seconds": round(run.seconds, 1), "passed_at": None if run.results.failed else self.tree}
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "w", encoding="utf-8") as f:
            json.dump(self.jobs, f, indent=1)


def tree_hash():
    """Changes with each change of a tracked file, committed or not."""
    said = [subprocess.run(["git", "-C", TOP, *words], capture_output=True, check=False).stdout
            for words in (["rev-parse", "HEAD"], ["diff", "HEAD"])]
    return hashlib.sha256(b"\0".join(said)).hexdigest()
