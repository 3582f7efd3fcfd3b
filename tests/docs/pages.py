# SPDX-License-Identifier: BSD-3-Clause
"""
The commands in the documentation.  Each fenced block of language sh or console has a mark on the line above it:

    <!-- run: SYSTEM -->      the tests run it as it is, on that system
    <!-- guest: SYSTEM -->    run on that system; it starts the machine in which blocks of the system guest are run
    <!-- not run: REASON -->

and a block of any other language may have <!-- file: NAME -->: it is written to that file.  In a console block, lines that
begin with a prompt are commands, the others their output; "..." matches any text, on its own line any number of lines.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import Points  # noqa: E402

SYSTEMS = ("clone", "guest", "booted")
PROMPT = re.compile(r"(?:guest# |\$ )")


points = Points()


def point(name, wrong):
    """wrong: a list of all errors; empty: the point passes."""
    points.add(not wrong, name, "\n".join(wrong), most=None)


class Block:
    def __init__(self, page, line, language, mark, text):
        self.page, self.line, self.language, self.text = page, line, language, text
        self.kind, _, self.value = (part.strip() for part in (mark or "").partition(":"))

    @property
    def title(self):
        first = next((line for line in self.text.splitlines() if line.strip()), "")
        return f"{self.page}:{self.line} {first}"

    def steps(self):
        """[(command, its output; None: not specified)]"""
        if self.language == "sh":
            return [(self.text, None)]
        out = []
        for line in self.text.splitlines():
            prompt = PROMPT.match(line)
            if prompt:
                out.append((line[prompt.end():], []))
            elif out:
                out[-1][1].append(line)
        return [(command, "\n".join(said)) for command, said in out]


def pages():
    found = ["README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(glob.glob("docs/*.md", root_dir=TOP))]
    # The order of reading: the first page, then the one about devices, then the others.
    return sorted(found, key=lambda p: (p != "README.md", p != "docs/devices.md"))


def read(page):
    with open(os.path.join(TOP, page), encoding="utf-8") as f:
        return f.read()


def blocks(page):
    mark, fence, text = "", None, []
    for number, line in enumerate(read(page).splitlines(), 1):
        fenced = re.fullmatch(r"( *)```(\w*)", line)
        if fence is None and fenced:
            fence, text = (number + 1, fenced[1], fenced[2]), []
        elif fence is not None and fenced:
            yield Block(page, fence[0], fence[2], mark, "".join(text))
            fence, mark = None, ""
        elif fence is not None:
            text.append(line.removeprefix(fence[1]) + "\n")
        else:
            said = re.fullmatch(r" *<!-- (.*) -->", line)
            mark = said[1] if said else "" if line.strip() else mark


def all_blocks():
    return [b for page in pages() for b in blocks(page)]


def matches(expected, printed):
    """Whether the output is as the page has it."""
    parts = []
    for line in expected.rstrip().splitlines():
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*")
        else:
            parts.append(".*".join(re.escape(piece) for piece in line.rstrip().split("...")) + "\n")
    lines = "".join(line.rstrip() + "\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch("".join(parts), lines) is not None
