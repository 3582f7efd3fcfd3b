#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Groups of HCCL with ranks on several machines: network namespaces.  How they meet, what does not, and what becomes of a group whose
rank, helper or link is lost.  hccl_test.py USDMACTL USDMA-NET LIBASCENDCL [more]; prints TAP.
"""
import contextlib
import json
import os
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, HERE)
from agent import Error  # noqa: E402
from hosts import Hosts, Lacks  # noqa: E402
from hosts_test import Suite  # noqa: E402
from memory_test import helper_exits, listening  # noqa: E402
from rank import NETWORK, NOT_SUPPORT, PARA, REMOTE, TCP_CONNECT, TIMEOUT, Rank  # noqa: E402


def answers(ranks):
    """Of requests that were sent to all: (code, text), or (0, the answer)."""
    got = []
    for r in ranks:
        try:
            got.append((0, r.answer()))
        except Error as e:
            got.append((e.code, e.text))
    return got


def all_of(ranks, request, **args):
    for r in ranks:
        r.send(request, **args)
    return answers(ranks)


def join_all(ranks, root):
    for number, r in enumerate(ranks):
        r.send("join", size=len(ranks), root=root, rank=number)
    return answers(ranks)


@contextlib.contextmanager
def programs(s, where, **settings):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Rank(host, s.acl, s.env(host, USDMA_DEVICES="sim:mem=64M", **settings))) for host in where]


@contextlib.contextmanager
def group(s, where, **settings):
    """The ranks of a group, one on each of the machines."""
    with programs(s, where, **settings) as ranks:
        joined = join_all(ranks, ranks[0].root())
        assert not any(code for code, _ in joined), joined
        yield ranks


def sums(s, ranks, name, n=5000):
    for number, r in enumerate(ranks):
        r.send("sum", value=float(number + 1), n=n)
    want = sum(range(1, len(ranks) + 1))
    got = answers(ranks)
    s.add(got == [(0, [True, want])] * len(ranks), name, str(got))


def test_group(s, a, b):
    """The first group: sums of several sizes; the ranks leave in any order."""
    with group(s, (a, b)) as ranks:
        for n in (1, 2, 5000, 20001, 262144):
            sums(s, ranks, f"two machines, {n} elements", n)
        code, text = ranks[0].failure("bind")
        s.add(code == NOT_SUPPORT and "several machines" in text, "one-sided operations are refused", f"{code} {text}")
        s.add(listening(a) == {a.address()} and listening(b) == {b.address()}, "only usdma-net listens, at the interface's address", str(listening(a)))
        ranks[0].start_sum(value=1.0, n=262144)
        s.add(ranks[1].sum(value=2.0, n=262144) == [True, 3.0], "the other rank's result")
        ranks[1].destroy()
        with contextlib.suppress(Error):
            ranks[1].end_now()
        s.add(ranks[0].finish() == [True, 3.0] and ranks[0].state() == [0, ""], "a rank has destroyed its group and exited: the other one's operation succeeds, and no error",
              str(ranks[0].state()))
        begin = time.monotonic()
        ranks[0].destroy()
        s.add(time.monotonic() - begin < 3, "which does not wait for it at its own end")
    s.add(helper_exits(ranks[0]) and helper_exits(ranks[1]), "the helpers exit with their programs")


def test_several(s, a, b, c):
    """Several ranks on a machine, as many on each, or not; in any order."""
    for where in ((a, a, b, b), (b, a, b, a), (a, a, b), (a, b, b, c), (a, b, c)):
        name = "".join("abc"[(a, b, c).index(host)] for host in where)
        with group(s, where) as ranks:
            for n in (1, 3, 8191, 20001, 262143):
                sums(s, ranks, f"ranks on {name}, {n} elements", n)
            all_of(ranks, "destroy")


def test_meeting(s, a, b):
    """What does not meet."""
    with programs(s, (a, b)) as (one, two):
        with Rank(b, s.acl, s.env(b, USDMA_DEVICES="sim:mem=64M", USDMA_NET="")) as off:
            code, text = off.failure("join", size=2, root=one.root(), rank=1)
            s.add(code == NOT_SUPPORT and "USDMA_NET" in text, "a rank without the setting net", f"{code} {text}")
            code, text = one.failure("join", size=2, root=off.root(), rank=1)
            s.add(code == NOT_SUPPORT and "without the setting net" in text, "a root info without the setting net", f"{code} {text}")
    with programs(s, (a, b)) as (one, two):
        with Rank(b, s.acl, s.env(b, USDMA_DEVICES="sim:mem=64M", USDMA_NET_KEY_FILE=s.make_key("wrong"))) as wrong:
            root = one.root()
            one.send("join", size=2, root=root, rank=0)
            code, text = wrong.failure("join", size=2, root=root, rank=1)
            s.add(code == TCP_CONNECT and "net_key_file" in text, "a rank with another key is refused", f"{code} {text}")
            got = two.failure("join", size=2, root=root, rank=0)
            s.add(got[0] == PARA, "the same rank twice", str(got))
            got = two.failure("join", size=3, root=root, rank=1)
            s.add(got[0] == PARA, "another size", str(got))
            two.send("join", size=2, root=root, rank=1)
            got = answers((one, two))
            s.add(got[0][0] == got[1][0] == 0, "and the group meets", str(got))
            sums(s, (one, two), "and works")
            begin = time.monotonic()
            code, text = wrong.failure("join", size=2, root=root, rank=1)
            s.add(code == TCP_CONNECT, "another key, once more", f"{code} {text}")
            code, text = two.failure("join", size=2, root=root, rank=1, name="d")
            s.add(code == TCP_CONNECT and a.address() in text and time.monotonic() - begin < 10, "a stale root info: the group has met", f"{code} {text}")
    with programs(s, (b,)) as (two,):
        begin = time.monotonic()
        code, text = two.failure("join", size=2, root=root, rank=1)
        s.add(code == TCP_CONNECT and time.monotonic() - begin < 10, "a stale root info: its process has ended", f"{code} {text}")
    with programs(s, (a, b), HCCL_CONNECT_TIMEOUT="2") as (one, two):
        begin = time.monotonic()
        code, text = one.failure("join", size=2, root=one.root(), rank=0)
        s.add(code == TIMEOUT and 1.5 < time.monotonic() - begin < 10, "no rank comes: HCCL_CONNECT_TIMEOUT", f"{code} {text}")


def wait_greeted(rank, other, seconds=30):
    """Until the rank has a connection from the other machine: usdma-net has handed it over."""
    until = time.monotonic() + seconds
    while not any(other.address() in line and f"pid={rank.process.pid}," in line for line in rank.host.run("ss", "-Htnp").stdout.splitlines()):
        assert time.monotonic() < until, "no connection"
        time.sleep(0.02)


def test_misuse(s, a, b):
    """Other counts on the two machines, a rank that exits while the group meets, two groups at once."""
    for counts in ((1, 2), (5000, 20001), (262144, 20001), (20001, 0)):
        with group(s, (a, b), HCCL_EXEC_TIMEOUT="2") as ranks:
            for r, n in zip(ranks, counts):
                if n:
                    r.start_sum(value=1.0, n=n)
            for r, n in zip(ranks, counts):
                if n:
                    r.send("finish")
            got = answers([r for r, n in zip(ranks, counts) if n])
            states = [r.state()[0] for r in ranks]
            s.add(all(code in (0, TIMEOUT, REMOTE) for code in states) and [r.failure("destroy")[0] for r in ranks] == [0, 0],
                  f"counts {counts}: an end, if not a result", f"{got} {states}")
            s.add(ranks[0].hash(name="in") and ranks[1].process.poll() is None, "and the programs go on")
    for victim in (0, 1):
        with programs(s, (a, b, b)) as ranks:
            root = ranks[0].root()
            for number in (0, 1):
                ranks[number].send("join", size=3, root=root, rank=number)
            wait_greeted(ranks[0], b)
            os.kill(ranks[victim].process.pid, signal.SIGKILL)
            begin = time.monotonic()
            code, text = answers([ranks[1 - victim]])[0]
            s.add(code in (REMOTE, TCP_CONNECT) and time.monotonic() - begin < 5, f"rank {victim} is killed while the group meets", f"{code} {text}")
            code, text = ranks[2].failure("join", size=3, root=root, rank=2)
            s.add(code == TCP_CONNECT, "and one that comes then", f"{code} {text}")
    with group(s, (a, b)) as ranks:
        root = ranks[1].root()
        for number, r in enumerate(ranks):
            r.send("join", size=2, root=root, rank=1 - number, name="d")
        s.add(answers(ranks)[0][0] == 0, "a second group, whose root is on the other machine")
        for n in (3, 20001):
            for name in "cd":
                for r in ranks:
                    r.start_sum(value=2.0, n=n, name=name)
            got = all_of(ranks, "finish", name="c")
            s.add(got == [(0, [True, 4.0])] * 2, f"operations of two groups in one stream, {n} elements", str(got))
        got = all_of(ranks, "destroy", name="d")
        sums(s, ranks, "the second one is destroyed, the first one works")


def test_lost(s, a, b, c):
    """A rank's program or helper is killed in the middle of an operation: an error on each rank, soon, whose text names the machine."""
    for name, victim in (("the program", lambda r: r.process.pid), ("its helper", lambda r: r.helpers()[0])):
        for lost in (0, 2):
            with group(s, (a, b, c, b), HCCL_EXEC_TIMEOUT="60") as ranks:
                rest = [r for i, r in enumerate(ranks) if i != lost]
                for r in rest:
                    r.send("sums", seconds=60)
                ranks[lost].sum(value=1.0, n=200000)
                os.kill(victim(ranks[lost]), signal.SIGKILL)
                begin = time.monotonic()
                got = answers(rest)
                took = time.monotonic() - begin
                states = [r.state() for r in rest]
                s.add(all(code for code, _ in got) and took < 5, f"{name} of rank {lost} is killed: an error on the others after {took:.2f} s", str(got))
                s.add(all(code == REMOTE and ranks[lost].host.address() in text for code, text in states), "the cause names the machine", str(states))
                begin = time.monotonic()
                all_of(rest, "destroy")
                s.add(time.monotonic() - begin < 5, "and the group can be destroyed")


