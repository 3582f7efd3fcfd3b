#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints N(name) for each function that the given headers declare."""
import re
import sys

names = []
for path in sys.argv[1:]:
    text = re.sub(r'/\*.*?\*/', ' ', open(path, encoding='utf-8').read(), flags=re.S)
    text = re.sub(r'^#.*$', '', text, flags=re.M)
    for statement in text.split(';'):
        if 'ACL_FUNC_VISIBILITY' in statement:
            names.append(re.search(r'(\w+)\s*\(', statement.split('ACL_FUNC_VISIBILITY')[1]).group(1))
print('\n'.join('N(%s)' % n for n in sorted(set(names))))
