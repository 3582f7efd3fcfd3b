#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Copies with another machine that goes wrong in their middle: network namespaces.  Processes that are killed or stopped, links
that are down or slow.  lost_test.py USDMACTL USDMA-NET LIBASCENDCL; prints TAP.
"""
import contextlib
import errno
import os
import random
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, HERE)
from agent import Agent, Error  # noqa: E402
from hosts import Hosts, Lacks  # noqa: E402
from hosts_test import Suite  # noqa: E402
from memory_test import KINDS, LINK, REMOTE, SIZE, Pair  # noqa: E402

SEED = int(os.environ.get("USDMA_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
MANY = 400  # copies of SIZE: seconds of them


@contextlib.contextmanager
def busy(s, a, b, dst, src, **settings):
    """A pair of programs; the first one is in the middle of copies, and its next answer is their result."""
    with Pair(s, a, b, **settings) as (here, there):
        here.make(name="pinned", kind="pinned", size=SIZE)
        here.begin_copies(dst=dst, src=src, n=SIZE, rounds=MANY)
        here.send("end_copies")
        yield here, there


def result(agent):
    """(seconds, code, text)"""
    begin = time.monotonic()
    try:
        agent.answer()
    except Error as e:
        return time.monotonic() - begin, e.code, e.text
    return time.monotonic() - begin, 0, ""


def check_alive(s, here, what):
    """The rest of the program works, and nothing is left of what was lost."""
    here.make(name="more", kind="device", size=SIZE)
    here.copy(dst="more", src="pinned", n=SIZE)
    here.drop(name="other")
    s.add(here.hash(name="more") == here.hash(name="pinned"), f"{what}: the rest of the program works")


def test_killed(s, a, b):
    victims = (("the exporter", lambda here, there: there.process.pid), ("its helper", lambda here, there: there.helpers()[0]),
               ("the own helper", lambda here, there: here.helpers()[0]))
    for dst, src in (("other", "pinned"), ("pinned", "other")):
        for name, victim in victims:
            with busy(s, a, b, dst, src) as (here, there):
                os.kill(victim(here, there), signal.SIGKILL)
                took, code, text = result(here)
                s.add(code == REMOTE and took < 2, f"{name} is killed while {dst} is written: an error after {took:.2f} s", f"{code} {text}")
                check_alive(s, here, name)


def test_stopped(s, a, b):
    """The other helper, or the own one, does not run: net_lost_ms.  The exporter's program does not run: its memory is served."""
    for dst, src in (("other", "pinned"), ("pinned", "other")):
        for name, victim, least in (("the other helper", lambda here, there: there.helpers()[0], 1.6), ("the own helper", lambda here, there: here.helpers()[0], 1.6)):
            with busy(s, a, b, dst, src, USDMA_NET_LOST_MS="2000") as (here, there):
                pid = victim(here, there)
                os.kill(pid, signal.SIGSTOP)
                took, code, text = result(here)
                os.kill(pid, signal.SIGCONT)
                s.add(code == LINK and least < took < 4 and "net_lost_ms" in text, f"{name} is stopped while {dst} is written: an error after {took:.2f} s", f"{code} {text}")
                check_alive(s, here, name)
    with Pair(s, a, b) as (here, there):
        here.make(name="pinned", kind="pinned", size=SIZE)
        here.write(name="pinned", seed=1)
        pid = there.helpers()[0]
        os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        code, text = here.failure("copy_within", dst="other", src="pinned", n=SIZE, ms=300)
        s.add(code == -errno.ETIMEDOUT and 0.3 <= time.monotonic() - begin < 2, "a copy with a deadline: -ETIMEDOUT", f"{code} {text}")
        here.write(name="pinned", seed=2)
        here.send("copy", dst="other", src="pinned", n=100)
        os.kill(pid, signal.SIGCONT)
        here.answer()
        here.copy(dst="other", src="pinned", dst_at=SIZE // 2, src_at=SIZE // 2, n=SIZE // 2)
        s.add(here.hash(name="pinned", n=100) == there.hash(name="mem", n=100), "and what it left does not overtake the next one, which is short")
    with Pair(s, a, b, USDMA_NET_LOST_MS="1000") as (here, there):
        here.make(name="pinned", kind="pinned", size=SIZE)
        here.write(name="pinned", seed=3)
        os.kill(there.process.pid, signal.SIGSTOP)
        time.sleep(2)  # longer than net_lost_ms
        here.copy(dst="other", src="pinned", n=SIZE)
        here.write(name="pinned", seed=4)
        here.copy(dst="pinned", src="other", n=SIZE)
        os.kill(there.process.pid, signal.SIGCONT)
        s.add(here.hash(name="pinned") == there.hash(name="mem"), "the exporter's program is stopped: its memory is served")


def test_link(s, a, b):
    for dst, src in (("other", "pinned"), ("pinned", "other")):
        with busy(s, a, b, dst, src, USDMA_NET_LOST_MS="2000") as (here, there):
            s.hosts.link(b, False)
            took, code, text = result(here)
            s.hosts.link(b, True)
            s.add(code == LINK and 1.6 < took < 4 and "net_lost_ms" in text, f"the link is down while {dst} is written: an error after {took:.2f} s", f"{code} {text}")
            check_alive(s, here, "link")
            here.take(name="again", handle=there.export(name="mem2", size=SIZE), size=SIZE)
            here.copy(dst="again", src="pinned", n=SIZE)
            s.add(here.hash(name="pinned") == there.hash(name="mem2"), "and up again: an import works")
    with busy(s, a, b, "other", "pinned") as (here, there):
        s.hosts.link(b, False)
        time.sleep(3)
        s.hosts.link(b, True)
        took, code, text = result(here)
        s.add(code == 0 and here.hash(name="pinned") == there.hash(name="mem"), f"the link is down for 3 s: the copies go on ({took:.1f} s)", f"{code} {text}")


def test_slow(s, a, b):
    """1 MB/s, with some seconds of data in flight."""
    for host in (a, b):
        done = s.hosts.switch.run("tc", "qdisc", "add", "dev", f"p0-{host.number}", "root", "tbf", "rate", "10mbit", "burst", "16k", "latency", "2s")
        if done.returncode:
            s.skip("a slow link", done.stderr.strip())
            return
    with Pair(s, a, b) as (here, there):
        for kind in KINDS[:2]:
            here.make(name=kind, kind=kind, size=SIZE)
            here.write(name=kind, seed=9)
            took = here.copy(dst="other", src=kind, n=SIZE)
            s.add(took > 4 and here.hash(name=kind) == there.hash(name="mem"), f"10 Mbit/s: {took:.1f} s for {SIZE >> 20} MiB")
    for host in (a, b):
        s.hosts.switch.run("tc", "qdisc", "del", "dev", f"p0-{host.number}", "root")


def test_many(s, a, b):
    """Imports and programs that come and leave: nothing grows."""
    with Pair(s, a, b) as (here, there):
        here.make(name="pinned", kind="pinned", size=SIZE)
        first, handle = None, there.export(name="more", size=2 << 20)
        for _ in range(3):
            for _ in range(200):
                here.take(name="x", handle=there.export(name="y", size=2 << 20), size=2 << 20)
                here.copy(dst="x", src="pinned", n=10)
                here.drop(name="x")
                there.drop(name="y")
            first = first or counts(here, there)
        last = counts(here, there, first)
        s.add(all(n <= m for n, m in zip(last, first)), "600 exports and imports: no descriptor is left", f"{first} {last}")
        for _ in range(20):
            with Agent(a, s.acl, s.env(a)) as more:
                more.take(name="other", handle=handle, size=2 << 20)
                more.make(name="p", kind="pinned", size=4096)
                more.copy(dst="other", src="p", n=4096)
        last = counts(here, there, first)
        s.add(all(n <= m + 1 for n, m in zip(last, first)), "20 programs have come and left", f"{first} {last}")


def test_often(s, a, b, rng):
    """Six threads copy while one helper or the other is killed at any moment: each gets an error that says so, none hangs."""
    with Pair(s, a, b) as (here, there):
        here.make(name="pinned", kind="pinned", size=SIZE)
        here.drop(name="other")
        wrong, descriptors = [], []
        for i in range(16):
            there.drop(name="mem")
            here.take(name="other", handle=there.export(name="mem", size=SIZE), size=SIZE)
            here.send("hammer", other="other", start=0, size=SIZE, threads=6, rounds=1000000, seed=rng.randrange(1 << 30))
            time.sleep(rng.random() * 0.4)
            os.kill((here, there)[i % 2].helpers()[0], signal.SIGKILL)
            begin = time.monotonic()
            got = here.answer()
            took = time.monotonic() - begin
            if took > 2 or len(got) != 6 or not all(str(REMOTE) in text for text in got):
                wrong.append((i, took, got))
            here.drop(name="other")
            descriptors.append(here.descriptors())
        s.add(not wrong, "six threads while helpers are killed", str(wrong))
        s.add(descriptors[-1] <= descriptors[1], "and no descriptor is left", str(descriptors))


def counts(here, there, most=None):
    """Descriptors of both helpers and programs; helpers close some a little later."""
    end = time.monotonic() + 10
    while True:
        time.sleep(0.2)
        now = [len(os.listdir(f"/proc/{p}/fd")) for p in (*here.helpers(), *there.helpers(), here.process.pid, there.process.pid)]
        if not most or time.monotonic() > end or all(n <= m for n, m in zip(now, most)):
            return now


def main():
    print(f"# USDMA_TEST_SEED={SEED}")
    try:
        hosts = Hosts(2)
    except Lacks as e:
        print(f"1..0 # SKIP {e}")
        return 0
    with hosts as (a, b), tempfile.TemporaryDirectory(prefix="usdma-lost-") as scratch:
        s = Suite(*sys.argv[1:4], scratch)
        s.hosts = hosts
        rng = random.Random(SEED)
        for test in (test_killed, test_stopped, test_link, test_slow, test_many, lambda *all: test_often(*all, rng)):
            try:
                test(s, a, b)
            except Error as e:
                s.add(False, f"unexpected in {test.__name__}: {e}")
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
