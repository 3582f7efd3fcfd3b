#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/style/includes.py sees arrows upward and circles.  Prints TAP."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import Points  # noqa: E402

CASES = [("a floor below", {"lib/core/new.cpp": "driver/base/new.h", "driver/base/new.h": ""}, ""),
         ("an arrow upward", {"driver/base/new.cpp": "lib/core/new.h", "lib/core/new.h": ""}, "driver/base/new includes lib/core/new: upward"),
         ("from an engine to a model", {"driver/sim/new.cpp": "driver/engines/new/a.h", "driver/engines/new/a.h": ""}, "upward"),
         ("from a model to an engine", {"driver/engines/edu/new.cpp": "driver/sim/new.h", "driver/sim/new.h": ""}, "do not know each other"),
         ("from an engine to another", {"driver/engines/sdma/new.cpp": "driver/engines/edu/new.h", "driver/engines/edu/new.h": ""},
          "do not know each other"),
         ("from a register map to an engine", {"driver/hw/new.h": "driver/engines/new/a.h", "driver/engines/new/a.h": ""}, "upward"),
         ("from an engine to a register map", {"driver/engines/edu/new.cpp": "driver/hw/new.h", "driver/hw/new.h": ""}, ""),
         ("from a model to a register map", {"driver/sim/new.cpp": "driver/hw/new.h", "driver/hw/new.h": ""}, ""),
         ("a folder of no floor", {"driver/new/a.cpp": "driver/base/new.h", "driver/base/new.h": ""}, "no folder of FLOORS"),
         ("a circle of header and source", {"lib/acl/a.h": "", "lib/acl/a.cpp": "lib/acl/b.h", "lib/acl/b.h": "lib/acl/a.h"},
          "a circle: lib/acl/a, lib/acl/b")]


def said_of(files):
    with tempfile.TemporaryDirectory() as where:
        for path, included in files.items():
            os.makedirs(os.path.dirname(os.path.join(where, path)), exist_ok=True)
            with open(os.path.join(where, path), "w", encoding="ascii") as f:
                f.write(f'#include "{included}"\n' if included else "")
        done = subprocess.run([sys.executable, os.path.join(TOP, "tests/style/includes.py"), where], capture_output=True, text=True, check=False)
        # The circles that are known are not in this tree, which is said.
        return [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("no circle any more")]


def main():
    to = Points()
    for name, files, wrong in CASES:
        said = said_of(files)
        to.add(len(said) == 1 and wrong in said[0] if wrong else not said, name, "\n".join(said))
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
