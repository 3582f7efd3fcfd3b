#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
usdma on two machines: network namespaces.  Who is let in by usdma-net, what usdmactl net says, what listens where, and
FABRIC handles of another machine.  hosts_test.py USDMACTL USDMA-NET LIBASCENDCL [more]; prints TAP.
"""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, HERE)
import protocol  # noqa: E402
from hosts import Hosts, Lacks  # noqa: E402
from tap import Points  # noqa: E402

TIMEOUT_S = 60
BRIEF = ("--seconds", "0.01", "--largest", "64K")
FABRIC = """
import ctypes, sys
acl, handle = ctypes.CDLL(sys.argv[1]), (ctypes.c_char * 128)()
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
class Prop(ctypes.Structure):
    _fields_ = [("handleType", ctypes.c_int), ("allocation", ctypes.c_int), ("attr", ctypes.c_int), ("id", ctypes.c_uint32),
                ("type", ctypes.c_int), ("reserve", ctypes.c_uint64)]
memory = ctypes.c_void_p()
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
if len(sys.argv) < 3:
    assert acl.aclrtMallocPhysical(ctypes.byref(memory), ctypes.c_size_t(2 << 20), ctypes.byref(Prop(0, 0, 4, 0, 1, 0)), ctypes.c_uint64(0)) == 0
    assert acl.aclrtMemExportToShareableHandleV2(memory, ctypes.c_uint64(1), 2, handle) == 0
    print(handle.raw.hex(), flush=True)
    sys.stdin.read()
else:
    handle.raw = bytes.fromhex(sys.argv[2])
    code = acl.aclrtMemImportFromShareableHandleV2(handle, 2, ctypes.c_uint32(0), ctypes.byref(memory))
    print(code, (acl.aclGetRecentErrMsg() or b"").decode() if code else "")
"""


class Suite(Points):
    def __init__(self, ctl, net, acl, scratch):
        self.ctl, self.net, self.acl, self.scratch = ctl, net, acl, scratch
        self.key = self.make_key("key")

    def make_key(self, name, mode=0o600, size=32):
        path = os.path.join(self.scratch, name)
        with open(path, "wb") as f:
            f.write(os.urandom(size))
        os.chmod(path, mode)
        return path

    def env(self, host, **more):
        return host.env(**{"USDMA_NET": "eth0", "USDMA_NET_KEY_FILE": self.key, "USDMA_DEVICES": "sim:mem=16M", **more})

    def measure(self, host, address, *more, **settings):
        """(exit status, the JSON)"""
        done = host.run(self.ctl, "net", address, *BRIEF, "--json", *more, env=self.env(host, **settings), timeout=TIMEOUT_S)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    @contextlib.contextmanager
    def listener(self, host, *more, **settings):
        """A machine that listens; its port."""
        with host.popen([self.ctl, "net", "--listen", *more], env=self.env(host, **settings), stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
            try:
                p.first = p.stdout.readline()
                found = re.match(r"listening at (\S+) port (\d+)", p.first)
                p.port = int(found[2]) if found else 0
                yield p
            finally:
                p.send_signal(signal.SIGINT)
                p.rest = p.stdout.read()


def helper_of(process):
    """usdma-net of a usdmactl."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as f:
        return int(f.read().split()[0])


def worked(got):
    return got[0] == 0 and [r["bytes"] for r in got[1]["latency"]] == [8, 64, 512, 4096] and got[1]["bandwidth"][0]["gb_per_s"] > 0


def inside(host, code, *args):
    """Python in a machine; its output."""
    program = f"import sys; sys.path.insert(0, {HERE!r})\nfrom protocol import *\n" + code
    done = host.run(sys.executable, "-c", program, *map(str, args), timeout=TIMEOUT_S)
    return done.stdout.strip() if done.returncode == 0 else done.stderr


def listening(host):
    """Addresses at which something listens."""
    return {line.split()[3].rsplit(":", 1)[0] for line in host.run("ss", "-Hltn").stdout.splitlines()}


def test_measure(s, a, b):
    with s.listener(b) as there:
        got = s.measure(a, b.address())
        s.add(worked(got), "a link is measured", str(got))
        s.add(got[1]["peers"] == [{"address": b.address(), "host": b.id}], "the other machine is named by its identity", str(got))
        s.add(listening(b) == {b.address()}, "only the named interface listens", str(listening(b)))
        done = a.run(s.ctl, "net", b.address(), *BRIEF, env=s.env(a))
        s.add(done.returncode == 0 and "GB/s" in done.stdout and max(map(len, done.stdout.splitlines())) <= 80 and done.stdout.isascii(), "the same as a table", done.stdout + done.stderr)
        said = "".join(there.stdout.readline() for _ in range(4))
    s.add(there.returncode == 130 and said.count("is connected") == 2 and said.count("has left") == 2, "the listener says who comes and leaves", said)


