# SPDX-License-Identifier: BSD-3-Clause
"""One virtual machine: starts it, runs commands in it, detects a panic or a hang."""

import contextlib
import glob
import os
import select
import socket
import subprocess
import time


# The least limit of a command in guest time, which passes quickly while all programs sleep; and that as a multiple of its real time.
GUEST_SECONDS, GUEST_TIMES = 7200, 24


# Guest time passes with instructions, and jumps while the guest is idle, so that edu's 100 ms a transfer take no real time.
# Not for a guest with a disk: its time would jump during disk accesses.
JUMPING = ["-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=4,sleep=off"]
STEADY = ["-accel", "tcg,thread=multi", "-smp", "2"]
STEADY_FOUR = ["-accel", "tcg,thread=multi", "-smp", "4"]


class GuestError(Exception):
    """The machine panicked, hung or exited: the rest of its test cannot run."""


class Result:
    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err


def read_logs(scratch):
    """The logs of the emulator and of the guest's console."""
    text = []
    for name in ("qemu.log", "console.log"):
        path = os.path.join(scratch, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                text.append(f.read())
    return "\n".join(text)


class Guest:
    def __init__(self, kernel, initrd, scratch, devices, cmdline, deadline, memory=1024, clock=JUMPING, boot_seconds=180,
                 emulator=("qemu-system-x86_64",), env=None, cpu="max", console="ttyS0", patience=1):
        self.patience = patience  # a factor for deadlines
        self.deadline = deadline
        self.scratch = scratch
        sock_path = os.path.join(scratch, "port")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(sock_path)
        listener.listen(1)
        listener.settimeout(20)
        command = [
            *emulator, *clock, "-cpu", cpu, "-m", str(memory),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel.image, "-initrd", initrd,
            "-append", f"console={console} panic=-1 oops=panic quiet loglevel=5 {cmdline}",
            "-chardev", f"file,id=console,path={scratch}/console.log", "-serial", "chardev:console",
            "-chardev", f"socket,id=port,path={sock_path}",
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=port,name=usdma.test",
        ] + devices
        self._id = 0
        self._buf = bytearray()
        with open(os.path.join(scratch, "qemu.log"), "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})})
        try:
            self._conn, _ = listener.accept()
        except OSError as e:
            self.stop()
            raise GuestError(f"the virtual machine did not start: {self.logs()}") from e
        finally:
            listener.close()
        self._await_ready(boot_seconds)

    def _await_ready(self, seconds):
        try:
            line = self._line(self._until(seconds))
        except GuestError:
            self.stop()
            raise
        if line != b"ready":
            raise GuestError(f"expected 'ready' from the guest, received {line!r}")

    def _starved(self):
        """Seconds for which a thread of the emulator was ready to run and another program had the CPU; of the thread that waited most."""
        waits = [0]
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with contextlib.suppress(OSError), open(path, encoding="ascii") as f:
                waits.append(int(f.read().split()[1]))
        return max(waits) / 1e9

    def _until(self, seconds):
        """The end of a limit, as _left() counts."""
        return time.monotonic() - self._starved() + seconds * self.patience

    def _left(self, until):
        now = time.monotonic()
        return min(until - (now - self._starved()), self.deadline - now)

    def _more(self, until):
        while True:
            left = self._left(until)
            if left <= 0:
                raise GuestError("no answer from the guest before the deadline (hang)")
            ready, _, _ = select.select([self._conn], [], [], min(left, 0.5))
            if ready:
                data = self._conn.recv(1 << 16)
                if not data:
                    raise GuestError("the guest exited (panic or a crash of the emulator)")
                self._buf += data
                return
            if self.process.poll() is not None:
                raise GuestError(f"the emulator exited with status {self.process.returncode}")

    def _line(self, until):
        while b"\n" not in self._buf:
            self._more(until)
        line, _, rest = bytes(self._buf).partition(b"\n")
        self._buf = bytearray(rest)
        return line.rstrip(b"\r")

    def _take(self, length, until):
        while len(self._buf) < length:
            self._more(until)
        data = bytes(self._buf[:length])
        del self._buf[:length]
        return data.decode(errors="replace")

    def run(self, command, seconds=180):
        """Runs a shell command in the guest.  Its limits: these seconds of real time in which it has a CPU, and of guest time."""
        self._id += 1
        text = command.encode() + b"\n"
        self._conn.sendall(b"%d %d %d\n" % (self._id, max(GUEST_SECONDS, GUEST_TIMES * seconds), len(text)) + text)
        until = self._until(seconds)
        fields = self._line(until).split()
        if len(fields) != 4 or int(fields[0]) != self._id:
            raise GuestError(f"invalid reply of the guest: {fields!r}")
        out = self._take(int(fields[2]), until)
        return Result(int(fields[1]), out, self._take(int(fields[3]), until))

    def ended(self, seconds):
        """Waits for a machine that is shutting down."""
        try:
            return self.process.wait(min(seconds, max(self.deadline - time.monotonic(), 0))) == 0
        except subprocess.TimeoutExpired:
            return False

    def logs(self):
        return read_logs(self.scratch)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if getattr(self, "_conn", None):
            self._conn.close()
