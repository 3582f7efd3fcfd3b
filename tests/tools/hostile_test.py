#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
usdmactl beside hostile processes: other users' descriptors that block a process which opens
them, and names that contain control characters.  hostile_test.py USDMACTL; prints TAP.
"""

import ctypes
import fcntl
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from fake_tree import EDU, NIC, Suite, ready_machine

LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER, MS_MOVE, MS_BIND, MS_REC, MS_PRIVATE, DETACH = 0x20000, 0x10000000, 8192, 4096, 16384, 1 << 18, 2
PR_SET_DUMPABLE, PR_SET_NAME = 4, 15
UNPRIVILEGED = 65534
NAME = "memfd:usdma-stats (deleted)"
HEAD = struct.Struct("<8sIIII40x")          # lib/core/base/stats.h: stats_head before its slots
SLOT = struct.Struct("<96s16sIIQ")
PAGE_SIZE = 4096 + 16 * 1024 * 64
SHRINK_GROW_SEAL = 1 | 2 | 4
# What terminals interpret: a title, a cleared screen, a colour; C1 controls in UTF-8; DEL; right-to-left override.
ESCAPES = "\033]0;owned\007\033[2J\033[H\033[31m\u009b31m\x7f\u202e"
TIMEOUT_S = 30  # a hang does not end by itself


def call(status, what):
    if status:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags, data=None):
    call(LIBC.mount(os.fsencode(source), os.fsencode(target), kind, flags, data), f"mount {target}")


class Neighbour:
    """A process of an unprivileged user (UID 65534 if root runs this) that sets a trap and stays alive."""

    def __init__(self, trap, *args, drop=True):
        ready, ready_writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(ready)
                if drop:
                    drop_privileges()
                self.retained = trap(*args)
                os.write(ready_writer, b"y")
            except BaseException as e:  # the parent reports it
                os.write(ready_writer, f"n{e}".encode())
            os.close(ready_writer)
            while True:
                signal.pause()
        os.close(ready_writer)
        reply = os.read(ready, 400).decode() if select.select([ready], [], [], TIMEOUT_S)[0] else "nno reply"
        os.close(ready)
        self.skip_reason = reply[1:] if reply[:1] != "y" else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def drop_privileges():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(UNPRIVILEGED)
        os.setuid(UNPRIVILEGED)
        # Otherwise its files below /proc belong to root, and it may not write its uid_map.
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def own_namespace(folder):
    """Becomes root of a user namespace, as any user may, with a file system of its own at `folder`."""
    uid, gid = os.getuid(), os.getgid()
    call(LIBC.unshare(NEWUSER | NEWNS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "wb") as f:
            f.write(text.encode())
    mount("trap", folder, b"tmpfs", 0)


def trap_fifo(folder):
    """A FIFO: opening it for reading waits for a writer."""
    own_namespace(folder)
    path = os.path.join(folder, NAME)
    os.mkfifo(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    call(LIBC.umount2(os.fsencode(folder), DETACH), "umount2")
    return fd


def open_at_root(folder, path):
    """Opens path, then makes the file system at `folder` the namespace's root: the file's name becomes relative to it."""
    fd = os.open(path, os.O_PATH)
    mount(folder, "/", None, MS_MOVE)
    return fd


def trap_terminal(folder, terminal):
    """A terminal: the master side notices that it was opened."""
    own_namespace(folder)
    path = os.path.join(folder, NAME)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    mount(terminal, path, None, MS_BIND)
    return open_at_root(folder, path)


def trap_directory(folder):
    own_namespace(folder)
    os.mkdir(os.path.join(folder, NAME))
    return open_at_root(folder, os.path.join(folder, NAME))


def trap_link(folder):
    own_namespace(folder)
    os.symlink("/dev/zero", os.path.join(folder, NAME))
    fd = os.open(os.path.join(folder, NAME), os.O_PATH | os.O_NOFOLLOW)
    call(LIBC.umount2(os.fsencode(folder), DETACH), "umount2")
    return fd


def fuse_answer(fd, unique, body):
    os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)


def fuse_serve(fd):
    """A file system with one regular file; requests to open it are never answered."""
    attr = struct.pack("<QQQQQQIIIIIIIIII", 2, PAGE_SIZE, 0, 0, 0, 0, 0, 0, 0, 0o100644, 1, 0, 0, 0, 4096, 0)
    top = struct.pack("<QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o040755, 2, 0, 0, 0, 4096, 0)
    for _ in range(1000):
        request = os.read(fd, 1 << 17)
        _, code, unique, _ = struct.unpack_from("<IIQQ", request)
        if code == 26:    # INIT
            fuse_answer(fd, unique, struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 1, 1, 4096, 1, 0, 0, 0))
        elif code == 1:   # LOOKUP: attributes with a timeout of 0, so that each stat is a request to the server
            fuse_answer(fd, unique, struct.pack("<QQQQII", 2, 0, 3600, 0, 0, 0) + attr)
        elif code == 3 and struct.unpack_from("<Q", request, 16)[0] == 1:
            fuse_answer(fd, unique, struct.pack("<QII", 3600, 0, 0) + top)
        # GETATTR of the file, OPEN, READ, STATFS: not answered


def trap_fuse(folder):
    call(LIBC.unshare(NEWNS), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    fd = os.open("/dev/fuse", os.O_RDWR)
    mount("trap", folder, b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode())
    threading.Thread(target=fuse_serve, args=(fd,), daemon=True).start()
    return fd, open_at_root(folder, os.path.join(folder, NAME))


def counters(pid, spec, driver):
    page = bytearray(PAGE_SIZE)
    HEAD.pack_into(page, 0, b"usdmast1", 1, pid, 16, 1024)
    SLOT.pack_into(page, HEAD.size, spec, driver, 1, 1, 1)
    return page


def page_of_counters(name="plain", seals=SHRINK_GROW_SEAL, size=PAGE_SIZE, spec=b"sim", owner=None):
    """A page of counters as the library makes it, with the given differences."""
    fd = os.memfd_create("usdma-stats", os.MFD_ALLOW_SEALING)
    os.write(fd, counters(os.getpid(), spec, spec[:15])[:size])
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    if owner is not None:
        os.fchown(fd, owner, owner)
        drop_privileges()
    LIBC.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    return fd


def stat(s, *args, json_too=False):
    """The result of usdmactl stat; None: it hangs."""
    command = [s.program, *(["--json"] if json_too else []), "stat", "--count", "1", "--interval", "0.05", *args]
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = p.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        p.kill()  # without wait(): a process in a FUSE request does not die before the server
        return None
    return subprocess.CompletedProcess(command, p.returncode, out, err)


def is_listed(s, pid):
    done = stat(s, json_too=True)
    return done is not None and pid in [p["pid"] for p in json.loads(done.stdout)["processes"]]


def open_names(pid):
    """The names of the process's open files; it may close some of them meanwhile."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            names.append(os.path.basename(os.readlink(f"/proc/{pid}/fd/{fd}")))
        except FileNotFoundError:
            continue
    return names


