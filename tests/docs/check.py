#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The documentation is consistent: commands that are run, or have a reason why not; valid links; valid pictures.  TAP."""
import glob
import importlib.machinery
import importlib.util
import os
import re
import sys
import xml.etree.ElementTree as ET

sys.dont_write_bytecode = True
from pages import SYSTEMS, TOP, all_blocks, matches, pages, point, points, read  # noqa: E402


def marks(blocks):
    for b in blocks:
        if b.language in ("sh", "console", "bash", "shell"):
            if b.kind in ("run", "guest"):
                if b.value not in SYSTEMS or b.language not in ("sh", "console"):
                    yield f"{b.title}: there is no system '{b.value}' for {b.language} ({', '.join(SYSTEMS)})"
                elif b.language == "console" and not b.steps():
                    yield f"{b.title}: no line begins with a prompt"
            elif b.kind != "not run" or len(b.value) < 10:
                yield f"{b.title}: neither <!-- run: SYSTEM --> nor <!-- not run: REASON --> above it"
        elif b.kind not in ("", "file"):
            yield f"{b.title}: '{b.kind}' is for blocks of sh or console"


def indented(page):
    """Commands in indented blocks, which have no marks."""
    text = re.sub(r"^ *```.*?^ *```", "", read(page), flags=re.M | re.S)
    return [f"{page}: {line.strip()}: commands belong into a fenced block"
            for line in re.findall(r"^ {4,}(?:\./|sudo |usdma|USDMA_|meson |ninja |build/|tests/|cc |git |apt).*", text, re.M)]


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def links(page):
    text = re.sub(r"^ *```.*?^ *```", "", read(page), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, part = target.partition("#")
        where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(TOP, where)):
            yield f"{page}: {target} does not exist"
        elif part and part not in [anchor(h) for h in re.findall(r"^#+ (.*)$", read(where), re.M)]:
            yield f"{page}: {target}: no such heading"


def linked_from_readme():
    return [f"{p} is not linked from README.md" for p in pages() if p != "README.md" and f"]({p})" not in read("README.md")]


def pictures():
    folder = os.path.join(TOP, "docs/images")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".svg"):
            continue
        try:
            root = ET.parse(os.path.join(folder, name)).getroot()
        except ET.ParseError as e:
            yield f"{name}: {e}"
            continue
        if "rect" not in {e.tag.rpartition("}")[2] for e in root.iter()} and "background" not in root.get("style", ""):
            yield f"{name}: no background of its own, which a dark page needs"
        if any(e.tag.endswith("script") for e in root.iter()):
            yield f"{name}: holds a script"


def engines():
    return set(re.findall(r"^ENGINE\((\w+)\)", read("driver/hw/engines.inc"), re.M))


def engines_named():
    """Each engine is in the table of docs/engines.md; the picture has no other."""
    root = ET.parse(os.path.join(TOP, "docs/images/architecture.svg")).getroot()
    drawn = {t.text for g in root.iter() if g.get("id") == "engines" for t in g}
    if not drawn or drawn - engines():
        yield f"docs/images/architecture.svg has the engines {sorted(drawn)}, driver/hw/engines.inc {sorted(engines())}"
    for name in sorted(engines()):
        if not re.search(rf"^\| `{name}` \|", read("docs/engines.md"), re.M):
            yield f"docs/engines.md: no row for {name}"


def layers_drawn():
    """The layers of lib/core in the picture are the folders of docs/internals.md, in their order."""
    folders = re.findall(r"^\| `lib/core/(\w+)` \|", read("docs/internals.md"), re.M)
    texts = [e.text for e in ET.parse(os.path.join(TOP, "docs/images/architecture.svg")).getroot().iter() if e.tag.endswith("text")]
    drawn = [t for t in texts if t in folders]
    rest = [f for f in folders if f not in drawn]
    named = any(re.search(rf"\b{', '.join(rest[:-1])} and {rest[-1]}\b", t) for t in texts) if rest else True
    return [] if drawn == [f for f in folders if f in drawn] and named else [f"docs/images/architecture.svg draws {drawn}; of docs/internals.md: {folders}"]


def columns():
    """Of a row of usdma-perf --json."""
    source = read("tools/perf/report.cpp")
    source = source[source.index("nlohmann::json to_json("):source.index("std::string to_csv(")]
    return sorted(set(a or b for a, b in re.findall(r'^\s*(?:nlohmann::json out = \{)?\{"(\w+)",|^\s*out\["(\w+)"\]', source, re.M)))


def module_of(path):
    loader = importlib.machinery.SourceFileLoader(os.path.basename(path), os.path.join(TOP, path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def plot_is_current():
    plot, name = module_of("tests/bench/plot"), "docs/images/measured.svg"
    shown, version = plot.read(os.path.join(TOP, name)), read("VERSION").strip()
    if shown["version"] != version:
        yield f"{name} is of {shown['version']}, VERSION is {version}: measure again (docs/performance.md)"
    if shown["columns"] != columns():
        yield f"{name}: usdma-perf has other columns now, {set(shown['columns']) ^ set(columns())}: measure again (docs/performance.md)"
    if plot.draw(shown) != read(name):
        yield f"{name} is not what tests/bench/plot {name} draws"


def names_of_programs():
    """docs/ascend.md has the counts of tests/install/names."""
    names = module_of("tests/install/names.py")
    rows = {r[0]: list(map(int, r[1:])) for r in re.findall(r"^\|[^|]*\| `(\w+)` \|" + 4 * r" (\d+) \|", read("docs/ascend.md"), re.M)}
    lists = {os.path.basename(p)[:-len(".list")]: list(names.read(p)[1].values()) for p in glob.glob(os.path.join(TOP, "tests/install/names/*.list"))}
    for name in sorted(set(rows) | set(lists)):
        counts = [len(lists.get(name, [])), *(lists.get(name, []).count(part) for part in names.PARTS)]
        if rows.get(name) != counts:
            yield f"docs/ascend.md: {name}: {rows.get(name)}, and its list has {counts}"


def comparison():
    """Tests of matches(), which compares output."""
    good = [("a\nb", "a\nb\n"), ("a ... c", "a b c"), ("a\n...\nd", "a\nb\nc\nd"), ("...", ""), ("a\n...", "a\n"), ("", "")]
    bad = [("a", "b"), ("a", "a\nb"), ("a\nb", "a"), ("a ... c", "a b d"), ("a.c", "abc"), ("", "a")]
    return [f"{e!r} and {p!r}" for e, p in good if not matches(e, p)] + [f"{e!r} but {p!r}" for e, p in bad if matches(e, p)]


def main():
    blocks = all_blocks()
    point("there are commands to run", [] if [b for b in blocks if b.kind == "run"] else ["none found"])
    point("each command is run, or has a reason why not",
          list(marks(blocks)) + [w for p in pages() for w in indented(p)])
    point("links have a target", [w for p in pages() for w in links(p)])
    point("the first page links every other", linked_from_readme())
    point("pictures are well-formed, with a background", list(pictures()))
    point("pages and picture name the engines that there are", list(engines_named()))
    point("the picture has the layers of docs/internals.md", layers_drawn())
    point("the plot is of this version of usdma-perf", list(plot_is_current()))
    point("docs/ascend.md has the counts of public programs' names", list(names_of_programs()))
    point("the comparison of output works", comparison())
    return points.end()


sys.exit(main())