def test_silent(s, a, b):
    """A link that is down, a helper that is stopped: net_lost_ms. A program that is stopped: HCCL_EXEC_TIMEOUT."""
    for name, begins, over in (("the link is down", lambda r: s.hosts.link(b, False), lambda r: s.hosts.link(b, True)),
                               ("a helper is stopped", lambda r: os.kill(r.pid, signal.SIGSTOP), lambda r: os.kill(r.pid, signal.SIGCONT))):
        with group(s, (a, b), HCCL_EXEC_TIMEOUT="60", USDMA_NET_LOST_MS="2000") as ranks:
            ranks[1].pid = ranks[1].helpers()[0]
            for r in ranks:
                r.send("sums", seconds=60)
            time.sleep(0.3)  # into the middle
            begins(ranks[1])
            begin = time.monotonic()
            got = answers(ranks)
            took = time.monotonic() - begin
            over(ranks[1])
            states = [r.state() for r in ranks]
            s.add(all(code for code, _ in got) and took < 8, f"{name}: an error on both after {took:.2f} s", str(got))
            s.add(all(code in (REMOTE, NETWORK) for code, _ in states) and b.address() in states[0][1], "which the group has, with the machine", str(states))
    with group(s, (a, b), HCCL_EXEC_TIMEOUT="2") as ranks:
        ranks[0].start_sum(value=1.0, n=5000)
        begin = time.monotonic()
        code, text = ranks[0].failure("finish")
        took = time.monotonic() - begin
        s.add(code and 1 < took < 8 and ranks[0].state()[0] == TIMEOUT, f"the other rank does not take part: HCCL_EXEC_TIMEOUT, {took:.2f} s", str(ranks[0].state()))
        s.add(ranks[1].failure("start_sum", value=1.0, n=5000)[0] in (0, REMOTE), "and the other one hears of it")
        until = time.monotonic() + 5
        while not ranks[1].state()[0] and time.monotonic() < until:
            time.sleep(0.02)
        s.add(ranks[1].state()[0] == REMOTE and a.address() in ranks[1].state()[1], "with the machine", str(ranks[1].state()))


