#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/style/includes.py detects includes of a higher layer, cycles and missing includes.  Prints TAP."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/support"))
from tap import Points  # noqa: E402

DECLARES, CALLS = "int do_it(int n);\n", "static int f()\n{\n\treturn do_it(1);\n}\n"
# An include, or the text in a tuple.
CASES = [("a lower layer", {"lib/core/new.cpp": "driver/base/new.h", "driver/base/new.h": ""}, ""),
         ("a higher layer", {"driver/base/new.cpp": "lib/core/new.h", "lib/core/new.h": ""}, "driver/base/new includes lib/core/new: a higher layer"),
         ("from an engine to a model", {"driver/sim/new.cpp": "driver/engines/new/a.h", "driver/engines/new/a.h": ""}, "a higher layer"),
         ("from a model to an engine", {"driver/engines/edu/new.cpp": "driver/sim/new.h", "driver/sim/new.h": ""}, "do not include each other"),
         ("from an engine to another", {"driver/engines/sdma/new.cpp": "driver/engines/edu/new.h", "driver/engines/edu/new.h": ""},
          "do not include each other"),
         ("from a register map to an engine", {"driver/hw/new.h": "driver/engines/new/a.h", "driver/engines/new/a.h": ""}, "a higher layer"),
         ("from an engine to a register map", {"driver/engines/edu/new.cpp": "driver/hw/new.h", "driver/hw/new.h": ""}, ""),
         ("from a model to a register map", {"driver/sim/new.cpp": "driver/hw/new.h", "driver/hw/new.h": ""}, ""),
         ("a folder without a layer", {"driver/new/a.cpp": "driver/base/new.h", "driver/base/new.h": ""}, "no folder of LAYERS"),
         ("a call without its header", {"lib/acl/a.cpp": "lib/acl/b.h", "lib/acl/b.h": "", "lib/acl/c.h": (DECLARES,), "lib/acl/d.cpp": (CALLS,)},
          "lib/acl/d.cpp calls do_it(), and does not include lib/acl/c.h"),
         ("a call with its header", {"lib/acl/a.cpp": ('#include "lib/acl/b.h"\n' + CALLS,), "lib/acl/b.h": "lib/acl/c.h", "lib/acl/c.h": (DECLARES,)}, ""),
         ("a cycle of headers and sources", {"lib/acl/a.h": "", "lib/acl/a.cpp": "lib/acl/b.h", "lib/acl/b.h": "lib/acl/a.h"},
          "a cycle: lib/acl/a, lib/acl/b")]


def output_of(files):
    with tempfile.TemporaryDirectory() as where:
        for path, included in files.items():
            os.makedirs(os.path.dirname(os.path.join(where, path)), exist_ok=True)
            with open(os.path.join(where, path), "w", encoding="ascii") as f:
                f.write(included[0] if isinstance(included, tuple) else f'#include "{included}"\n' if included else "")
        done = subprocess.run([sys.executable, os.path.join(TOP, "tests/style/includes.py"), where], capture_output=True, text=True, check=False)
        # The accepted cycles are not in this tree, which is reported.
        return [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("no longer a cycle")]


def main():
    to = Points()
    for name, files, wrong in CASES:
        said = output_of(files)
        to.add(len(said) == 1 and wrong in said[0] if wrong else not said, name, "\n".join(said))
    return to.end()


if __name__ == "__main__":
    sys.exit(main())
