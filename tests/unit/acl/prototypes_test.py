#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the prototypes of the headers of the runtime and the driver are those of prototypes.list.  TAP.

prototypes_test.py LIST HEADER...
"""
import re
import sys

SHORT = {'aclError': 'e', 'drvError_t': 'd', 'void': 'v', 'char': 'c', 'size_t': 'z', 'rtError_t': 'r', 'float': 'f', 'float32_t': 'f', 'char_t': 'c', 'uint16_t': 'u16', 'int8_t': 'i8', 'int32_t': 'i32', 'uint32_t': 'u32', 'int64_t': 'i64', 'uint64_t': 'u64'}


def short(text, named):
    """A type as the list has it. const counts for what is pointed to only; named: with a parameter's name."""
    text = re.sub(r'\*\s*const\b', '*', text)
    stars = text.count('*') + text.count('[')
    words = re.sub(r'\*|\[\w*\]|\b(struct|enum)\b|(?<=unsigned )int\b', ' ', text).split()
    const = 'const' in words and stars
    words = [word for word in words if word != 'const']
    return 'K' * bool(const) + SHORT.get(words[0], words[0]) + '*' * stars if len(words) == 1 + named else f'?{text}'


def declared(paths):
    """{name: prototype} of the headers."""
    found = {}
    for path in paths:
        with open(path, encoding='utf-8') as f:
            text = re.sub(r'/\*.*?\*/|^#[^\n]*$', ' ', f.read(), flags=re.S | re.M)
        for result, name, parameters in re.findall(r'(?:ACL_FUNC_VISIBILITY|USDMA_\w+_API)\s+([^;(]*?)(\w+)\(([^;]*)\)\s*;', text):
            some = [p for p in parameters.split(',') if p.strip() != 'void']
            found[name] = f'{short(result, 0)}({",".join(short(p, 1) for p in some)})'
    return found


def listed(path):
    with open(path, encoding='utf-8') as f:
        text = re.sub(r'\n +', ' ', ''.join(line for line in f if not line.startswith('#')))
    for line in text.splitlines():
        prototype, names = re.fullmatch(r'(.*?\)): +(.*)', line).groups()
        for name in names.split():
            yield name, prototype


def main():
    have, want = declared(sys.argv[2:]), dict(listed(sys.argv[1]))
    wrong = [f'{name}: {have.get(name, "not declared")}, official {prototype}' for name, prototype in want.items() if have.get(name) != prototype]
    print('1..1')
    print(f'{"not " * bool(wrong or len(want) < 427)}ok 1 - {len(want)} prototypes, {len(wrong)} differences')
    print(''.join(f'# {line}\n' for line in wrong), end='')
    return bool(wrong)


sys.exit(main())