def test_traps(s):
    for trap, name in ((trap_fifo, "a FIFO that is named like the page of counters"), (trap_directory, "a folder"),
                       (trap_link, "a symbolic link"), (trap_fuse, "a file on FUSE whose open is never answered")):
        folder = tempfile.mkdtemp(dir=s.scratch)
        os.chmod(folder, 0o777)
        if trap is trap_fuse and os.geteuid():
            s.skip(f"stat: {name}", "only root can mount FUSE without a helper")
            continue
        with Neighbour(trap, folder, drop=trap is not trap_fuse) as n:
            if n.skip_reason:
                s.skip(f"stat: {name}", n.skip_reason)
                continue
            s.check(NAME in open_names(n.pid), f"stat: {name}: is open")
            done = stat(s)
            s.check(done is not None and done.returncode == 0, f"stat: {name}: stat does not hang", done)
            s.check(not is_listed(s, n.pid), f"stat: {name}: is not listed")


def test_terminal(s):
    """A terminal is not opened: the master would see a hang-up after the close."""
    folder = tempfile.mkdtemp(dir=s.scratch)
    os.chmod(folder, 0o777)
    # Not pty.openpty(), which opens the slave, too.
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    fcntl.ioctl(master, 0x40045431, struct.pack("i", 0))  # TIOCSPTLCK
    name = f"/dev/pts/{struct.unpack('I', fcntl.ioctl(master, 0x80045430, bytes(4)))[0]}"
    with Neighbour(trap_terminal, folder, name) as n:
        if n.skip_reason:
            s.skip("stat: a terminal is not opened", n.skip_reason)
        else:
            done = stat(s)
            try:
                os.read(master, 1)
                state = "data"
            except BlockingIOError:
                state = "never opened"
            except OSError:
                state = "was opened"
            s.check(done is not None and done.returncode == 0 and state == "never opened", "stat: a terminal is not opened",
                    (done, state))
    os.close(master)


def test_pages(s):
    with Neighbour(page_of_counters) as n:
        s.check(not n.skip_reason and is_listed(s, n.pid), "stat: a valid page is listed", n.skip_reason)
    for what, name in (({"seals": 0}, "a page without seals"), ({"size": PAGE_SIZE - 4096}, "a page that is too short"),
                       ({"size": PAGE_SIZE + 4096}, "a page that is too long")):
        with Neighbour(lambda what=what: page_of_counters(**what)) as n:
            s.check(not n.skip_reason and not is_listed(s, n.pid), f"stat: {name} is not listed", n.skip_reason)
    if os.geteuid():
        s.skip("stat: another user's page", "only root can change the owner of a file")
        return
    for owner, shown, name in ((12345, False, "another user's page is not listed as the process's"),
                               (0, True, "a page that was made before root became a user is listed")):
        with Neighbour(lambda owner=owner: page_of_counters(owner=owner), drop=False) as n:
            s.check(not n.skip_reason and is_listed(s, n.pid) == shown, f"stat: {name}", n.skip_reason)


