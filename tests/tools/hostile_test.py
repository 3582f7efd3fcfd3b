#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
usdmactl among hostile neighbours: names that a terminal
would act upon.  hostile_test.py USDMACTL; prints TAP.
"""

import ctypes
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from ctl_test import EDU, NIC, Suite, ready_machine

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_DUMPABLE, PR_SET_NAME = 4, 15
NOBODY = 65534
HEAD = struct.Struct("<8sIIII40x")          # lib/core/stats.h: stats_head before its slots
SLOT = struct.Struct("<96s16sIIQ")
PAGE_SIZE = 4096 + 16 * 1024 * 64
SHRINK_GROW_SEAL = 1 | 2 | 4
# What terminals act upon: a title, a cleared screen, a colour; C1 controls in UTF-8; DEL; a line of one's own.
ESCAPES = "\033]0;owned\007\033[2J\033[H\033[31m\u009b31m\x7f\u202e"
PROMPTLY = 30  # seconds; what hangs, hangs for ever


class Neighbour:
    """A process of an ordinary user (nobody, if root runs this) that lays a trap and stays."""

    def __init__(self, trap, *args, drop=True):
        ready, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(ready)
                if drop:
                    become_nobody()
                self.kept = trap(*args)
                os.write(tell, b"y")
            except BaseException as e:  # the parent says why
                os.write(tell, f"n{e}".encode())
            os.close(tell)
            while True:
                signal.pause()
        os.close(tell)
        said = os.read(ready, 400).decode() if select.select([ready], [], [], PROMPTLY)[0] else "nit said nothing"
        os.close(ready)
        self.lack = said[1:] if said[:1] != "y" else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def become_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        # Without this its files below /proc are root's, and it may not name itself root of a namespace.
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def counters(pid, spec, driver):
    page = bytearray(PAGE_SIZE)
    HEAD.pack_into(page, 0, b"usdmast1", 1, pid, 16, 1024)
    SLOT.pack_into(page, HEAD.size, spec, driver, 1, 1, 1)
    return page


def page_of_counters(name="plain", seals=SHRINK_GROW_SEAL, size=PAGE_SIZE, spec=b"sim", owner=None):
    """Such a page as the library makes it, but for what is said."""
    fd = os.memfd_create("usdma-stats", os.MFD_ALLOW_SEALING)
    os.write(fd, counters(os.getpid(), spec, spec[:15])[:size])
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    if owner is not None:
        os.fchown(fd, owner, owner)
        become_nobody()
    LIBC.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    return fd


def stat(s, *args, json_too=False):
    """What root, or the same user, sees; None: it does not end."""
    try:
        return subprocess.run([s.program, *(["--json"] if json_too else []), "stat", "--count", "1", "--interval", "0.05", *args],
                              capture_output=True, timeout=PROMPTLY, check=False)
    except subprocess.TimeoutExpired:
        return None


def acted_upon(data):
    """What in it a terminal would act upon, line ends and the tool's own clearing of a terminal apart."""
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\udc80-\udcff]", text)


def clean(s, done, word, name):
    """Only what can be shown came out, and what is expected is in it: it was that way that was gone."""
    out = b"" if done is None else done.stdout + done.stderr
    s.check(done is not None and not acted_upon(out) and word in out.decode(errors="replace"), f"escapes: {name}", out)


def test_escapes_of_processes(s):
    with Neighbour(lambda: page_of_counters("\033[31m\u009b2J\n", spec=f"own{ESCAPES}\n{'9' * 6}".encode())) as n:
        clean(s, stat(s), "own?", "a process's name and devices in stat")
        lines = stat(s).stdout.decode().splitlines()
        s.check(not [line for line in lines if line.startswith("9")], "escapes: and no line is forged", lines)
        clean(s, stat(s, json_too=True), str(n.pid), "the same as JSON")
    t = ready_machine(s)
    t.write("proc/4711/comm", f"evil{ESCAPES}\n")
    os.makedirs(t.path("proc/4711/fd"))
    os.symlink(t.path("dev/vfio/3"), t.path("proc/4711/fd/5"))
    for more in ((), ("--json",)):
        clean(s, run(s, *more, "unbind", "0000:00:04.0", tree=t), "4711", f"a process's name in a refusal {more}")


def run(s, *args, tree=None, env=None):
    command = [s.program, *(["--root", tree.top] if tree else []), *args]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, env=dict(os.environ, USDMA_DEVICES="sim", **(env or {})))


