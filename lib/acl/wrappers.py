#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Makes the wrappers of the calls that a setting may refuse (profile.h).

wrappers.py names  HEADER...    a header for the library's sources: it renames the implementations, usdma_impl_CALL
wrappers.py source HEADER...    the exported functions: they refuse, or go to the implementation; and the table of names
wrappers.py list   HEADER...    N(CALL) for each wrapper, for a test
"""
import re
import sys

# Parts of the fast path: they have no wrapper, and refuse in their slow path.
HOT = {"aclrtMemcpyAsync", "aclrtMemcpyAsyncWithCondition", "aclrtMemcpyBatchAsync", "aclrtMemcpyBatchAsyncV2"}
# Every product and driver has these.
ALWAYS = {"aclInit", "aclFinalize", "aclFinalizeReference", "aclrtSetDevice", "aclrtStreamQuery", "aclrtSynchronizeStream",
          "aclrtRecordEvent", "aclrtStreamWaitEvent", "aclrtQueryEventStatus", "aclrtSynchronizeEvent"}


def declared(paths):
    """(name, parameters) of each function that returns an aclError."""
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
        text = re.sub(r"^#.*$", "", text.replace("\\\n", " "), flags=re.M)
        for statement in text.split(";"):
            words = " ".join(statement.partition("ACL_FUNC_VISIBILITY")[2].split())
            found = re.match(r"aclError (acl\w+)\((.*)\)", words)
            if found and "..." not in found[2]:
                yield found[1], found[2]


def arguments(parameters):
    for one in re.split(r",(?![^()]*\))", parameters):
        if one.strip() != "void":
            yield re.search(r"\(\*(?:const )?(\w+)\)|(\w+)\s*(?:\[\w*\])?\s*$", one).group(1, 2)


def names(calls):
    for name in sorted(calls.keys() - HOT):
        print(f"#pragma redefine_extname {name} usdma_impl_{name}")


def wrapper(name, parameters, index):
    passed = ", ".join(a or b for a, b in arguments(parameters))
    print(f"[[gnu::visibility(\"hidden\")]] aclError usdma_impl_{name}({parameters});\n"
          f"aclError {name}({parameters})\n{{\n"
          f"\treturn unlikely(load_relaxed(&call_refused[{index}])) ?\n"
          f"\t\tcall_unless_refused<{index}, usdma_impl_{name}>({passed}) : usdma_impl_{name}({passed});\n}}\n")


def source(calls, paths):
    for path in paths:
        print(f"#include \"{path[path.rindex('/acl/') + 1:]}\"")
    table = sorted(calls)
    print("#include \"lib/acl/profile.h\"\n\nnamespace usdma::acl {\n\nconst wrapped_call wrapped_calls[] = {")
    for name in table:
        print(f"\t{{\"{name}\", {'true' if name in HOT else 'false'}}},")
    print(f"}};\nconst unsigned wrapped_count = {len(table)};\nu8 call_refused[] = {{{', '.join(['undecided'] * len(table))}}};\n\n}} // namespace usdma::acl\n\n"
          "using namespace usdma;\nusing namespace usdma::acl;\n\nextern \"C\" {\n")
    for index, name in enumerate(table):
        if name not in HOT:
            wrapper(name, calls[name], index)
    print("} // extern \"C\"")


def main():
    calls = {name: parameters for name, parameters in declared(sys.argv[2:]) if name not in ALWAYS}
    if sys.argv[1] == "names":
        names(calls)
    elif sys.argv[1] == "list":
        print("\n".join(f"N({name})" for name in sorted(calls.keys() - HOT)))
    else:
        source(calls, sys.argv[2:])


main()
