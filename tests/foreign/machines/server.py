# SPDX-License-Identifier: BSD-3-Clause
"""usdma-sim processes that QEMU attaches to."""

import os
import re
import select
import signal
import subprocess

READY_SECONDS = 30


class ServerError(Exception):
    pass


class Server:
    """One software device on a socket, commanded by another."""

    def __init__(self, build_dir, folder, number, options):
        self.build_dir = build_dir
        self.socket = os.path.join(folder, f"device{number}")
        self.control = os.path.join(folder, f"control{number}")
        self.log = os.path.join(folder, f"sim{number}.log")
        self.options = options
        self.process = None
        self.start()

    def start(self):
        """Also once more, after it was killed."""
        for path in (self.socket, self.control):
            if os.path.exists(path):
                os.unlink(path)
        ready, told = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(self.build_dir, "tools/usdma-sim"), "--verbose", "--socket", self.socket,
                                             "--control", self.control, "--ready-fd", str(told), *self.options],
                                            pass_fds=[told], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(told)
        try:
            if not select.select([ready], [], [], READY_SECONDS)[0] or not os.read(ready, 64):
                self.stop()
                raise ServerError(f"usdma-sim did not start: {self.said()}")
        finally:
            os.close(ready)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def status(self, field):
        """A number from /proc/PID/status, of bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(rf"^{field}:\s*(\d+) kB$", f.read(), re.M).group(1)) * 1024

    def mappings(self):
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii", errors="replace") as f:
            return sum(1 for _ in f)

    def tell(self, *words):
        """A line to its control socket: (worked, what it says)."""
        ctl = os.path.join(self.build_dir, "tools/usdmactl/usdmactl")
        p = subprocess.run([ctl, "sim", self.control, *words], capture_output=True, text=True, check=False, timeout=30)
        return p.returncode == 0, p.stdout + p.stderr

    def failing(self, rule, run):
        """What run() returns while the device has this fault."""
        self.tell("faults", rule)
        result = run()
        self.tell("clear")
        return result

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """True: it ended as it shall when it is told to."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                return self.process.wait(20) == 0
            except subprocess.TimeoutExpired:
                self.kill()
        return False
