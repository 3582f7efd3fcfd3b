#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
usdmactl bringup on the models, and usdma-sim --replay of its reports.  bringup_test.py USDMACTL USDMA-SIM MODELS [more]; prints TAP.
more: all variants, with more copies and faults.
"""
import contextlib
import copy
import getpass
import json
import os
import re
import select
import socket
import subprocess
import sys

from fake_tree import Suite

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MORE = "more" in sys.argv[4:]
ENGINES = sys.argv[3].split(",")
COPIES = "20000" if MORE else "100"
MODELS = ("sdma", *ENGINES) + (("ioat-3.3", "dsa-2", "hisi-hip09", "ioat:channels=4") if MORE else ())
# Of each model: what it does wrong, and the step that finds it.
MISTAKES = [("ioat", "wrong%1/length", "copy"), ("dsa", "drop-irq%1", "interrupts"), ("hisi", "wrong%1/error", "faults"), ("sdma", "fail@40", "order")]
MISTAKES += [(name, "wrong%1/length", "copy") for name in ENGINES if name not in (m for m, _, _ in MISTAKES)]
if MORE:
    MISTAKES += [("ioat", "drop-irq%1", "interrupts"), ("ioat", "wrong%1/early", "copy"), ("dsa", "wrong%1/length", "copy"),
                 ("dsa", "wrong%1/error", "faults"), ("hisi", "wrong%1/length", "copy"), ("hisi", "drop-irq%1", "interrupts"), ("hisi", "drop-record%1", "copy"),
                 ("sdma", "drop-irq%1", "interrupts"), ("sdma", "hang@20", "lengths"), ("ioat", "hang@20", "lengths")]


class Tools(Suite):
    def __init__(self, ctl, sim):
        super().__init__(ctl)
        self.sim = sim
        self.reports = {}

    def bringup(self, device, name, *options, copies=COPIES):
        """(exit status, the report, what was printed)"""
        path = os.path.join(self.scratch, name + ".json")
        command = [self.program, "bringup", device, "--copies", copies, "--report", path, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=self.scratch)
        report = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                report = json.load(f)
        return done.returncode, report, done

    @contextlib.contextmanager
    def replay(self, report, name, *options):
        """A server that answers as the report says: (device string, a list that has its messages afterwards)."""
        path, where = (os.path.join(self.scratch, name + end) for end in (".replay", ".sock"))
        with open(path, "w", encoding="utf-8") as f:
            json.dump(report, f)
        ready, writer = os.pipe()
        said = []
        with subprocess.Popen([self.sim, "--socket", where, "--replay", path, "--once", "--ready-fd", str(writer), *options], pass_fds=[writer],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as sim:
            os.close(writer)
            assert select.select([ready], [], [], 60)[0] and os.read(ready, 1), sim.communicate()[1]
            os.close(ready)
            try:
                yield "vfio-user:" + where, said
            finally:
                sim.terminate()
                said.append(sim.communicate(timeout=60)[1])


def step(report, name):
    return next(s for s in report["steps"] if s["step"] == name)


def failed_step(report):
    return [s["step"] for s in report["steps"] if not s.get("ok", True)]


def test_models(s):
    for model in MODELS:
        status, report, done = s.bringup("sim:model=" + model, model)
        s.check(status == 0 and report["ok"] and all(x["ok"] for x in report["steps"]), f"{model}: all steps are as expected", done)
        if status:
            continue
        s.reports[model] = report
        s.check(all(x["trace"] and x["accesses"] for x in report["steps"]) and all(re.match(r"[rw] \d 0x[0-9a-f]+ [1248] 0x[0-9a-f]+( \d+)?$", a)
                for x in report["steps"] for a in x["trace"]), f"{model}: each step has accesses with their values")
        soak = step(report, "soak")["notes"]
        s.check(soak["copies"] >= int(COPIES) and soak["resets"] and soak["faults"], f"{model}: copies with resets and faults", soak)
        s.check(max(len(x["trace"]) for x in report["steps"]) <= 1024, f"{model}: the record of a step is bounded")
        with open(os.path.join(s.scratch, model + ".json.txt"), encoding="utf-8") as f:
            text = f.read()
        s.check("All is as expected" in text and step(report, "copy")["trace"][-1] in text, f"{model}: the same as text")


def test_personal_data(s):
    """Neither where the device is nor who runs this is in a report."""
    for name, device, status in (("ok", "sim:model=ioat", 0), ("surprise", "sim:model=ioat:faults=wrong%1/length", 1)):
        got, report, done = s.bringup(device, "personal-" + name)
        text = json.dumps(report) + "".join(open(os.path.join(s.scratch, f"personal-{name}.json.txt"), encoding="utf-8"))
        words = [socket.gethostname(), os.path.expanduser("~"), s.scratch, os.getcwd()] + ([getpass.getuser()] if getpass.getuser() != "root" else [])
        s.check(got == status and not [w for w in words if len(w) > 2 and w in text], f"no names of the machine or its user ({name})", done)
        s.check(not re.search(r"0x[57][0-9a-f]{11}\b", text), f"no addresses of the process ({name})")
    got, report, done = s.bringup("sim:model=ioat", "skipping", "--skip", "soak", "--accesses", "4")
    s.check(got == 0 and step(report, "soak")["skipped"] and max(len(x.get("trace", [])) for x in report["steps"]) == 4, "steps left out, few accesses saved", done)
    done = s.run("bringup", "sim", "--skip", "coffee")
    s.check(done.returncode == 2, "an unknown step is a wrong command line", done)
    for name in ("start", "copy"):
        done = s.run("bringup", "sim", "--skip", name)
        s.check(done.returncode == 2 and "cannot be skipped" in done.stderr, f"step {name} cannot be left out", done)
    done = s.run("bringup", "sim:model=ioat", "--copies", "1", "--report", "/nowhere/at/all")
    s.check(done.returncode == 1 and "/nowhere/at/all" in done.stderr, "a report that cannot be written", done)
    done = s.run("bringup", "vfio-user:/nowhere/at/all")
    s.check(done.returncode == 1 and "cannot be opened" in done.stderr, "a device that cannot be opened", done)
    done = s.run("--json", "bringup", "sim:model=hisi", "--copies", "1", "--report", os.path.join(s.scratch, "j"))
    s.check(done.returncode == 0 and json.loads(done.stdout)["driver"] == "hisi", "--json", done)


def test_mistakes(s):
    for model, fault, where in MISTAKES:
        status, report, done = s.bringup(f"sim:model={model}:faults={fault}", "mistake")
        s.check(status == 1 and not report["ok"] and failed_step(report) == [where] and report["steps"][-1]["step"] == where,
                f"{model} with {fault}: step {where} finds it, and is the last", done)
        found = step(report, where)
        s.check(found["surprise"] in re.sub(r"\s+", " ", done.stdout) and found["check"] in re.sub(r"\s+", " ", done.stdout), f"{model} with {fault}: what, and what to check", done)
        rules = [c["rule"] for c in found["checklist"]]
        s.check(all(r in done.stdout for r in rules), f"{model} with {fault}: the items of the checklist", rules)


def test_checklist(s):
    """Each rule that an engine's driver names is in the list of docs/engines.md."""
    with open(os.path.join(TOP, "docs/engines.md"), encoding="utf-8") as f:
        listed = f.read().split("## Bring-up checklist")[1].split("\n## ")[0].replace("`", "")
    for model in ENGINES:
        rules = [c["rule"] for x in s.reports[model]["steps"] for c in x["checklist"]]
        missing = [r for r in rules if f"| {model} | {r}" not in listed]
        s.check(not missing and (rules or model not in ("ioat", "dsa", "hisi")), f"{model}: the checklist is that of docs/engines.md", missing)