def test_sandbox(s, a, b):
    with open(s.net, "rb") as f:
        filters = b"libseccomp" in f.read()
    with s.listener(b) as there:
        s.measure(a, b.address())
        folder = f"/proc/{helper_of(there)}"
        for task in os.listdir(folder + "/task"):
            with open(f"{folder}/task/{task}/status", encoding="ascii") as f:
                status = dict(line.split(":\t") for line in f.read().splitlines() if line.startswith(("CapEff", "CapPrm", "NoNewPrivs", "Seccomp:")))
            s.add(status["CapEff"] == status["CapPrm"] == "0" * 16 and (not filters or status["NoNewPrivs"] + status["Seccomp"] == "12"), "a thread of usdma-net: no capabilities, a list of system calls", str(status))
        with open(folder + "/environ", "rb") as f:
            names = sorted(word.split(b"=")[0].decode() for word in f.read().split(b"\0") if word)
        s.add(names and all(n.startswith("UCX_") or n == "USDMA_NET_STARTED" for n in names), "it has nothing of the caller's environment", str(names))


def test_keys(s, a, b):
    other, readable, short = s.make_key("other"), s.make_key("readable", 0o644), s.make_key("short", size=31)
    with s.listener(b) as there:
        for what, settings, kind, word in (("another key", {"USDMA_NET_KEY_FILE": other}, "key", "net_key_file"),
                                           ("a key that others can read", {"USDMA_NET_KEY_FILE": readable}, "setting", "chmod 600"),
                                           ("a key of 31 bytes", {"USDMA_NET_KEY_FILE": short}, "setting", "31 bytes"),
                                           ("a key file that is not there", {"USDMA_NET_KEY_FILE": "/nonexistent"}, "setting", "/nonexistent"),
                                           ("an interface that is not there", {"USDMA_NET": "eth7"}, "setting", "eth7")):
            status, got = s.measure(a, b.address(), **settings)
            s.add(status == 1 and got.get("kind") == kind and word in got["error"], f"{what}: an error that says so", str(got))
        for setting in ("USDMA_NET", "USDMA_NET_KEY_FILE"):
            status, got = s.measure(a, b.address(), **{setting: ""})
            s.add(status == 1 and setting in got["error"], f"without {setting}: an error that names it", str(got))
        s.add(worked(s.measure(a, b.address())), "after all of that the right key is let in")
    s.add("another key" in there.rest or there.rest.count("is connected") == 1, "only the right key is a peer", there.rest)
    for setting in ("USDMA_NET", "USDMA_NET_KEY_FILE"):
        with s.listener(b, **{setting: ""}) as there:
            s.add(not there.port and setting in there.first and not listening(b), f"without {setting} nothing listens", there.first)


TALK = """
sock = connect(sys.argv[1], int(sys.argv[2]))
data = bytes.fromhex(sys.argv[3])
try:
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
except OSError:
    pass
said = to_end(sock)
print(len(said), reason(said[64:]))
"""


def test_strangers(s, a, b):
    key = bytes(32)
    cases = [("another version", protocol.hello(2), "76 version"),
             ("reserved bits", protocol.hello(reserved=1), "76 malformed"),
             ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(64), "0"),
             ("a frame of 4 GiB", protocol.hello() + protocol.frame(1, b"", 0xffffffff), "76 malformed"),
             ("an empty offer", protocol.hello() + protocol.frame(1, bytes(48)), "76 malformed"),
             ("a frame of another kind", protocol.hello() + protocol.frame(9, bytes(64)), "76 malformed"),
             ("a proof by another key", protocol.hello() + protocol.frame(1, protocol.offer(key, b"c", protocol.hello(), protocol.hello(), bytes(40))), "76 key"),
             ("half a hello", protocol.hello()[:40], "0")]
    with s.listener(b) as there:
        for name, data, said in cases:
            got = inside(a, TALK, b.address(), there.port, data.hex())
            s.add(got == said, f"a stranger with {name} is refused", got)
        s.add(worked(s.measure(a, b.address())), "the control connection survives them")


SERVER = """
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
peer = server.accept()[0]
peer.settimeout(20)
peer.sendall(bytes.fromhex(sys.argv[3]))
to_end(peer)
"""


