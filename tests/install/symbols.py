#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a library exports: exactly what its headers declare.  TAP.

symbols.py LIBRARY --public NODE=REGEX --headers FILE... [--private NODE=REGEX] [--map FILE]

NODE is a regular expression, too. With --map the version script names each function that the headers declare, and no other.
"""
import argparse
import re
import subprocess
import sys


def exported(library):
    """{name: version node} of defined dynamic symbols."""
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True, text=True,
                         check=True)
    symbols = {}
    for line in out.stdout.splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            plain, _, node = name.partition("@")
            symbols[plain] = node.lstrip("@")
    return symbols


def declared(headers, pattern):
    text = "".join(open(h).read() for h in headers)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M)
    inline = set(re.findall(r"\binline\b[^;{(]*?\b(\w+)\s*\(", text))
    return {name for name in re.findall(r"\b(\w+)\s*\(", text) if re.fullmatch(pattern, name)} - inline


def in_map(script, node):
    """The names that a version script lists in the nodes that match, with their patterns."""
    text = re.sub(r"/\*.*?\*/", "", open(script).read(), flags=re.S)
    listed = [body.partition("local:")[0].replace("global:", "") for name, body in re.findall(r"(\S+)\s*\{(.*?)\}", text, re.S)
              if re.fullmatch(node, name)]
    return {name for body in listed for name in re.findall(r"[^\s;]+", body)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--public", required=True)
    parser.add_argument("--private", default="")
    parser.add_argument("--map")
    parser.add_argument("--headers", nargs="+", required=True)
    args = parser.parse_args()
    node, _, pattern = args.public.partition("=")
    private_node, _, private = args.private.partition("=")
    have, want = exported(args.library), declared(args.headers, pattern)
    public = {s for s, n in have.items() if re.fullmatch(node, n)}
    stray = {s for s, n in have.items() if s not in public and not (private and re.fullmatch(private_node, n) and re.match(private, s))}
    checks = [("the headers declare functions", set() if want else {"none found"}),
              ("each declared function is exported", want - public),
              ("nothing public that no header declares", public - want),
              ("nothing exported by accident", stray)]
    if args.map:
        listed = in_map(args.map, node)
        checks += [("the map names each declared function", want - listed), ("the map names nothing else", listed - want)]
    print(f"1..{len(checks)}")
    for n, (name, wrong) in enumerate(checks, 1):
        print(f"{'not ok' if wrong else 'ok'} {n} - {name}")
        for symbol in sorted(wrong):
            print(f"{name}: {symbol}", file=sys.stderr)
    return 1 if any(wrong for _, wrong in checks) else 0


sys.exit(main())