def test_replay(s):
    for model in MODELS if MORE else ("ioat",):
        if ":" in model:
            continue
        report = s.reports[model]
        with s.replay(report, "same", "--model", model) as (device, said):
            status, again, done = s.bringup(device, "replayed")
        s.check(status == 0 and again["ok"], f"{model}: the driver passes on a replay of its own record", f"{done}\n{said}")
        s.check(again and step(again, "registers")["notes"] == step(report, "registers")["notes"], f"{model}: registers read as on the device")


def change(report, step_name, access, to):
    """The report with other accesses of a step; to: None leaves them out."""
    made = copy.deepcopy(report)
    x = step(made, step_name)
    assert access in x["trace"], x["trace"]
    x["trace"] = [to if a == access else a for a in x["trace"] if a != access or to]
    return made


def test_replay_of_another_device(s):
    report = s.reports["ioat"]
    version = next(a for a in step(report, "registers")["trace"] if a.startswith("r 0 0x8 1 "))
    with s.replay(change(change(report, "registers", version, "r 0 0x8 1 0x34"), "start", version, "r 0 0x8 1 0x34"), "other") as (device, said):
        _, again, done = s.bringup(device, "replayed")
    s.check(step(again, "registers")["notes"]["VERSION"] == "0x34", "a register reads as the record says, not as the model does", f"{done}\n{said}")
    with s.replay(change(change(report, "registers", version, "r 0 0x8 1 0x20"), "start", version, "r 0 0x8 1 0x20"), "old") as (device, said):
        _, again, done = s.bringup(device, "replayed")
    s.check(failed_step(again) == ["start"] and "version 2.0" in step(again, "start")["surprise"], "and the driver judges that", f"{done}\n{said}")
    made = copy.deepcopy(report)
    for x in made["steps"]:
        x["trace"] = [a for a in x["trace"] if not a.startswith("w 0 0x3 1 ")]
        x["accesses"] = sum(int((a.split() + ["1"] * (6 - len(a.split())))[5]) for a in x["trace"])
    with s.replay(made, "jane doe") as (_, said):
        _, again, done = s.bringup("vfio-user:./jane doe.sock:trust=yes", "replayed")
    s.check(failed_step(again) == ["start"] and "in step start the driver leaves the recorded path: it writes 1 bytes at 0x3 of region 0" in said[0],
            "a driver that does something else is named, with step and register", f"{done}\n{said}")
    found = step(again, "start")["surprise"]
    s.check("doe" not in found and "doe" not in done.stdout, "the report does not name the device's socket", found)


