# SPDX-License-Identifier: BSD-3-Clause
"""Every documented name exists, checks its arguments, and has a matching stub."""
import ast
import importlib
import os
import re
import types

import acl
import numpy
import pytest
from acl_names import RT, TOP, UTIL

STUBS = os.environ["ACL_STUBS"]
PARTS = {"": (acl, TOP, "__init__.pyi"), "rt": (acl.rt, RT, "rt.pyi"), "util": (acl.util, UTIL, "util.pyi")}
REFUSED = ["mdl", "op", "prof", "tdt", "media"]
EVERY = [(part, name) for part, (_, names, _) in PARTS.items() for name in names]


def stub(part):
    with open(os.path.join(STUBS, PARTS[part][2]), encoding="utf-8") as f:
        return {node.name: node.args for node in ast.parse(f.read()).body if isinstance(node, ast.FunctionDef)}


def full_name(part, name):
    return f"acl.{part}.{name}" if part else f"acl.{name}"


@pytest.mark.parametrize("part,name", EVERY)
def test_exists(part, name):
    function = getattr(PARTS[part][0], name)
    assert (function.__name__, function.__module__) == (name, full_name(part, name).rpartition(".")[0])


@pytest.mark.parametrize("part", PARTS)
def test_no_other_names(part):
    module, names, _ = PARTS[part]
    public = {n for n in dir(module) if not n.startswith("_")} - {"rt", "util", *REFUSED}
    assert public == set(names)
    assert not [n for n in public if not isinstance(getattr(module, n), types.BuiltinFunctionType)], "a constant"


@pytest.mark.parametrize("part", REFUSED)
def test_parts_without_devices_refuse(part):
    """What a program does with an answer: compares it, or takes two results; what it makes is no object."""
    module = importlib.import_module(f"acl.{part}")
    assert module.load_from_file("model") == 207000
    result, ret = module.load_from_file("model")
    assert (result, ret) == (0, 207000)
    assert module.create_desc() == 0
    with pytest.raises(AttributeError):
        module.__path__
    assert os.path.exists(os.path.join(STUBS, f"{part}.pyi"))


@pytest.mark.parametrize("part", PARTS)
def test_stubs_are_complete(part):
    assert set(stub(part)) == set(PARTS[part][1])


@pytest.mark.parametrize("part,name", EVERY)
def test_counts_arguments(part, name):
    args = stub(part)[name]
    function = getattr(PARTS[part][0], name)
    most, least = len(args.posonlyargs), len(args.posonlyargs) - len(args.defaults)
    wrong = [(most + 1, most)] + ([(least - 1, least)] if least else [])
    for count, wanted in wrong:
        how = "exactly" if least == most else "at least" if count < least else "at most"
        text = f"function takes {how} {wanted} argument{'s' if wanted != 1 else ''} ({count} given)"
        with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
            function(*[0] * count)
    with pytest.raises(TypeError, match=f"^{full_name(part, name)}.. takes no keyword arguments$"):
        function(*[0] * least, nonsense=1)


INTS = [(part, name) for part, name in EVERY if part == "rt" and stub(part)[name].posonlyargs
        and all(a.annotation.id == "int" for a in stub(part)[name].posonlyargs if isinstance(a.annotation, ast.Name))
        and all(isinstance(a.annotation, ast.Name) for a in stub(part)[name].posonlyargs)]


@pytest.mark.parametrize("part,name", INTS)
def test_expects_ints(part, name):
    function = getattr(acl.rt, name)
    args = stub(part)[name]
    count = len(args.posonlyargs) - len(args.defaults)
    for wrong in (None, "1", 1.0, b"1", [1], 1 << 64, -(1 << 64)):
        for at in range(count):
            values = [0] * count
            values[at] = wrong
            if isinstance(wrong, int):
                text = f"acl.rt.{name} args parse failed"
            else:
                kind = type(wrong).__name__
                shown = "None" if wrong is None else kind
                text = f"(argument {at + 1} must be int, not {shown}|'{kind}' object cannot be interpreted as an integer)"
            with pytest.raises(TypeError, match=f"^{text}$"):
                function(*values)


def test_accepts_index_types():
    class Index:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

    class Wrong:
        def __index__(self):
            raise ZeroDivisionError

    for value in (0, False, Index(0), numpy.uint64(0), numpy.int8(0)):
        assert acl.rt.memcpy(value, value, value, value, value) == 0
    for value in (Wrong(), Index(1 << 64), 1 << 31, -(1 << 31) - 1):
        with pytest.raises(TypeError, match="^acl.rt.memcpy args parse failed$"):
            acl.rt.memcpy(0, 0, 0, 0, value)
    with pytest.raises(TypeError, match="^acl.rt.memcpy args parse failed$"):
        acl.rt.memcpy(0, -1, 0, 0, 0)
    with pytest.raises(TypeError, match="^argument 1 must be str, not int$"):
        acl.rt.ipc_mem_close(1)


def test_unsupported_parts_give_the_reason():
    for part in ("blas", "himpi", "fv"):
        with pytest.raises(AttributeError, match="not supported"):
            getattr(acl, part)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        acl.nonsense


def test_parts_are_modules():
    import acl.rt
    import acl.util
    from acl.rt import memcpy_async

    assert acl.rt.memcpy_async is memcpy_async