def test_escapes_of_the_system(s):
    bad = ESCAPES.replace("/", "")
    t = ready_machine(s)
    t.device("0000:00:06.0", EDU, None, 8)
    t.device("0000:00:06.1", NIC, f"e1000{bad}", 8)
    t.device("0000:00:07.0", EDU, f"edu{bad}", 9)
    t.write(f"sys/bus/pci/devices/0000:00:07.0/net/eth{bad}/mtu", "1500\n")
    t.write("etc/modprobe.d/own.conf", f"blacklist vfio-pci # {ESCAPES}\n")
    t.write("sys/bus/pci/devices/0000:00:07.0/power_state", f"D3hot{ESCAPES}\n")
    t.write("etc/usdma/usdma.conf", f"wait{ESCAPES} = {ESCAPES}\n")
    t.write("proc/sys/kernel/osrelease", f"6.1{ESCAPES}\n")
    for more in ((), ("--json",)):
        clean(s, run(s, *more, "list", "--all", tree=t), "edu", f"drivers in list {more}")
        clean(s, run(s, *more, "bind", "0000:00:07.0", tree=t), "eth", f"interfaces in a refusal {more}")
        clean(s, run(s, *more, "bind", "0000:00:06.0", tree=t), "e1000", f"neighbours in a refusal {more}")
        clean(s, run(s, *more, "unbind", "0000:00:07.0", tree=t), "edu", f"a driver in a refusal {more}")
        clean(s, run(s, *more, "info", "0000:00:07.0", tree=t), "edu", f"a driver in info {more}")
        clean(s, run(s, *more, "doctor", tree=t), "own.conf", f"lines of files in doctor {more}")
        clean(s, run(s, *more, "info", f"vfio-user:/nonexistent{ESCAPES}"), "/nonexistent", f"a socket's path {more}")
        clean(s, run(s, *more, "info", env={"USDMA_CONFIG": t.path("etc/usdma/usdma.conf")}), "usdma.conf:1", f"a settings file {more}")
    bind = s.tree()
    bind.vfio()
    bind.device("0000:00:07.0", EDU, f"edu{bad}", 9)
    clean(s, run(s, "bind", "--dry-run", "0000:00:07.0", tree=bind), "edu", "the former driver")


def serve_once(path, answer):
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(1)
        door.settimeout(PROMPTLY)
        peer, _ = door.accept()
        with peer:
            peer.recv(4096)
            peer.sendall(answer)
    os.unlink(path)


def test_escapes_of_servers(s):
    path = os.path.join(s.scratch, "ctl")
    answers = ({"ok": True, "help": f"word{ESCAPES}\nnext"}, {"ok": False, "error": f"word{ESCAPES}"},
               {"ok": True, "faults": [{"rule": f"word{ESCAPES}", "struck": 1, "seen": 2}]})
    for answer in answers:
        for more in ((), ("--json",)):
            for plain in (True, False):
                data = json.dumps(answer, ensure_ascii=plain).encode() + b"\n"
                server = threading.Thread(target=serve_once, args=(path, data))
                server.start()
                while not os.path.exists(path):
                    pass
                clean(s, run(s, *more, "sim", path, "state"), "word", f"{list(answer)[1]} of a control socket {more} {plain}")
                server.join()
    server = threading.Thread(target=serve_once, args=(path, f"\033[2J{ESCAPES}\n".encode()))
    server.start()
    while not os.path.exists(path):
        pass
    clean(s, run(s, "sim", path, "state"), "no answer of usdma-sim", "what is no answer")
    server.join()


def test_escapes_of_results(s):
    result = os.path.join(s.scratch, "result.json")
    row = {"name": "spin_us", "now": "50", "proposed": "20", "what": f"word{ESCAPES}", "unit": "us", "before": 2.5, "after": 1.25}
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [row, {**row, "proposed": "50"}], "skipped": [{"name": f"stripe{ESCAPES}", "why": f"why{ESCAPES}"}]}, f)
    clean(s, run(s, "tune", "--from", result), "word", "a result of tune")
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [{**row, "name": f"spin{ESCAPES}"}]}, f)
    clean(s, run(s, "tune", "--from", result), result, "a result with a setting that is none")


TESTS = [test_escapes_of_processes, test_escapes_of_the_system, test_escapes_of_servers,
         test_escapes_of_results]


def main():
    suite = Suite(sys.argv[1])
    # Others, too, have their traps there.
    os.chmod(suite.scratch, 0o755)
    try:
        for test in TESTS:
            try:
                test(suite)
            except Exception as e:  # the tool said something that is not even readable
                suite.check(False, f"{test.__name__}: {e!r}")
    finally:
        shutil.rmtree(suite.scratch, ignore_errors=True)
    print(f"1..{suite.count}")
    return 1 if suite.failed or not suite.count else 0


if __name__ == "__main__":
    sys.exit(main())
