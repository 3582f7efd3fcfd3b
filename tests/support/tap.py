# SPDX-License-Identifier: BSD-3-Clause
"""The TAP output of a test script."""


class Points:
    count = failed = 0

    def add(self, ok, name, log="", most=30):
        """log: its last lines are printed if the test failed; most None: all lines."""
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}", flush=True)
        if not ok:
            lines = log.splitlines()
            print("".join(f"# {line}\n" for line in lines[-most if most else None:]), end="", flush=True)
        return ok

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}", flush=True)

    def end(self):
        """Prints the plan; returns the exit status: a script without a test point has failed."""
        print(f"1..{self.count}", flush=True)
        return 1 if self.failed or not self.count else 0