def test_replay_of_a_failure(s):
    """The driver sees the registers of the device that failed, and says the same."""
    for model, fault, where in (("ioat", "fail@1/src-unmapped", "copy"),) + ((("ioat", "hang@1", "copy"), ("hisi", "fail@1/src-unmapped", "copy"), ("dsa", "hang@3", "lengths")) if MORE else ()):
        _, report, _ = s.bringup(f"sim:model={model}:faults={fault}", "recorded")
        with s.replay(report, "failed") as (device, said):
            status, again, done = s.bringup(device, "replayed")
        s.check(status == 1 and failed_step(again) == failed_step(report) == [where], f"{model} with {fault}: fails in the same step", f"{done}\n{said}")


def test_bad_reports(s):
    good = s.reports["ioat"]
    cases = [("no JSON", "hello"), ("no report", "{}"), ("another version", {**good, "version": 2}), ("no steps", {**good, "steps": []}),
             ("an unknown driver", {**good, "driver": "coffee"}), ("a path as driver", {**good, "driver": "../../etc"}),
             ("an access beyond the BAR", change(good, "registers", step(good, "registers")["trace"][-1], "r 0 0xfffff0 4 0x0"))]
    for what in ("x 0 0x0 4 0x0", "r 9 0x0 4 0x0", "r 0 0x1 4 0x0", "r 0 0x0 3 0x0", "r 0 0x0 1 0x1ff", "r 0 0x0 4 0x0 0", "r 0 0x0 4", "w 0 0x0 4 0x0 3", ""):
        cases.append((f"the access '{what}'", change(good, "registers", step(good, "registers")["trace"][-1], what or " ")))
    for name, report in cases:
        path = os.path.join(s.scratch, "bad")
        with open(path, "w", encoding="utf-8") as f:
            f.write(report if isinstance(report, str) else json.dumps(report))
        if "BAR" in name:
            with s.replay(report, "beyond") as (device, said):
                status, _, done = s.bringup(device, "replayed")
            s.check(status == 1 and "0xfffff0 of region 0, which the model ioat does not have" in said[0], f"refused: {name}", f"{done}\n{said}")
            continue
        done = subprocess.run([s.sim, "--socket", path + ".sock", "--replay", path], capture_output=True, text=True, timeout=60, check=False)
        s.check(done.returncode == 2 and path in done.stderr, f"refused: {name}", done)
    for path in ("/nowhere/at/all", "/dev/zero", s.scratch):
        done = subprocess.run([s.sim, "--socket", os.path.join(s.scratch, "b.sock"), "--replay", path], capture_output=True, text=True, timeout=60, check=False)
        s.check(done.returncode == 2 and path in done.stderr, f"refused: {os.path.basename(path)}", done)


if __name__ == "__main__":
    sys.exit(Tools(sys.argv[1], sys.argv[2]).run_all(
        [test_models, test_personal_data, test_mistakes, test_checklist, test_replay, test_replay_of_another_device, test_replay_of_a_failure, test_bad_reports]))
