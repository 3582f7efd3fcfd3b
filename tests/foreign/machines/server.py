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
    """One software device on a socket, with a second socket for control."""

    def __init__(self, build_dir, folder, number, options):
        self.build_dir = build_dir
        self.socket = os.path.join(folder, f"device{number}")
        self.control = os.path.join(folder, f"control{number}")
        self.log = os.path.join(folder, f"sim{number}.log")
        self.options = options
        self.process = None
        self.start()

    def start(self):
        """Starts the process; again after it was killed."""
        for path in (self.socket, self.control):
            if os.path.exists(path):
                os.unlink(path)
        ready, ready_write = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(self.build_dir, "tools/usdma-sim"), "--verbose", "--socket", self.socket,
                                             "--control", self.control, "--ready-fd", str(ready_write), *self.options],
                                            pass_fds=[ready_write], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(ready_write)
        try:
            if not select.select([ready], [], [], READY_SECONDS)[0] or not os.read(ready, 64):
                self.stop()
                raise ServerError(f"usdma-sim did not start: {self.read_log()}")
        finally:
            os.close(ready)

    def read_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def status(self, field):
        """A field of /proc/PID/status, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(rf"^{field}:\s*(\d+) kB$", f.read(), re.M).group(1)) * 1024

    def mappings(self):
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii", errors="replace") as f:
            return sum(1 for _ in f)

    def send_command(self, *words):
        """Sends a line to the control socket: (succeeded, output)."""
        ctl = os.path.join(self.build_dir, "tools/usdmactl/usdmactl")
        p = subprocess.run([ctl, "sim", self.control, *words], capture_output=True, text=True, check=False, timeout=30)
        return p.returncode == 0, p.stdout + p.stderr

    def failing(self, rule, run):
        """The result of run() while this fault rule is set."""
        self.send_command("faults", rule)
        result = run()
        self.send_command("clear")
        return result

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """True: it exits with status 0 on SIGTERM."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                return self.process.wait(20) == 0
            except subprocess.TimeoutExpired:
                self.kill()
        return False
