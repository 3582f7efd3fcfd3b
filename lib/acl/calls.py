#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the definitions of the functions of refused.list and calls.list, with the types of their declarations.

calls.py refused LIST HEADER...    the functions of refused.list
calls.py names LIST HEADER...      R(name, code) for each of these without checks of its own, for the tests; code: with zeros
calls.py FILE LIST HEADER...       the functions of one file's section in calls.list, which that file includes; and those of its
                                   section "refused"
calls.py rt LIST HEADER...         the functions of rt.list
calls.py forms SECTION LIST HEADER...    the functions of a section of a list of forms, lib/hcomm/calls.list
calls.py aliases LIST              A(NAME, FUNCTION) for each of these over one of ACL, for the tests
"""
import os
import re
import sys

UNSUPPORTED, INVALID = 207000, 100000
RT_INVALID, NN_NULL = 107000, 161001  # of the layer below ACL, of descriptions for operators
# Pointers that the runtime accepts as NULL.
OPTIONAL = {'stream', 'trueStream', 'falseStream', 'taskStream', 'execStream', 'cfg', 'options', 'reserve', 'userData', 'userdata', 'args',
            'hostArgs', 'placeHolderArray', 'smDesc', 'kernelInfo', 'kernelInfoExt', 'cfgInfo', 'optionalCfg', 'streams', 'tasks', 'paramOffset', 'paramSize', 'originFunc', 'currentFunc', 'userTag'}
POINTERS = re.compile(r'\*|^aclrt(Binary|BinHandle|FuncHandle|ArgsHandle|ParamHandle|Label|LabelList|Mbuf|DrvMemHandle|ApiFunc)$'
                      r'|^acltdtBuf$|^aclmdlRI(Task|CondHandle)?$|Call[Bb]ack$')
# What calls.list has words for: what holds the argument during the call.
HELD = {'stream': ('stream_guard s', 'get_any_stream', 's'), 'own': ('stream_guard s', 'get_stream', 's'),
        'alone': ('stream_guard s', 'get_stream_alone', 's'), 'event': ('event_guard e', 'get_event', 'e'),
        'model': ('model_guard m', 'get_model', 'm'), 'pool': ('pool_guard p', 'get_pool', 'p'),
        'physical': ('physical_guard p', 'get_physical', 'p')}


def groups(path):
    """(code, reason, {name: checks}) of each group of refused.list."""
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


def section(path, file):
    """(name, checks, statement) of each function of the file in calls.list."""
    with open(path, encoding='utf-8') as f:
        text = re.sub(r'\n[ \t]+', ' ', ''.join(line for line in f if not line.startswith('#')))
    for line in re.search(rf'^\[{file}\]\n(.*?)(?=^\[|\Z)', text, re.S | re.M)[1].splitlines():
        if line:
            name, checks, statement = re.match(r'(\w+):(.*?)\s*=>\s*(.*)', line).groups()
            yield name, checks.strip(), statement


def refused_section(path):
    with open(path, encoding='utf-8') as f:
        found = re.search(r'^\[refused\]\n(.*?)(?=^\[|\Z)', f.read(), re.S | re.M)
    return found[1].split() if found else []


def over_acl(path):
    """(name, checks, expression, its function of ACL or None) of each row of rt.list."""
    with open(path, encoding='utf-8') as f:
        text = re.sub(r'\n[ \t]+', ' ', ''.join(line for line in f if not line.startswith('#')))
    for line in filter(None, text.splitlines()):
        name, checks, expression = re.match(r'(\w+)(?:: (.*?))? = (.*)', line).groups()
        function = re.search(r'\b(acl[a-z]\w+)(\(|$)', expression)
        yield name, checks or '', expression, function and function[1]


def declarations(paths):
    """{name: (result, parameters)} as the headers have them."""
    found = {}
    for path in paths:
        with open(path, encoding='utf-8') as f:
            text = re.sub(r'/\*.*?\*/|^#[^\n]*$', ' ', f.read(), flags=re.S | re.M)
        for result, name, parameters in re.findall(r'(?:ACL_FUNC_VISIBILITY|(?:USDMA_\w+|HCCL|HCOMM)_API)\s+([^;(]*?)(\w+)\(([^;]*)\)\s*;', text):
            found[name] = ' '.join(result.split()), ' '.join(parameters.split())
    return found


def arguments(parameters):
    """(type, name, is a function) of each."""
    for one in re.split(r',(?![^()]*\))', parameters):
        function = re.search(r'\(\*(?:const )?(\w+)\)', one)
        kind, name = re.match(r'\s*(?:const )?(.*?)(\w*)(?:\[\w*\])?\s*$', one).groups()
        yield kind, function[1] if function else name, function


def pointers(parameters):
    """The names of those that must not be NULL."""
    for kind, name, function in arguments(parameters):
        if name not in OPTIONAL and (function or POINTERS.search(kind.replace('const', '').strip())):
            yield name


def returned(code, text):
    """The call that reports a code."""
    name = {INVALID: 'bad_arg(__func__', UNSUPPORTED: 'unsupported(__func__'}.get(code, f'fault(__func__, {code}')
    return f'return {name}, {text});'


def fails(condition, result):
    return f'if (!({condition}))\n\t\t{result}'


def invalid(result):
    return {'rtError_t': RT_INVALID, 'aclnnStatus': NN_NULL}.get(result, INVALID)


def statements(result, parameters, checks):
    """The checks of a function, each an if."""
    clauses = [c.strip() for c in checks.split(' | ') if c.strip()]
    may_be_null = {word for c in clauses if c.startswith('NULL ') for word in c.split()}
    names = [n for n in pointers(parameters) if n not in may_be_null] if result in ('aclError', 'rtError_t', 'aclnnStatus') else []
    for clause in clauses:
        word, _, rest = clause.partition(' ')
        code, condition, text = re.match(r'(\d+ )?(.*?)( ".*)?$', clause, re.S).groups()
        if word == '*' and names:
            yield fails(' && '.join(names), returned(invalid(result), f'"{", ".join(names[:-1])}{" or " * (len(names) > 1)}{names[-1]} is NULL"'))
        elif word == '>':
            yield f'if (const aclError err = {rest})\n\t\treturn err;'
        elif word == 'let':
            yield rest + ';'
        elif word in ('context', 'ctx') and not rest:
            yield 'const context_guard c;' if word == 'ctx' else ''
            yield fails('c' if word == 'ctx' else 'has_context()', 'return no_context(__func__);')
        elif word == 'slot':
            yield f'const int slot = slot_of({rest});\n\tif (slot < 0)\n\t\treturn no_device(__func__, {rest});'
        elif word == 'devices':
            for one in rest.split():
                yield f'if (slot_of({one}) < 0)\n\t\treturn no_device(__func__, {one});'
        elif word in HELD and re.fullmatch(r'\w+', rest):
            guard, get, held = HELD[word]
            yield f'{guard};\n\tif (const aclError err = {get}(__func__, {rest}, &{held}))\n\t\treturn err;'
        elif code == '0 ':
            yield fails(condition, 'return ACL_SUCCESS;')
        elif word not in ('*', 'NULL'):
            yield fails(condition, returned(int(code or invalid(result)), text.strip() if text else f'"an argument is NULL or invalid: not ({condition})"'))


def refused_checks(checks):
    """Arguments are checked first, in any case."""
    clauses = checks.split(' | ')
    return checks if '*' in clauses else ' | '.join(['*', *clauses])


def define(declared, name, body):
    result, parameters = declared[name]
    print(f'\n{result} {name}({parameters})\n{{\n\t' + '\n\t'.join(part for part in body if part) + '\n}')


def print_refused(declared, rows, headers):
    print('/* Made by calls.py of refused.list. */\n#include "lib/acl/refused.h"\n')
    for header in headers:
        print(f'#include "{"/".join(os.path.normpath(header).split(os.sep)[-2:])}"')
    print('\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n\nusing namespace usdma::acl;\n\nextern "C" {')
    for code, reason, name, checks in rows:
        end = f'return refuse<{declared[name][0]}>(__func__, {code}, "{reason}");'
        define(declared, name, [*statements(*declared[name], refused_checks(checks)), end])
    print('\n} // extern "C"')


def print_section(declared, path, file):
    print('/* Made by calls.py of calls.list. */\n#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n\nextern "C" {')
    for name, checks, statement in section(path, file):
        end = statement if statement.startswith('return') else statement + ';\n\treturn ACL_SUCCESS'
        define(declared, name, [*statements(*declared[name], checks), end + ';'])
    for name in refused_section(path):
        if name in declared:
            define(declared, name, ['return not_supported;'])
    print('\n} // extern "C"\n\n#pragma GCC diagnostic pop')


def print_over_acl(declared, path):
    print('/* Made by calls.py of rt.list. */\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n\nextern "C" {')
    for name, checks, expression, _ in over_acl(path):
        result, parameters = declared[name]
        if re.fullmatch(r'acl[a-zA-Z]\w+', expression):
            expression += f'({", ".join(n for _, n, _ in arguments(parameters) if n != "void")})'
        define(declared, name, [*statements(result, parameters, refused_checks(checks)), f'return as_runtime({expression});'])
    print('\n} // extern "C"')


def print_forms(declared, path, wanted):
    with open(path, encoding='utf-8') as f:
        lines = re.sub(r'\n[ \t]+', ' ', ''.join(line for line in f if not line.startswith('#'))).splitlines()
    forms, inside = {}, None
    print('/* Made by calls.py of a list of forms. */\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n\nextern "C" {')
    for line in filter(None, lines):
        if line.startswith('['):
            inside = line[1:-1]
        elif not inside:
            forms.update([line.split(' := ')])
        elif inside == wanted:
            name, form, expression = (line.split(' ', 2) + [''])[:3]
            define(declared, name, [f'return {forms[form].replace("$", expression)};'])
    print('\n} // extern "C"')


def main():
    what, path, *headers = sys.argv[1:]
    if what == 'forms':
        return print_forms(declarations(headers[1:]), headers[0], path)
    declared = declarations(headers)
    if what == 'aliases':
        print('\n'.join(f'A({name}, {function})' for name, _, _, function in over_acl(path) if function))
        return None
    if what == 'rt':
        return print_over_acl(declared, path)
    if what not in ('refused', 'names'):
        return print_section(declared, path, what)
    rows = [(code, reason, name, checks) for code, reason, names in groups(path) for name, checks in names.items()]
    unknown = [name for _, _, name, _ in rows if name not in declared]
    if unknown:
        sys.exit(f'{path}: no header declares {" ".join(unknown)}')
    if what == 'refused':
        return print_refused(declared, rows, headers)
    for code, _, name, checks in rows:
        if not checks:
            print(f'R({name}, {invalid(declared[name][0]) if list(statements(*declared[name], "*")) else code}, {code})')


main()
