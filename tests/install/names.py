#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names that public programs use, by program: used, exported, working, refusing, absent.  TAP.

names.py LIBRARY... [--absent]      --absent: names the absent ones, too

tests/install/names/*.list has a program each: its comment says which, and from where; "works", "refuses" and "absent" begin
what is expected of the names that follow. A name that works must not vanish or be refused; one that is listed as refused
or absent and has become better belongs to another part of the list. What is refused is lib/acl/refused.list, a section of
lib/ascend/hal.list, lib/hccl_comm/refused.cpp and the rows "refuses" of lib/hcomm/calls.list.
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ACL = os.path.join(HERE, "../../lib/acl")
PARTS = ("works", "refuses", "absent")


def exported(libraries):
    out = subprocess.run(["nm", "-D", "--defined-only", *libraries], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in out.splitlines() if len(line.split()) == 3}


def refused():
    names = set()
    with open(os.path.join(ACL, "refused.list"), encoding="utf-8") as f:
        for line in f:
            names.update(line.split(": ")[0].split() if line[0] not in "#=" else [])
    with open(os.path.join(ACL, "../ascend/hal.list"), encoding="utf-8") as f:
        names.update(f.read().partition("[refused]")[2].split())
    with open(os.path.join(ACL, "../hccl_comm/refused.cpp"), encoding="utf-8") as f:
        names.update(re.findall(r"^(?:HcclResult|int32_t) (\w+)\(", f.read(), re.M))
    with open(os.path.join(ACL, "../hcomm/calls.list"), encoding="utf-8") as f:
        names.update(re.findall(r"^(\w+) refuses$", f.read(), re.M))
    return names


def read(path):
    """The program, and {name: part}."""
    title, part, names = "", None, {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#"):
                title = title or line[1:].strip()
            elif line.strip() in PARTS:
                part = line.strip()
            else:
                names.update({name: part for name in line.split()})
    return title, names


def main():
    libraries = [a for a in sys.argv[1:] if not a.startswith("--")]
    have, no = exported(libraries), refused()
    lists = sorted(glob.glob(os.path.join(HERE, "names", "*.list")))
    failed = not lists
    print(f"1..{max(len(lists), 1)}")
    print(f"# {'program':60} used  exported  work  refuse  absent")
    for n, path in enumerate(lists, 1):
        title, expected = read(path)
        now = {name: "absent" if name not in have else "refuses" if name in no else "works" for name in expected}
        wrong = [f"{name}: {expected[name]} in the list, {now[name]} here" for name in sorted(expected) if now[name] != expected[name]]
        count = {part: sum(p == part for p in now.values()) for part in PARTS}
        print(f"# {title[:60]:60} {len(now):4}  {len(now) - count['absent']:8}  {count['works']:4}  {count['refuses']:6}  {count['absent']:6}")
        if "--absent" in sys.argv:
            print("".join(f"#   absent: {name}\n" for name in sorted(now) if now[name] == "absent"), end="")
        bad = bool(wrong) or not expected
        failed |= bad
        print(f"{'not ok' if bad else 'ok'} {n} - {os.path.basename(path)}")
        print("".join(f"# {w}\n" for w in wrong), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