def test_wrong_servers(s, a, b):
    for name, data, kind, word in (("another version", protocol.hello(protocol.VERSION + 1), "version", f"version {protocol.VERSION + 1}"),
                                   ("no usdma-net", b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64), "version", "no usdma-net"),
                                   ("too many peers", protocol.hello() + protocol.frame(2, b"\3\0\0\0"), "busy", "as many"),
                                   ("a proof by another key", protocol.hello() + protocol.frame(1, protocol.offer(bytes(32), b"s", bytes(64), bytes(64), bytes(40))), "key", "net_key_file")):
        program = f"import sys; sys.path.insert(0, {HERE!r})\nfrom protocol import *\n" + SERVER
        with b.popen([sys.executable, "-c", program, b.address(), "18600", data.hex()], stdout=subprocess.PIPE, text=True) as server:
            server.stdout.readline()
            status, got = s.measure(a, b.address())
        s.add(status == 1 and got["kind"] == kind and word in got["error"], f"a server with {name}: an error that says so", str(got))
    status, got = s.measure(a, b.address())
    s.add(status == 1 and got["kind"] == "address" and "--listen" in got["advice"], "no server: an error that says so", str(got))
    status, got = s.measure(a, "10.77.0.200")
    s.add(status == 1 and got["kind"] == "firewall" and "18600-18699" in got["advice"], "no machine: an error that says so", str(got))


def test_ipv6(s, a, b):
    with s.listener(b, USDMA_NET=b.address6()) as there:
        got = s.measure(a, f"[{b.address6()}]:{there.port}", USDMA_NET=a.address6())
        s.add(worked(got), "IPv6", str(got))
        s.add(all(b.address6().replace(":0::", "::") in at or "fd77" in at for at in listening(b)), "only its addresses listen", str(listening(b)))


def test_two_interfaces(s, a, b):
    with s.listener(b, USDMA_NET="eth1:20000-20009") as there:
        s.add(there.port == 20000 and listening(b) == {b.address(1)}, "the other interface and its ports", there.first + str(listening(b)))
        got = s.measure(a, f"{b.address(1)}:20000", USDMA_NET="eth1:21000-21009")
        s.add(worked(got), "a link by the other interface", str(got))
        status, got = s.measure(a, f"{b.address()}:20000")
        s.add(status == 1 and got["kind"] == "address", "the first one does not listen", str(got))


def test_ports(s, a, b):
    """Two jobs on a machine; ports that others have."""
    other = s.make_key("job2")
    with s.listener(b) as first, s.listener(b, USDMA_NET="eth0:20000-20001", USDMA_NET_KEY_FILE=other) as second:
        s.add(worked(s.measure(a, f"{b.address()}:{first.port}")) and worked(s.measure(a, f"{b.address()}:{second.port}", USDMA_NET_KEY_FILE=other)),
              "two jobs listen on one machine", first.first + second.first)
        status, got = s.measure(a, f"{b.address()}:{second.port}")
        s.add(status == 1 and got["kind"] == "key", "and do not admit each other's", str(got))
        with s.listener(b) as third:
            s.add("port 18600" in third.first and "other ports" in third.first, "a port that is taken: an error that says so", third.first)
        with s.listener(b, USDMA_NET="eth0:21000-21001") as third:
            s.add(third.port == 21000, "other ports are free", third.first)
        for ports, taken in (("19998-20001", "20000-20001"), ("20000-20001", "20001")):
            with s.listener(b, "--port", "19990", USDMA_NET="eth0:" + ports) as third:
                s.add("other ports" in third.first, f"no port for data is free ({taken}): an error that says so", third.first)


def test_fabric(s, a, b):
    with a.popen([sys.executable, "-c", FABRIC, s.acl], env=s.env(a), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as exporter:
        handle = exporter.stdout.readline().strip()
        for name, host, code, net in (("another", b, "0", "eth0"), ("another", b, "207000", ""), ("the same", a, "0", "")):
            got = host.run(sys.executable, "-c", FABRIC, s.acl, handle, env=s.env(host, USDMA_NET=net)).stdout
            s.add(got.startswith(code + " ") and ("setting net" in got) == (code != "0"), f"a FABRIC handle of {name} machine, net \"{net}\"", got)
        exporter.stdin.close()


def test_not_installed(s, a, b):
    alone = shutil.copy(s.ctl, os.path.join(s.scratch, "usdmactl"))
    done = a.run(alone, "net", b.address(), env=s.env(a))
    s.add(done.returncode == 1 and "package usdma-net" in done.stderr, "without usdma-net: an error that names the package", done.stderr)
    done = a.run(s.net, "--net", "eth0")
    s.add(done.returncode == 2 and "usdmactl net" in done.stderr, "usdma-net by hand: what to start instead", done.stderr)


GATE = (test_measure, test_sandbox, test_keys, test_fabric)
MORE = (test_ports, test_strangers, test_wrong_servers, test_ipv6, test_two_interfaces, test_not_installed)


def main():
    try:
        hosts = Hosts(2, 2)
    except Lacks as e:
        print(f"1..0 # SKIP {e}")
        return 0
    with hosts as (a, b), tempfile.TemporaryDirectory(prefix="usdma-hosts-") as scratch:
        s = Suite(*sys.argv[1:4], scratch)
        for test in MORE if len(sys.argv) > 4 else GATE:
            test(s, a, b)
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
