#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints what functions.list describes: functions.py cpp LIST, or the stub of a part (acl, rt, util): functions.py PART LIST."""
import re
import sys

TYPES = {'': 'int', 'str': 'str', 'float': 'float', 'bytes': 'bytes', 'dict': 'Dict[str, Any]', 'ints_by_name': 'Dict[str, int]', 'none': 'None',
         'dicts': 'Sequence[Dict[str, Any]]', 'out_dicts': 'List[Dict[str, Any]]', 'ints': 'Sequence[int]', 'any': 'Any',
         'optional': 'Optional[str]', 'fn': 'Callable[[Any], object]', 'fn_or_none': 'Optional[Callable[[int], object]]',
         'any_fn': 'Callable[..., object]', 'array': 'numpy.ndarray', 'shape': 'Tuple[int, ...]'}


def rows(path):
    """(part, results, name, arguments, how) of each function."""
    with open(path, encoding='utf-8') as f:
        for line in f:
            if line.startswith('['):
                part = line[1:line.index(']')]
            elif not line.startswith('#') and line.strip():
                yield part, *re.fullmatch(r'(.*?) = (\w+)\((.*)\) => (.*)\n', line).groups()


def typed(text):
    """(name, type, optional) of each of a list of results or arguments."""
    for bracket, name, kind in re.findall(r'(\[?)(?:, )?(\w+)(?::(\w+))?', text):
        yield name, TYPES[kind], bool(bracket)


def plain(text):
    return re.sub(r':\w+', '', text)


def call(how):
    words = how.split()
    if words[0] == 'own':
        return f'own<{words[1]}>()'
    quick = words[0] == '-'
    return f'c_call<{", ".join([words[quick], str(quick).lower(), *words[1 + quick:]])}>()'


def stub(results, name, arguments):
    types = [kind for _, kind, _ in typed(results)]
    given = [f'{arg}: {kind}' + ' = ...' * optional for arg, kind, optional in typed(arguments)]
    result = f'Tuple[{", ".join(types)}]' if len(types) > 1 else types[0]
    return f'def {name}({", ".join([*given, "/"] if given else [])}) -> {result}: ...'


def main():
    what, path = sys.argv[1:]
    table = list(rows(path))
    if what == 'cpp':
        print('/* Made by functions.py of functions.list. */\n#include "lib/python/acl/own.h"\n\nnamespace pyacl {\n')
        print('void add_functions(py::module_ &acl, py::module_ &rt, py::module_ &util)\n{')
        for number, (part, results, name, arguments, how) in enumerate(table):
            doc = f'{name}({plain(arguments)})' if ':none' in results else f'{plain(results)} = {name}({plain(arguments)})'
            print(f'\tdef<{number}>({part}, "{name}", "{doc}", {call(how)});')
        print('}\n\n} // namespace pyacl')
        return
    print('# SPDX-License-Identifier: BSD-3-Clause')
    if what not in ('acl', 'rt', 'util'):  # each of its functions answers 207000
        print('from typing import Any\n\ndef __getattr__(name: str) -> Any: ...')
        return
    print('from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple\n')
    if what == 'acl':
        print('from . import media as media, mdl as mdl, op as op, prof as prof, rt as rt, tdt as tdt, util as util\n')
    if what == 'util':
        print('import numpy\n')
    for part, results, name, arguments, _ in sorted(table, key=lambda row: row[2]):
        if part == what:
            print(stub(results, name, arguments))


main()
