# SPDX-License-Identifier: BSD-3-Clause
"""The check soak: loads in turn, each time with another seed, for as long as it is told to; data, memory and descriptors watched."""
import random
import re
import time

from check import check, tail
from building import BUILD

LOADS = {  # name of the load in its line (tests/support/soak.cpp): the program, what it takes beside
    "mixed-load": ("tests/fault/fault-scale", {}),
    "random-faults": ("tests/fault/fault-random", {}),
    "acl-programs": ("tests/integration/integration-acl-model", {"USDMA_DEVICES": "sim:mem=256M:engines=2:channels=16"}),
}
LINE = re.compile(r"^# soak (\S+): operations (\d+) rss_kib (\d+) (\d+) fds (\d+) (\d+) maps (\d+) (\d+) threads (\d+) (\d+)$", re.M)
LONGEST_TURN, SHORTEST_TURN = 300, 5  # seconds; a turn's end also runs 10,000 streams and 100,000 regions


@check("soak", "loads in turn with fresh seeds for --soak-minutes: mixed, random faults, random ACL programs; a wrong byte fails, and "
      "so does memory or a descriptor more at a turn's end", BUILD, default=False)
def soak(run):
    run.build(where=run.dir("gcc"), targets=[program for program, _ in LOADS.values()])
    began, length, turns = time.monotonic(), run.soak_minutes * 60, []
    each = max(SHORTEST_TURN, min(LONGEST_TURN, int(length / len(LOADS))))
    while len(turns) < len(LOADS) or time.monotonic() - began < length:
        name = list(LOADS)[len(turns) % len(LOADS)]
        left = length - (time.monotonic() - began)
        turns.append(turn(run, name, max(SHORTEST_TURN, min(each, int(left)))))
        run.say(f"{(time.monotonic() - began) / 60:.1f} of {run.soak_minutes:g} min: {told(turns[-1])}")
    summary(run, turns)


def turn(run, name, seconds):
    program, env = LOADS[name]
    seed = random.SystemRandom().randrange(1, 1 << 32)
    status, out = run.command([run.dir("gcc") + "/" + program], deadline=seconds + 600,
                              env={"USDMA_TEST_SECONDS": str(seconds), "USDMA_TEST_SEED": str(seed), **env})
    found = LINE.search(out)
    ok = status == 0 and found is not None and found.group(1) == name
    run.results.add(ok, f"soak {name}, USDMA_TEST_SEED={seed}, {seconds} s", tail(out))
    if not ok:  # not only at the end of hours
        with open(run.dir("gcc") + f"/soak-{name}-{seed}.log", "w", encoding="utf-8") as f:
            f.write(out)
        run.say(f"{name} ended with status {status}; all that it said is in {f.name}\n{tail(out)}")
    figures = [int(x) for x in found.groups()[1:]] if found else [0] * 9
    return {"load": name, "seed": seed, "seconds": seconds, "ok": ok, "operations": figures[0], "rss_kib": figures[1:3],
            "fds": figures[3:5], "maps": figures[5:7], "threads": figures[7:9]}


def held(t):
    return (f"RSS {t['rss_kib'][0] / 1024:.1f} → {t['rss_kib'][1] / 1024:.1f} MiB, descriptors {t['fds'][0]} → {t['fds'][1]}, "
            f"mappings {t['maps'][0]} → {t['maps'][1]}, threads {t['threads'][0]} → {t['threads'][1]}")


def told(t):
    return f"{t['load']} {'good' if t['ok'] else 'FAILED'}, seed {t['seed']}: {t['operations']} operations, {held(t)}"


def summary(run, turns):
    run.figures["soak"] = turns
    print(f"\n{'load':14} {'turns':>5} {'failed':>6} {'operations':>12} {'most grown':>11}  seeds")
    for name in LOADS:
        mine = [t for t in turns if t["load"] == name]
        most = max((t["rss_kib"][1] - t["rss_kib"][0] for t in mine), default=0)
        print(f"{name:14} {len(mine):5} {sum(not t['ok'] for t in mine):6} {sum(t['operations'] for t in mine):12} "
              f"{most / 1024:+7.1f} MiB  {' '.join(str(t['seed']) for t in mine)}")
    print(flush=True)
