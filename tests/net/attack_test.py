#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An attacker on the network of usdma-net, without the key: many connections, slow ones, recorded and changed conversations,
junk at the port for data, a close at each step; links that fail.  attack_test.py USDMACTL USDMA-NET LIBASCENDCL; prints TAP.
"""
import os
import random
import re
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, HERE)
import protocol  # noqa: E402
from hosts import Hosts, Lacks  # noqa: E402
from hosts_test import Suite, helper_of, inside, worked  # noqa: E402

SEED = int(os.environ.get("USDMA_TEST_SEED") or random.SystemRandom().randrange(1 << 32))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def idle_descriptors(pid, most):
    """Waits until there are no more than these; how many there are."""
    end = time.monotonic() + 20
    while descriptors(pid) > most and time.monotonic() < end:
        time.sleep(0.05)
    return descriptors(pid)


HOLD = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
socks, count, data = [], int(sys.argv[3]), bytes.fromhex(sys.argv[4])
for i in range(count):
    try:
        socks.append(connect(sys.argv[1], int(sys.argv[2]), 5))
        socks[-1].sendall(data)
    except OSError:
        pass
print(len(socks), flush=True)
sys.stdin.read()
"""


def test_many(s, a, b):
    with s.listener(b) as there:
        pid = helper_of(there)
        s.measure(a, b.address())  # UCX opens some with the first peer
        while "has left" not in there.stdout.readline():
            pass
        first = descriptors(pid)
        for name, data in (("silent", b""), ("half a hello", protocol.hello()[:30]), ("a hello", protocol.hello())):
            program = f"import sys; sys.path.insert(0, {HERE!r})\nfrom protocol import *\n" + HOLD
            with a.popen([sys.executable, "-c", program, b.address(), str(there.port), "1000", data.hex()], stdin=-1, stdout=-1, text=True) as crowd:
                count = int(crowd.stdout.readline())
                got = s.measure(a, b.address())
                s.add(count > 900 and worked(got) and descriptors(pid) < first + 80, f"{count} connections at once ({name}) let the right one through", str(got))
                crowd.stdin.close()
        s.add(idle_descriptors(pid, first) <= first, "and leave no descriptor", f"{first} {descriptors(pid)}")


SLOW = """
import time
sock, data, begin = connect(sys.argv[1], int(sys.argv[2])), bytes.fromhex(sys.argv[3]), time.monotonic()
try:
    for i in range(len(data)):
        sock.sendall(data[i:i + 1])
        sock.settimeout(0.2)
        try:
            if not sock.recv(1):
                break
        except TimeoutError:
            pass
except OSError:
    pass
print(time.monotonic() - begin)
"""


def test_slow(s, a, b):
    with s.listener(b) as there:
        took = float(inside(a, SLOW, b.address(), there.port, protocol.hello().hex()))
        s.add(4 < took < 12, f"a byte each 0.2 s: the connection is closed after {took:.1f} s")


RELAY = """
import random, threading
server, target, drop, flip = socket.create_server((sys.argv[1], int(sys.argv[2]))), (sys.argv[3], int(sys.argv[4])), int(sys.argv[5]), int(sys.argv[6])
print("ready", flush=True)
left = server.accept()[0]
right = connect(*target)
record = {left: b"", right: b""}
def carry(source, to, down):
    count = 0
    while True:
        try:
            data = source.recv(4096)
            record[source] += data
            if not data:
                break
            if down and drop >= 0 and count + len(data) > drop:
                to.sendall(data[:drop - count])
                break
            if not down and flip >= 0 and count <= flip < count + len(data):
                data = bytearray(data)
                data[flip - count] ^= 1
            count += len(data)
            to.sendall(data)
        except OSError:
            break
    for sock in (source, to):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
threads = [threading.Thread(target=carry, args=args) for args in ((left, right, False), (right, left, True))]
for t in threads: t.start()
for t in threads: t.join()
print(record[left].hex(), flush=True)
"""


def relayed(s, a, b, port, drop=-1, flip=-1):
    """A conversation through a relay in a's machine; what usdmactl says, and what the client said."""
    program = f"import sys; sys.path.insert(0, {HERE!r})\nfrom protocol import *\n" + RELAY
    with a.popen([sys.executable, "-c", program, a.address(), "19000", b.address(), str(port), str(drop), str(flip)], stdout=-1, text=True) as relay:
        relay.stdout.readline()
        got = s.measure(a, f"{a.address()}:19000")
        return got, relay.stdout.read().strip()


