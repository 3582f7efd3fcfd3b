#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages: rendered without a warning, and complete.  TAP.

man.py BUILD_DIR
"""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from tap import Points  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
points = Points()
point = points.add
skip = points.skip


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def render(page):
    name, tried = os.path.basename(page), False
    if shutil.which("mandoc"):
        tried = True
        p = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page], capture_output=True, text=True, check=False)
        point(p.returncode == 0 and not p.stdout, f"mandoc finds nothing wrong in {name}", p.stdout + p.stderr)
    if shutil.which("groff"):
        tried = True
        # Not justified: groff 1.23 warns of lines with long names, which it cannot stretch.
        p = subprocess.run(["groff", "-ww", "-dAD=l", "-mandoc", "-Tutf8", "-z", page], capture_output=True, text=True, check=False)
        point(p.returncode == 0 and not p.stderr, f"groff finds nothing wrong in {name}", p.stderr)
    return tried


def options(tool, page):
    """Every option of the tool's --help is in its page."""
    p = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False)
    listed = set(re.findall(r"^ +(?:-\w, ?)?--([a-z][a-z-]+)", p.stdout, re.M))
    text = read("docs/man", page).replace("\\-", "-")
    missing = sorted(o for o in listed if o not in ("help", "version") and not re.search(rf"Fl -{o}\b|, -{o}\b", text))
    point(p.returncode == 0 and listed and not missing, f"{page} has every option", f"{missing}\n{p.stderr}")
    wide = [line for line in p.stdout.splitlines() if len(line) > 80]
    point(not wide, f"{os.path.basename(tool)} --help is at most 80 columns wide", "\n".join(wide))


def commands(tool):
    """Every command of usdmactl and each of its options is in its page."""
    text = read("docs/man/usdmactl.8").replace("\\-", "-")
    help_text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False).stdout.partition("Subcommands:")[2]
    names = re.findall(r"^  ([a-z]+) ", help_text, re.M)
    missing = [n for n in names if f".It Cm {n}" not in text]
    for name in names:
        out = subprocess.run([tool, name, "--help"], capture_output=True, text=True, check=False).stdout
        listed = set(re.findall(r"^ +(?:-\w, ?)?--([a-z][a-z-]+)", out, re.M)) - {"help", "json"}
        missing += [f"{name} --{o}" for o in sorted(listed) if f"-{o}" not in text]
    point(names and not missing, "usdmactl.8 has every command and option", str(missing))


def settings():
    """A setting has one text: the text that usdmactl info prints is the start of its entry in usdma(7) and of its rows in tables."""
    rows = re.findall(r'<&config::\w+>\(\s*"([a-z_]+)",(.*?)\),\n', read("lib/core/config/setting.cpp").partition("test_settings[]")[0], re.S)
    meanings = {name: "".join(re.findall(r'"([^"]*)"', re.search(r'(?:"[^"]*"\s*)+$', rest)[0])) for name, rest in rows}
    page = re.split(r"^\.It Ev ", read("docs/man/usdma.7"), flags=re.M)
    entries = {entry.split("\n", 1)[0]: entry.split("\n", 1)[1].replace("\\-", "-").replace("\n", " ").lower() for entry in page[1:]}
    wrong = [n for n, m in meanings.items() if not entries.get(f"USDMA_{n.upper()}", "").startswith(m.lower())]
    point(len(meanings) > 10 and not wrong, "usdma(7) has every setting, with the text of usdmactl info", str(wrong))
    for where, row in (("README.md", r"^\| `USDMA_([A-Z_]+)` \| (.*?) \|"), ("docs/tuning.md", r"^\| `([a-z_]+)` \| (.*?) \|$")):
        table = [(name.lower(), text) for name, text in re.findall(row, read(where), re.M) if name.lower() in meanings]
        wrong = [name for name, text in table if not text.startswith(meanings[name])]
        point(len(table) > 8 and not wrong, f"the tables of {where} have their texts, too", str(wrong))
    return list(meanings)


def main():
    build = sys.argv[1]
    pages = sorted(glob.glob(os.path.join(build, "docs/man/*.3"))) + sorted(glob.glob(os.path.join(TOP, "docs/man/*.[178]")))
    rendered = [render(page) for page in pages]
    if not all(rendered):
        skip("rendering", "neither mandoc nor groff is installed")
    functions = set(re.findall(r"USDMA_API [^;]*?\b(usdma_\w+)\(", "".join(read(f"include/usdma/{h}.h") for h in ("usdma", "uring", "file"))))
    text = "".join(open(p, encoding="utf-8").read() for p in pages if p.endswith(".3"))
    missing = sorted(f for f in functions if f".It Fn {f}\n" not in text or f".Fo {f}\n" not in text)
    point(functions and not missing, "every function of the headers has its page", str(missing))
    variables = settings()
    explained = re.findall(r"^## (.*?):", read("docs/tuning.md"), re.M) + re.findall(r"^\| (`.*?) \|", read("docs/tuning.md"), re.M)
    missing = [v for v in variables if not re.search(rf"\b{v}\b", " ".join(explained))]
    point(variables and not missing, "docs/tuning.md explains every setting", str(missing))
    for tool, page in (("tools/usdma-sim", "usdma-sim.1"), ("tools/perf/usdma-perf", "usdma-perf.1")):
        if os.path.exists(os.path.join(build, tool)):
            options(os.path.join(build, tool), page)
    if os.path.exists(os.path.join(build, "tools/usdmactl/usdmactl")):
        commands(os.path.join(build, "tools/usdmactl/usdmactl"))
    return points.end()


sys.exit(main())
