#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the definitions of the functions of refused.list, with the types of their declarations.

refused.py LIST HEADER...            definitions
refused.py --names LIST HEADER...    R(name, code) for each without checks of its own, for the tests; code: with zeros
"""
import os
import re
import sys

UNSUPPORTED, INVALID = 207000, 100000
# Pointers that the runtime accepts as NULL.
OPTIONAL = {'stream', 'trueStream', 'falseStream', 'taskStream', 'execStream', 'cfg', 'options', 'reserve', 'userData', 'userdata', 'args',
            'hostArgs', 'placeHolderArray', 'streams', 'tasks', 'paramOffset', 'paramSize', 'originFunc', 'currentFunc'}
POINTERS = re.compile(r'\*|^aclrt(Binary|BinHandle|FuncHandle|ArgsHandle|ParamHandle|Label|LabelList|Mbuf|DrvMemHandle|ApiFunc)$'
                      r'|^acltdtBuf$|^aclmdlRI(Task|CondHandle)?$|Call[Bb]ack$')


def groups(path):
    """(code, reason, {name: checks}) of each group."""
    code, reason, names = 0, None, {}
    with open(path, encoding='utf-8') as f:
        lines = [line.strip() for line in f if not line.startswith('#')]
    for line in lines + ['=']:
        name, colon, checks = line.partition(': ')
        if line.startswith('='):
            if names:
                yield code, reason, names
            number, reason = re.match(r'=\s*(\d{6})?\s*(.*)', line).groups()
            code, names = int(number or UNSUPPORTED), {}
        elif colon:
            names[name] = checks
        else:
            names |= {word: '' for word in line.split()}


def declarations(paths):
    """{name: (result, parameters)} as the headers have them."""
    found = {}
    for path in paths:
        with open(path, encoding='utf-8') as f:
            text = re.sub(r'/\*.*?\*/|^#[^\n]*$', ' ', f.read(), flags=re.S | re.M)
        for result, name, parameters in re.findall(r'ACL_FUNC_VISIBILITY\s+([^;(]*?)(\w+)\(([^;]*)\)\s*;', text):
            found[name] = ' '.join(result.split()), ' '.join(parameters.split())
    return found


def pointers(parameters):
    """The names of those that must not be NULL."""
    for one in re.split(r',(?![^()]*\))', parameters):
        function = re.search(r'\(\*(?:const )?(\w+)\)', one)
        kind, name = re.match(r'\s*(?:const )?(.*?)(\w*)\s*$', one).groups()
        name = function[1] if function else name
        if name not in OPTIONAL and (function or POINTERS.search(kind.replace('const', '').strip())):
            yield name


def statements(result, parameters, checks):
    """The checks of a function, each an if."""
    needed = ' && '.join(pointers(parameters)) if result in ('aclError', 'int32_t') else ''
    clauses = [c.strip() for c in checks.split(' | ') if c.strip()]
    for clause in clauses if '*' in clauses else ['*'] + clauses:
        code, condition = re.match(r'(\d+ )?(.*)', needed if clause == '*' else clause, re.S).groups()
        if clause.startswith('>'):
            yield f'if (const aclError err ={clause[1:]})\n\t\treturn err;'
        elif code == '0 ':
            yield f'if (!({condition}))\n\t\treturn ACL_SUCCESS;'
        elif condition:
            yield f'if (!({condition}))\n\t\treturn refuse_arguments(__func__, {code or INVALID}, "{condition}");'


def main():
    only_names = sys.argv[1] == '--names'
    path, *headers = sys.argv[1 + only_names:]
    declared = declarations(headers)
    all_names = [(code, reason, name, checks) for code, reason, names in groups(path) for name, checks in names.items()]
    unknown = [name for _, _, name, _ in all_names if name not in declared]
    if unknown:
        sys.exit(f'{path}: no header declares {" ".join(unknown)}')
    if only_names:
        for code, _, name, checks in all_names:
            if not checks:
                print(f'R({name}, {INVALID if list(statements(*declared[name], "")) else code}, {code})')
        return
    print('/* Made by refused.py of refused.list. */\n#include "lib/acl/refused.h"\n')
    for header in headers:
        print(f'#include "acl/{os.path.basename(header)}"')
    print('\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n\nusing namespace usdma::acl;\n\nextern "C" {')
    for code, reason, name, checks in all_names:
        result, parameters = declared[name]
        body = [*statements(result, parameters, checks), f'return refuse<{result}>(__func__, {code}, "{reason}");']
        print(f'\n{result} {name}({parameters})\n{{\n\t' + '\n\t'.join(body) + '\n}')
    print('\n} // extern "C"')


main()