def test_relay(s, a, b):
    rng = random.Random(SEED)
    with s.listener(b) as there:
        pid = helper_of(there)
        got, said = relayed(s, a, b, there.port)
        s.add(worked(got), "a relay that changes nothing is not noticed", str(got))
        again = inside(a, "sock = connect(sys.argv[1], int(sys.argv[2]))\nsock.sendall(bytes.fromhex(sys.argv[3]))\nprint(reason(to_end(sock)[64:]))",
                       b.address(), there.port, said)
        s.add(again == "key", "a recorded conversation is refused", again)
        first = descriptors(pid)
        length = len(said) // 2
        for flip in sorted({0, 8, 12, 20, 40, 64, 68, 72, 104, length - 1} | set(rng.sample(range(length), 4))):
            got, _ = relayed(s, a, b, there.port, flip=flip)
            s.add(got[0] == 1 and got[1]["kind"] in ("key", "version", "other", "firewall"), f"byte {flip} changed on its path: refused", str(got))
        for drop in (0, 1, 63, 64, 65, 71, 72, 100, 157):
            got, _ = relayed(s, a, b, there.port, drop=drop)
            s.add(got[0] == 1, f"the connection is closed after {drop} bytes of the server: an error", str(got))
        s.add(idle_descriptors(pid, first) <= first, "and no descriptor remains", f"{first} {descriptors(pid)}")
        s.add(worked(s.measure(a, b.address())), "the listener goes on")


JUNK = """
import random
rng = random.Random(int(sys.argv[4]))
for i in range(100):
    try:
        sock = connect(sys.argv[1], int(sys.argv[2]), 5)
        sock.sendall(bytes.fromhex(sys.argv[3]) + rng.randbytes(rng.randrange(1, 3000)))
        sock.close()
    except OSError:
        pass
"""
UCX_MAGIC = (0xCAFEBABE12345678).to_bytes(8, "little")


def test_data_port(s, a, b):
    for name, start in (("junk", b""), ("UCX's own number and junk", UCX_MAGIC)):
        with s.listener(b) as there:
            data = [line.split()[3].rsplit(":", 1)[1] for line in b.run("ss", "-Hltn").stdout.splitlines()]
            port = next(int(p) for p in data if int(p) != there.port)
            inside(a, JUNK, b.address(), port, start.hex(), SEED)
            alive = there.poll() is None
            if alive:
                s.add(worked(s.measure(a, b.address())), f"{name} at the port for data: the link works")
        if not alive:
            s.add("usdma-net has ended (signal" in there.rest and there.returncode == 1, f"{name} at the port for data: UCX aborts usdma-net, which is said", there.rest)


def test_lost(s, a, b):
    """The other machine's process is killed or stopped, or the link is down, in the middle of a measurement."""
    more = ("--seconds", "30")
    for name, what in (("killed", lambda pid: os.kill(pid, signal.SIGKILL)), ("stopped", lambda pid: os.kill(pid, signal.SIGSTOP)),
                       ("unplugged", lambda pid: s.hosts.link(b, False))):
        with s.listener(b, USDMA_NET_LOST_MS="1000") as there:
            pid = helper_of(there)
            with a.popen([s.ctl, "net", b.address(), *more], env=s.env(a, USDMA_NET_LOST_MS="1000"), stdin=-3, stdout=-1, stderr=-1, text=True) as client:
                client.stdout.readline()
                begin = time.monotonic()
                what(pid)
                text = client.stderr.read()
                took = time.monotonic() - begin
            s.add(client.returncode == 1 and re.search("1000 ms|ended|closed|peer", text) and took < 10, f"the other machine is {name}: an error after {took:.1f} s", text)
            if name == "stopped":
                os.kill(pid, signal.SIGCONT)
            s.hosts.link(b, True)
    with s.listener(b) as there:
        with a.popen([s.ctl, "net", b.address(), *more], env=s.env(a), stdin=-3, stdout=-3, stderr=-3) as client:
            line = there.stdout.readline()
            os.kill(helper_of(client), signal.SIGKILL)
            begin = time.monotonic()
            left = there.stdout.readline()
        s.add("is connected" in line and "has left" in left and time.monotonic() - begin < 5, "a client that is killed has left at once", line + left)


def test_firewall(s, a, b):
    """Ports of data that are dropped: rules for routes come before those for this machine."""
    b.ip("rule add pref 100 lookup local")
    b.ip("rule del pref 0 lookup local")
    b.ip("rule add pref 10 ipproto tcp dport 18650-18699 blackhole")
    with s.listener(b):
        status, got = s.measure(a, b.address())
    s.add(status == 1 and got["kind"] == "data" and "18600-18699" in got["advice"], "a firewall before the ports for data: an error that says so", str(got))
    b.ip("rule del pref 10")
    with s.listener(b):
        s.add(worked(s.measure(a, b.address())), "and without it the link works")


def main():
    print(f"# USDMA_TEST_SEED={SEED}")
    try:
        hosts = Hosts(2)
    except Lacks as e:
        print(f"1..0 # SKIP {e}")
        return 0
    with hosts as (a, b), tempfile.TemporaryDirectory(prefix="usdma-attack-") as scratch:
        s = Suite(*sys.argv[1:4], scratch)
        s.hosts = hosts
        for test in (test_many, test_slow, test_relay, test_data_port, test_lost, test_firewall):
            test(s, a, b)
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