def control_characters(data):
    """The characters of data that a terminal would interpret, except newlines."""
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\udc80-\udcff]", text)


def check_clean(s, done, word, name):
    """The output has no control characters, and contains word: the name in question was printed."""
    out = b"" if done is None else done.stdout + done.stderr
    s.check(done is not None and not control_characters(out) and word in out.decode(errors="replace"), f"escapes: {name}", out)


def test_escapes_of_processes(s):
    with Neighbour(lambda: page_of_counters("\033[31m\u009b2J\n", spec=f"own{ESCAPES}\n{'9' * 6}".encode())) as n:
        check_clean(s, stat(s), "own?", "a process's name and devices in stat")
        lines = stat(s).stdout.decode().splitlines()
        s.check(not [line for line in lines if line.startswith("9")], "escapes: a name cannot forge a line", lines)
        check_clean(s, stat(s, json_too=True), str(n.pid), "the same as JSON")
    t = ready_machine(s)
    t.write("proc/4711/comm", f"evil{ESCAPES}\n")
    os.makedirs(t.path("proc/4711/fd"))
    os.symlink(t.path("dev/vfio/3"), t.path("proc/4711/fd/5"))
    for more in ((), ("--json",)):
        check_clean(s, run(s, *more, "unbind", "0000:00:04.0", tree=t), "4711", f"a process's name in a refusal {more}")


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
        check_clean(s, run(s, *more, "list", "--all", tree=t), "edu", f"drivers in list {more}")
        check_clean(s, run(s, *more, "bind", "0000:00:07.0", tree=t), "eth", f"interfaces in a refusal {more}")
        check_clean(s, run(s, *more, "bind", "0000:00:06.0", tree=t), "e1000", f"neighbours in a refusal {more}")
        check_clean(s, run(s, *more, "unbind", "0000:00:07.0", tree=t), "edu", f"a driver in a refusal {more}")
        check_clean(s, run(s, *more, "info", "0000:00:07.0", tree=t), "edu", f"a driver in info {more}")
        check_clean(s, run(s, *more, "doctor", tree=t), "own.conf", f"lines of files in doctor {more}")
        check_clean(s, run(s, *more, "info", f"vfio-user:/nonexistent{ESCAPES}"), "/nonexistent", f"a socket's path {more}")
        check_clean(s, run(s, *more, "info", env={"USDMA_CONFIG": t.path("etc/usdma/usdma.conf")}), "usdma.conf:1", f"a settings file {more}")
    bind = s.tree()
    bind.vfio()
    bind.device("0000:00:07.0", EDU, f"edu{bad}", 9)
    check_clean(s, run(s, "bind", "--dry-run", "0000:00:07.0", tree=bind), "edu", "the former driver")


def serve_once(listener, answer):
    with listener:
        peer, _ = listener.accept()
        with peer:
            peer.recv(4096)
            peer.sendall(answer)


def check_answer(s, answer, more, expected, what):
    """The socket listens before the client starts."""
    path = os.path.join(s.scratch, "ctl")
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(TIMEOUT_S)
    listener.bind(path)
    listener.listen(1)
    server = threading.Thread(target=serve_once, args=(listener, answer))
    server.start()
    check_clean(s, run(s, *more, "sim", path, "state"), expected, what)
    server.join()
    os.unlink(path)


def test_escapes_of_servers(s):
    answers = ({"ok": True, "help": f"word{ESCAPES}\nnext"}, {"ok": False, "error": f"word{ESCAPES}"},
               {"ok": True, "faults": [{"rule": f"word{ESCAPES}", "struck": 1, "seen": 2}]})
    for answer in answers:
        for more in ((), ("--json",)):
            for plain in (True, False):
                data = json.dumps(answer, ensure_ascii=plain).encode() + b"\n"
                check_answer(s, data, more, "word", f"{list(answer)[1]} of a control socket {more} {plain}")
    check_answer(s, f"\033[2J{ESCAPES}\n".encode(), (), "not from usdma-sim", "an invalid answer")


def test_escapes_of_results(s):
    result = os.path.join(s.scratch, "result.json")
    row = {"name": "spin_us", "now": "50", "proposed": "20", "what": f"word{ESCAPES}", "unit": "us", "before": 2.5, "after": 1.25}
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [row, {**row, "proposed": "50"}], "skipped": [{"name": f"wait{ESCAPES}", "why": f"why{ESCAPES}"}]}, f)
    check_clean(s, run(s, "tune", "--from", result), "word", "a result of tune")
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [{**row, "name": f"spin{ESCAPES}"}]}, f)
    check_clean(s, run(s, "tune", "--from", result), result, "a result with an unknown setting")


TESTS = [test_traps, test_terminal, test_pages, test_escapes_of_processes, test_escapes_of_the_system, test_escapes_of_servers,
         test_escapes_of_results]


def main():
    suite = Suite(sys.argv[1])
    # The traps are in folders of it, and other users need access.
    os.chmod(suite.scratch, 0o755)
    return suite.run_all(TESTS)


if __name__ == "__main__":
    sys.exit(main())
