#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the definitions of the functions of refused.list, with the types of their declarations.

refused.py LIST HEADER...            definitions
refused.py --names LIST HEADER...    R(name) for each, for the tests
"""
import os
import re
import sys


def groups(path):
    """(reason, names) of each group."""
    reason, names = None, []
    with open(path, encoding='utf-8') as f:
        lines = [line.strip() for line in f if not line.startswith('#')]
    for line in lines + ['=']:
        if line.startswith('='):
            if names:
                yield reason, names
            reason, names = line[1:].strip(), []
        else:
            names += line.split()


def declarations(paths):
    """{name: (result, parameters)} as the headers have them."""
    found = {}
    for path in paths:
        with open(path, encoding='utf-8') as f:
            text = re.sub(r'/\*.*?\*/|^#[^\n]*$', ' ', f.read(), flags=re.S | re.M)
        for result, name, parameters in re.findall(r'ACL_FUNC_VISIBILITY\s+([^;(]*?)(\w+)\(([^;]*)\)\s*;', text):
            found[name] = ' '.join(result.split()), ' '.join(parameters.split())
    return found


def main():
    only_names = sys.argv[1] == '--names'
    path, *headers = sys.argv[1 + only_names:]
    declared = declarations(headers)
    unknown = [name for _, names in groups(path) for name in names if name not in declared]
    if unknown:
        sys.exit(f'{path}: no header declares {" ".join(unknown)}')
    if only_names:
        print('\n'.join(f'R({name})' for _, names in groups(path) for name in names))
        return
    print('/* Made by refused.py of refused.list. */\n#include "lib/acl/refused.h"\n')
    for header in headers:
        print(f'#include "acl/{os.path.basename(header)}"')
    print('\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n\nextern "C" {')
    for reason, names in groups(path):
        for name in names:
            result, parameters = declared[name]
            print(f'\n{result} {name}({parameters})\n{{\n\treturn usdma::acl::refuse<{result}>(__func__, "{reason}");\n}}')
    print('\n} // extern "C"')


main()
