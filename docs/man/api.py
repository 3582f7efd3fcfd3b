#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Generates the manual pages of the C API from the headers' comments: one page for each group of functions
(a line /* ---- devices ---- */ begins one).

  api.py --list HEADER...       prints "FUNCTION..." for each group; a page is named after its first function
  api.py PAGE OUT HEADER...     writes that page (mdoc)
"""
import re
import sys

ABOUT = {
    "library": "version, error texts, log lines",
    "settings": "read and write settings, and query their source",
    "devices": "open and describe DMA devices",
    "memory": "pinned host memory and device memory",
    "streams": "queues of work that run in order",
    "copies": "copies, fills, reductions and values in memory",
    "events": "marks in a stream's work",
    "uring.h": "completions in the caller's io_uring",
    "file.h": "files, in the order of a stream",
}
GROUP = re.compile(r"^/\* ---- (.*?) -*\s*-+ \*/$", re.M)
DECLARATION = re.compile(r"(?P<comment>/\*(?:[^*]|\*(?!/))*\*/\n)?(?P<code>(?:USDMA_API|enum|struct|typedef)\b[^;{]*(?:\{[^\n]*\}|\{.*?^\})?[^;]*;)",
                         re.M | re.S)
FUNCTION = re.compile(r"USDMA_API (.*?[ *])(usdma_\w+)\((.*)\);$", re.S)


def groups(headers):
    """(name, path of the header, text) of each."""
    for path in headers:
        with open(path, encoding="utf-8") as f:
            text = f.read().split('extern "C" {', 1)[1].rsplit("#ifdef __cplusplus", 1)[0]
        parts = GROUP.split(text)
        if len(parts) == 1:
            yield path.split("/")[-1], path, text
        for i in range(1, len(parts), 2):
            yield parts[i].strip(), path, parts[i + 1]


def rules(path):
    """The comment at the top of the header, without its first line."""
    with open(path, encoding="utf-8") as f:
        comment = re.findall(r"/\*(?:[^*]|\*(?!/))*\*/", f.read())[1]
    lines = words_of(comment).replace("\n - ", "\n- ").split("\n")
    # Each rule of the list becomes a paragraph; its continuation lines are not literal blocks.
    return "\n".join(re.sub(r"^- ", "\n", re.sub(r"^ {2}(?! )", "", line)) for line in lines[1:])


def declarations(text):
    """(comment, code) of each declaration in order, without forward declarations."""
    found = []
    for m in DECLARATION.finditer(text):
        code = m["code"].strip()
        if not re.match(r"(struct \w+|typedef struct \w+ \w+);$", code):
            found.append((words_of(m["comment"] or ""), code))
    return found


def words_of(comment):
    body = re.sub(r"^/\*+|\*/$", "", comment.strip()).strip("\n")
    body = body.replace("rules at the top", "rules in usdma_version(3)")
    return "\n".join(re.sub(r"^\s*\* ?", "", line) if line.lstrip().startswith("*") else line.strip() for line in body.split("\n")).strip()


def functions(text):
    return [m[2] for _, code in declarations(text) if (m := FUNCTION.match(code))]


def escape(text):
    text = text.replace("\\", "\\e").replace("…", "...").replace("→", "to")
    text = re.sub(r"(?<![\w-])-(?=[A-Z0-9])", r"\\-", text)
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def prose(comment):
    """Paragraphs; indented lines become literal blocks."""
    out, block = [], []

    def flush():
        if block:
            # mdoc: each sentence starts on a new line.
            text = re.sub(r"(?<=[^.\s][.])\s+(?=[A-Z*-])", "\n", " ".join(block))
            out.append(escape(text))
            block.clear()
    literal = False
    for line in comment.split("\n"):
        indented = line.startswith(("  ", "\t"))
        if indented != literal:
            flush()
            out += [".Bd -literal -offset indent"] if indented else [".Ed", ".Pp"]
            literal = indented
        if indented:
            out.append(escape(line.strip()))
        elif line.strip():
            block.append(line.strip())
        else:
            flush()
            if out and out[-1] != ".Pp":
                out.append(".Pp")
    flush()
    if literal:
        out.append(".Ed")
    return out[:-1] if out and out[-1] == ".Pp" else out


def arguments(text):
    text = " ".join(text.split())
    if text == "void":
        return ["void"]
    # The arguments of a function pointer are not split.
    return [a.strip() for a in re.split(r",(?![^()]*\))", text)]


def synopsis(code):
    ret, name, args = FUNCTION.match(code).groups()
    return [f".Ft {' '.join(ret.split())}", f".Fo {name}", *[f'.Fa "{a}"' for a in arguments(args)], ".Fc"]


def literal(code):
    return [".Bd -literal", *[escape(line.replace("\t", "        ")) for line in code.split("\n")], ".Ed"]


def describe(found):
    out, listing = [], False
    for comment, code in found:
        fn = FUNCTION.match(code)
        if fn and not listing:
            out.append(".Bl -tag -width indent")
        if not fn and listing:
            out.append(".El")
        if not fn and out and comment:
            out.append(".Pp")
        listing = bool(fn)
        if fn:
            out += [f".It Fn {fn[2]}", *prose(comment)]
        else:
            out += prose(comment) + literal(code)
    return out + ([".El"] if listing else [])


def page(group, path, text, others):
    header = path.split("/")[-1]
    found, names = declarations(text), functions(text)
    out = ['.\\" SPDX-License-Identifier: BSD-3-Clause', f'.\\" Made by docs/man/api.py from include/usdma/{header}',
           ".Dd November 21, 2026", f".Dt {names[0].upper()} 3", ".Os", ".Sh NAME"]
    out += [f".Nm {n} ," for n in names[:-1]] + [f".Nm {names[-1]}", f".Nd {ABOUT.get(group, group)}"]
    out += [".Sh SYNOPSIS", f".In usdma/{header}", ".Pp", "Compile and link with the output of", ".Ql pkg-config --cflags --libs usdma ."]
    for _, code in found:
        if FUNCTION.match(code):
            out += synopsis(code)
    out += [".Sh DESCRIPTION", *(prose(rules(path)) if header != "usdma.h" else []), *describe(found)]
    if group == "library":
        out += [".Sh RULES", "These hold for every call of", f".In usdma/{header} :", ".Pp", *prose(rules(path).split("\n", 2)[2])]
    out += [".Sh RETURN VALUES", "Calls that return an",
            ".Vt int", "return 0 (or a count, where they say so) or a negative errno; then", ".Fn usdma_error_text",
            "describes the cause and the remedy.", ".Sh ERRORS", "Beside those named above, any call can return:",
            ".Bl -tag -width Er"]
    for err, why in (("EBADF", "a handle is NULL, invalid, or already destroyed"),
                     ("EINVAL", "an argument is out of range, or a required pointer is NULL"),
                     ("ENODEV", "the device was lost: unplugged, its server died, or it hung"),
                     ("EPERM", "in a child (fork, _Fork, clone) of a process that had devices open")):
        out += [f".It Bq Er \\-{err}", why]
    out += [".El", ".Sh SEE ALSO"]
    refs = [f".Xr {n} 3" for n in sorted(others) if n != names[0]] + [".Xr usdma 7"]
    out += [r + " ," for r in refs[:-1]] + [refs[-1]]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--list":
        for _, _, text in groups(sys.argv[2:]):
            print(*functions(text))
        return 0
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    every = list(groups(sys.argv[3:]))
    others = [functions(text)[0] for _, _, text in every]
    for group, header, text in every:
        if functions(text)[0] == sys.argv[1]:
            with open(sys.argv[2], "w", encoding="utf-8") as f:
                f.write(page(group, header, text, others))
            return 0
    print(f"no group begins with {sys.argv[1]}", file=sys.stderr)
    return 1


sys.exit(main())
