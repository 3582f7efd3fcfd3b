#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Nothing grows: usdma-sim while clients come and go, and what is left when it has ended.  rounds_test.py USDMACTL USDMA-SIM; prints TAP.
USDMA_TEST_SCALE=N: N times the rounds.  USDMA_TEST_CASE: only the pairs of this name.
"""
import contextlib
import fnmatch
import os
import select
import signal
import socket
import subprocess
import sys

from fake_tree import Suite

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from usage import fds_of, rounds_grow, use_of  # pylint: disable=wrong-import-position

ROUNDS = 10 * int(os.environ.get("USDMA_TEST_SCALE", "1"))
# Stacks of threads and arenas of malloc come and go.
ALLOWED = {"mappings": 6, "anonymous KiB": 512}


class Tools(Suite):
    def __init__(self, ctl, sim):
        super().__init__(ctl)
        self.sim = sim
        self.socket, self.control = (os.path.join(self.scratch, name) for name in ("dev", "control"))
        self.device = "vfio-user:" + self.socket

    @contextlib.contextmanager
    def server(self):
        ready, writer = os.pipe()
        sim = subprocess.Popen([self.sim, "--socket", self.socket, "--control", self.control, "--mem", "16M", "--ready-fd", str(writer)],
                               pass_fds=[writer], stdout=subprocess.DEVNULL)
        os.close(writer)
        try:
            assert select.select([ready], [], [], 60)[0] and os.read(ready, 1)
            yield sim
        finally:
            os.close(ready)
            sim.terminate()
            assert sim.wait(60) == 0

    def works(self, *args):
        done = self.run(*args)
        assert done.returncode == 0, done


def chosen(pairs):
    return [pair for pair in pairs if fnmatch.fnmatchcase(pair.__name__, os.environ.get("USDMA_TEST_CASE", "*"))]


def use_of_server(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        anonymous = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    return {**use_of(pid), "anonymous KiB": anonymous}


# ---- clients of one usdma-sim --------------------------------------------------------------------------------------------

def info(s):
    s.works("info", s.device)


def selftest(s):
    s.works("selftest", s.device, "--size", "100K")


def reset(s):
    s.works("reset", s.device)


def state(s):
    s.works("sim", s.control, "state")


def connections(s):
    """Closed before the first message, and in the middle of one."""
    for path in (s.socket, s.control):
        for message in (b"", b"\0"):
            with socket.socket(socket.AF_UNIX) as c:
                c.connect(path)
                c.sendall(message)


def killed(s):
    """While it has the device open: it waits for its input."""
    fifo = os.path.join(s.scratch, "fifo")
    os.mkfifo(fifo)
    user = subprocess.Popen([s.program, "selftest", s.device, "--size", "100K", "--file", fifo, "--out", "/dev/null"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(fifo, "wb"):  # opened by both
        user.send_signal(signal.SIGKILL)
        user.wait(60)
    os.unlink(fifo)


CLIENTS = [info, selftest, reset, state, connections, killed]


def test_clients(s):
    with s.server() as sim:
        for pair in chosen(CLIENTS):
            more = rounds_grow(lambda: pair(s), ROUNDS, lambda: use_of_server(sim.pid), ALLOWED, 5)
            s.check(not more, f"{pair.__name__}: {ROUNDS} clients, and usdma-sim does not grow", more)


# ---- usdma-sim, and processes that come and go -----------------------------------------------------------------------------

def start(s):
    with s.server():
        pass


def start_with_client(s):
    with s.server():
        selftest(s)


def embedded(s):
    s.works("selftest", "sim:mem=16M", "--size", "100K")


def left_behind(s):
    """Other programs have files in /dev/shm, too."""
    here = {folder: os.listdir(folder) for folder in (s.scratch, "/dev/shm", "/run/usdma") if os.path.isdir(folder)}
    return {**{folder: sum(folder != "/dev/shm" or "usdma" in name for name in names) for folder, names in here.items()}, "descriptors": fds_of("self")}


def test_processes(s):
    for pair in chosen([start, start_with_client, embedded]):
        more = rounds_grow(lambda: pair(s), ROUNDS, lambda: left_behind(s), {}, 1)
        s.check(not more, f"{pair.__name__}: {ROUNDS} times, and nothing is left", more)


sys.exit(Tools(*sys.argv[1:3]).run_all([test_clients, test_processes]))
