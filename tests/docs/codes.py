#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Each code that a comment of include/acl names for a call has a test: code and call are in one statement of a test's source (a
ROW of tests/unit/acl is one), or in ELSEWHERE with the test function that checks it.  TAP, a point for each header.
"""
import glob
import os
import re
import sys

sys.dont_write_bytecode = True
from pages import TOP, point, points, read  # noqa: E402
from promises import all_tests, is_in  # noqa: E402

# Call and code are not in one statement: a helper of the test calls it, or another call returns the code.
ELSEWHERE = {
    ("aclrtCreateEvent", "207007"): "acl-codes: test_all_events",
    ("aclrtCreateEventWithFlag", "207007"): "acl-codes: test_all_events",
    ("aclrtCreateStream", "207008"): "acl-codes: test_all_streams",
    ("aclrtCreateStreamWithConfig", "207008"): "acl-codes: test_all_streams",
    ("aclrtCreateStreamV2", "207008"): "acl-codes: test_all_streams",
    ("aclrtDeviceEnablePeerAccess", "507899"): "acl-ops: test_two_devices_apart",
    ("aclrtIpcMemImportByKey", "207000"): "core-share: another_pid_namespace",
    ("aclrtLaunchHostFunc", "207000"): "own-wait: acl_host_function",
    ("aclrtSetDeviceTaskAbortCallback", "507000"): "acl-codes: test_abort_callback_fails",
    ("aclrtStreamAbort", "107023"): "acl-misuse-objects: test_streams",
    ("aclrtWaitAndResetNotify", "107020"): "acl-misuse-objects: test_words_and_notifies",
}
CODE = r"\b[1-5]\d{5}\b"


def tested():
    """{call: codes} in the tests' statements."""
    found = {}
    for kind in ("cpp", "c", "py"):
        for path in glob.glob(os.path.join(TOP, "tests", "**", "*." + kind), recursive=True):
            if path == os.path.abspath(__file__):
                continue
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for statement in re.split(r";|(?=\b(?:ROW|ALONE)\()", text):
                for call in re.findall(r"\b((?:acl|rt)\w+)\(", statement):
                    found.setdefault(call, set()).update(re.findall(CODE, statement))
    return found


def named(header):
    """(call, code) for each declaration and the comment before it."""
    for comment, call in re.findall(r"(/\*(?:(?!\*/).)*\*/)\s*ACL_FUNC_VISIBILITY\s[^;(]*?\b(\w+)\(", read(header), re.S):
        for code in sorted(set(re.findall(CODE, comment))):
            yield call, code


def wrong_in(header, tests, found):
    for call, code in named(header):
        if code in found.get(call, ()):
            continue
        name, _, function = ELSEWHERE.get((call, code), "").partition(": ")
        if not any(is_in(function, read(s)) for s in tests.get(name, [])):
            yield f"{call}: no test checks its code {code}"


def unused(headers, found):
    """Entries of ELSEWHERE that are not needed."""
    wanted = {pair for h in headers for pair in named(h)}
    for call, code in ELSEWHERE:
        if (call, code) not in wanted or code in found.get(call, ()):
            yield f"ELSEWHERE: {call} {code} is not needed"


def main():
    tests, found = all_tests(), tested()
    headers = sorted(os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, "include/acl/*.h")))
    pairs = sum(len(list(named(h))) for h in headers)

    point(f"there are codes in the headers ({pairs})", [] if pairs > 400 else ["fewer than 400 were found"])
    for header in headers:
        if any(named(header)):
            point(f"each code of {header} has its test", list(wrong_in(header, tests, found)))
    point("each entry of ELSEWHERE is needed", list(unused(headers, found)))
    return points.end()


if __name__ == "__main__":
    sys.exit(main())
