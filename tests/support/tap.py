# SPDX-License-Identifier: BSD-3-Clause
"""What a test script reports: points of TAP, numbered as they come."""


class Points:
    count = failed = 0

    def add(self, ok, name, log="", most=30):
        """log: told when it failed, the last lines of it; most None: all."""
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
        """The plan; the script's exit status: a script without a point has failed."""
        print(f"1..{self.count}", flush=True)
        return 1 if self.failed or not self.count else 0