def table(servers, version="1.0", **more):
    """servers: (host_ip, devices); ranks in their order."""
    ranks, listed = iter(range(64)), []
    for number, (ip, devices) in enumerate(servers):
        listed.append({"server_id": f"node_{number}", "host_ip": ip, **more,
                       "device": [{"device_id": str(d), "device_ip": f"192.168.1.{number + 1}", "rank_id": str(next(ranks))} for d in range(devices)]})
    return json.dumps({"status": "completed", "version": version, "server_count": str(len(servers)), "server_list": listed})


def test_tables(s, a, b):
    path = os.path.join(s.scratch, "table.json")
    for version, ip in (("1.0", a.address()), ("1.2", a.address()), ("1.0", a.address6())):
        settings = {"USDMA_NET": "eth0"} if "." in ip else {}
        with open(path, "w", encoding="utf-8") as f:
            f.write(table(((ip, 1), (b.address(), 1)), version))
        with contextlib.ExitStack() as stack:
            ranks = [stack.enter_context(Rank(h, s.acl, s.env(h, USDMA_DEVICES="sim:mem=64M", **(settings or {"USDMA_NET": h.address6()})))) for h in (a, b)]
            ranks[1].send("join_table", path=path, rank=1)  # waits for rank 0
            ranks[0].send("join_table", path=path, rank=0)
            got = answers(ranks)
            s.add(got == [(0, None)] * 2, f"by a rank table {version} of two servers, {ip}", str(got))
            sums(s, ranks, "which works")
            all_of(ranks, "destroy")
    with programs(s, (a,), HCCL_CONNECT_TIMEOUT="2") as (one,):
        for text, want, why in ((table((("nowhere", 1), ("10.0.0.1", 1))), PARA, "nowhere"), (table(((a.address(), 1), ("x", 1)), host_port="0"), PARA, "host_port"),
                                (table(((a.address(), 1), (b.address(), 1))), TIMEOUT, "HCCL_CONNECT_TIMEOUT")):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            code, got = one.failure("join_table", path=path, rank=0)
            s.add(code == want and why in got, f"a rank table: {why}", f"{code} {got}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(table(((b.address(), 1), (a.address(), 1))))
        code, got = one.failure("join_table", path=path, rank=1)
        s.add(code in (TIMEOUT, TCP_CONNECT) and b.address() in got, "rank 0 of the table does not come", f"{code} {got}")


def gate(s, a, b, c):
    test_group(s, a, b)


def more(s, a, b, c):
    test_group(s, a, b)
    test_several(s, a, b, c)
    test_meeting(s, a, b)
    test_misuse(s, a, b)
    test_tables(s, a, b)
    test_lost(s, a, b, c)
    test_silent(s, a, b)


def main():
    try:
        hosts = Hosts(3)
    except Lacks as e:
        print(f"1..0 # SKIP {e}")
        return 0
    with hosts as (a, b, c), tempfile.TemporaryDirectory(prefix="usdma-hccl-") as scratch:
        s = Suite(*sys.argv[1:4], scratch)
        s.hosts = hosts
        try:
            chosen = sys.argv[5:] and [globals()[name] for name in sys.argv[5:]]
            for test in chosen or [more if len(sys.argv) > 4 else gate]:
                test(*(s, a, b, c)[:test.__code__.co_argcount])
        except Error as e:
            s.add(False, f"unexpected: {e}")
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
