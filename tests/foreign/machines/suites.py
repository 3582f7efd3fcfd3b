# SPDX-License-Identifier: BSD-3-Clause
"""The programs that go into a guest: tools, and every suite that the build registers for every transport."""

import fnmatch
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vm"))
from guests import guest  # noqa: E402

SUITE = "usdma:integration-embedded"
OWN = ("foreign-churn", "foreign-big", "foreign-faults", "foreign-load")
# The suites that run where all of them would take too long.
SOME = ("async", "copies", "core-peers", "acl-order", "hccl-memory")
# They need a disk; or expect that the CPU copies to a software device's memory (pageable-staging runs the same program).
EXCLUDED = ("files-cached", "pageable")
TOOLS = ("tools/usdmactl/usdmactl", "tools/perf/usdma-perf", "tools/usdma-quickstart")


class SuiteError(Exception):
    pass


class Suite:
    def __init__(self, name, program, arguments, env, devices, here):
        self.name, self.program, self.arguments, self.env, self.devices = name, program, arguments, env, devices
        self.here = here  # {transport: the test of this suite that runs without a guest}

    def command(self, devices, settings=None):
        """The command line for a shell in the guest."""
        env = {"CMOCKA_MESSAGE_OUTPUT": "TAP", "USDMA_TEST_BACKEND": "kernel", **self.env, **(settings or {}),
               "USDMA_DEVICES": ",".join(devices[:self.devices])}
        words = [os.path.basename(self.program), *self.arguments]
        return f"exec env {' '.join(f'{k}={v}' for k, v in env.items())} {' '.join(words)}"

    def run_here(self, transport, build_dir):
        """Runs the suite without a guest, as meson does; returns a guest.Result."""
        test = self.here[transport]
        p = subprocess.run(test["cmd"], env={**os.environ, **test["env"]}, cwd=test["workdir"] or build_dir, capture_output=True, text=True,
                           check=False, timeout=test["timeout"])
        return guest.Result(p.returncode, p.stdout, p.stderr)


def _tests(build_dir):
    path = os.path.join(build_dir, "meson-info", "intro-tests.json")
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except OSError as e:
        raise SuiteError(f"{build_dir} is no build directory: meson setup {build_dir}") from e


def suites(build_dir, engine="sdma"):
    """Each test that takes any device by USDMA_DEVICES is "runner … -- PROGRAM [ARGUMENT]…"."""
    suffix = "-embedded" if engine == "sdma" else f"-{engine}-embedded"
    tests = _tests(build_dir)
    by_name = {t["name"]: t for t in tests}
    for test in tests:
        if not (SUITE in test["suite"] if engine == "sdma" else test["name"].endswith(suffix)) or "--" not in test["cmd"]:
            continue
        command = test["cmd"][test["cmd"].index("--") + 1:]
        if command[0].endswith(".py") or os.path.basename(command[0]).startswith("python"):
            continue  # drives programs of its own; there is no Python in the guest
        if any("faults=" in word for word in test["cmd"]):
            continue  # sets faults by itself; in these guests the host does (cases.faults)
        env = {k: v for k, v in test["env"].items() if k.startswith("USDMA_")}
        name = test["name"].removesuffix(suffix)
        if name in EXCLUDED or "USDMA_CHECK" in env:  # hostile timing is a software device's
            continue
        process = by_name.get(test["name"].removesuffix("embedded") + "process")
        yield Suite(name, os.path.join(build_dir, command[0]), command[1:], env,
                    max(test["cmd"].count("--device"), 1), {"embedded": test, "vfio-user": process})


class Programs:
    def __init__(self, build_dir, pattern="*"):
        self.build_dir = build_dir
        self.suites = list(suites(build_dir))
        # Those of each engine that the machines run.
        self.of = {e: [s for s in suites(build_dir, e) if fnmatch.fnmatchcase(s.name, pattern)] for e in ("sdma", "ioat", "hisi")}
        if not self.suites:
            raise SuiteError(f"{build_dir} has no tests of the suite {SUITE}: meson configure -Dtests=enabled")
        self.own = [os.path.join(build_dir, "tests/foreign", n) for n in OWN]
        self.edu = os.path.join(build_dir, "tests/vm/vm-edu-kernel")
        self.tools = [os.path.join(build_dir, t) for t in TOOLS]

    def some(self, which):
        some = [s.program for s in self.suites if s.name in SOME] + self.tools
        wanted = {"all": self.all(), "tools": self.tools, "none": [], "some": some, "edu": [*some, self.edu],
                  **{e: list(dict.fromkeys([s.program for s in self.of[e]] + self.tools)) for e in ("ioat", "hisi")}}[which]
        for p in wanted:
            if not os.access(p, os.X_OK):
                raise SuiteError(f"{p} is missing: ninja -C {self.build_dir}")
        return wanted

    def all(self):
        return list(dict.fromkeys([s.program for s in self.suites] + self.own + self.tools))
