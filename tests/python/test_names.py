# SPDX-License-Identifier: BSD-3-Clause
"""Every name is there, says no to what it cannot take, and has a stub that fits."""
import ast
import os
import types

import acl
import pytest
from acl_names import RT, TOP, UTIL

STUBS = os.environ["ACL_STUBS"]
PARTS = {"": (acl, TOP, "__init__.pyi"), "rt": (acl.rt, RT, "rt.pyi"), "util": (acl.util, UTIL, "util.pyi")}
EVERY = [(part, name) for part, (_, names, _) in PARTS.items() for name in names]


def stub(part):
    with open(os.path.join(STUBS, PARTS[part][2]), encoding="utf-8") as f:
        return {node.name: node.args for node in ast.parse(f.read()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("part,name", EVERY)
def test_there(part, name):
    assert callable(getattr(PARTS[part][0], name))


@pytest.mark.parametrize("part", PARTS)
def test_nothing_else(part):
    module, names, _ = PARTS[part]
    public = {n for n in dir(module) if not n.startswith("_")} - {"rt", "util"}
    assert public == set(names)
    assert not [n for n in public if not isinstance(getattr(module, n), types.BuiltinFunctionType)], "a constant"


@pytest.mark.parametrize("part", PARTS)
def test_stubs_are_complete(part):
    assert set(stub(part)) == set(PARTS[part][1])


@pytest.mark.parametrize("part,name", EVERY)
def test_counts_arguments(part, name):
    args = stub(part)[name]
    function = getattr(PARTS[part][0], name)
    most, least = len(args.posonlyargs), len(args.posonlyargs) - len(args.defaults)
    wrong = [most + 1] + ([least - 1] if least else [])
    full = f"acl.{part}.{name}" if part else f"acl.{name}"
    for count in wrong:
        with pytest.raises(TypeError, match=f"^{full} args parse failed$"):
            function(*[0] * count)
    with pytest.raises(TypeError, match=f"^{full} args parse failed$"):
        function(*[0] * least, nonsense=1)


INTS = [(part, name) for part, name in EVERY if part == "rt" and stub(part)[name].posonlyargs
        and all(a.annotation.id == "int" for a in stub(part)[name].posonlyargs if isinstance(a.annotation, ast.Name))
        and all(isinstance(a.annotation, ast.Name) for a in stub(part)[name].posonlyargs)]


@pytest.mark.parametrize("part,name", INTS)
def test_wants_ints(part, name):
    function = getattr(acl.rt, name)
    args = stub(part)[name]
    count = len(args.posonlyargs) - len(args.defaults)
    for wrong in (None, "1", 1.0, b"1", [1], 1 << 64, -(1 << 64)):
        for at in range(count):
            values = [0] * count
            values[at] = wrong
            with pytest.raises(TypeError, match=f"^acl.rt.{name} args parse failed$"):
                function(*values)


def test_other_parts_say_why():
    for part in ("mdl", "op", "media", "blas", "prof", "himpi", "fv"):
        with pytest.raises(AttributeError, match="not supported"):
            getattr(acl, part)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        acl.nonsense


def test_parts_are_modules():
    import acl.rt
    import acl.util
    from acl.rt import memcpy_async

    assert acl.rt.memcpy_async is memcpy_async
