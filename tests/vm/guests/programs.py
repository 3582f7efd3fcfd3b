# SPDX-License-Identifier: BSD-3-Clause
"""The programs for the guest: our tools, those of tests/vm, and the suites for every transport."""

import fnmatch
import json
import os


class ProgramError(Exception):
    pass


# Suites whose programs take any device by USDMA_DEVICES; each test there is "runner … -- PROGRAM [ARGUMENT]…".
SUITE = "integration-embedded"
# These need injected faults, or the timing of a software device, or copy too much for edu.
NOT_ON_EDU = ("errors", "promises-faults", "promises", "promises-work", "waits", "explorer", "every-call", "acl-every-call",
              "holds", "acl-holds", "beats", "closing", "uring", "pairs",
              "files", "files-cached", "files-threads", "files-faults", "files-faults-threads", "pageable", "timing")


class Programs:
    def __init__(self, build_dir, pattern="*", long=False):
        self.build_dir, self.long = build_dir, long
        # Each program once: variants of a suite differ in settings of the software device.
        once = {(program, *arguments): (name, program, arguments, devices) for name, program, arguments, devices in reversed(list(self._suite_tests()))}
        self.suites = [s for s in reversed(once.values()) if s[0] not in NOT_ON_EDU and fnmatch.fnmatchcase(s[0], pattern)]
        self._own = list(self._below("tests/vm"))
        self.tools = [p for p in self._below("tools/usdmactl") if os.path.basename(p) == "usdmactl"]
        self.tools += [p for p in self._below("tools/perf") if os.path.basename(p) == "usdma-perf"]

    def _below(self, folder):
        top = os.path.join(self.build_dir, folder)
        if not os.path.isdir(top):
            raise ProgramError(f"{top} is missing: build first (ninja -C {self.build_dir} all guest-programs)")
        for name in sorted(os.listdir(top)):
            path = os.path.join(top, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and not name.endswith((".so", ".p")):
                yield path

    def _suite_tests(self):
        """(name, program, arguments, number of devices) of each test that the build registers for every transport."""
        info = os.path.join(self.build_dir, "meson-info", "intro-tests.json")
        if not os.path.exists(info):
            raise ProgramError(f"{self.build_dir} is no build directory: meson setup {self.build_dir}")
        with open(info, encoding="utf-8") as f:
            for test in json.load(f):
                if SUITE not in {s.split(":")[-1] for s in test["suite"]} or "--" not in test["cmd"]:
                    continue
                command = test["cmd"][test["cmd"].index("--") + 1:]
                name = test["name"].removesuffix("-embedded")
                if command[0].endswith(".py") or os.path.basename(command[0]).startswith("python"):
                    continue  # drives programs of its own; there is no Python in the guest
                path = os.path.join(self.build_dir, command[0])
                yield name, path, command[1:], max(test["cmd"].count("--device"), 1)

    def own(self, name):
        return next(p for p in self._own if os.path.basename(p) == name)

    def programs(self):
        seen = dict.fromkeys([p for _, p, _, _ in self.suites] + self._own + self.tools)
        return list(seen)
