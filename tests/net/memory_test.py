#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
FABRIC memory of another machine: network namespaces.  Copies in both directions between it and every kind of memory, what
is refused, who exits.  memory_test.py USDMACTL USDMA-NET LIBASCENDCL [more]; prints TAP.
"""
import contextlib
import errno
import hashlib
import os
import random
import shutil
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
from hosts_test import Suite, listening  # noqa: E402

SEED = int(os.environ.get("USDMA_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
MIB = 1 << 20
SIZE = 8 * MIB
KINDS = ("pageable", "pinned", "registered", "device")
PARAM, INVALID_HANDLE, NOT_SUPPORTED, NO_MEMORY, DRV, LINK, REMOTE = 107000, 107017, 207000, 207001, 507899, 507056, 507057


class Pair:
    """Two machines with a program each; b exports "mem", which a has as "other"."""

    def __init__(self, s, a, b, host=False, size=SIZE, **settings):
        self.stack = contextlib.ExitStack()
        self.size = size
        try:
            self.b = self.stack.enter_context(Agent(b, s.acl, s.env(b, USDMA_DEVICES="sim:mem=64M", **settings)))
            self.a = self.stack.enter_context(Agent(a, s.acl, s.env(a, USDMA_DEVICES="sim:mem=64M", **settings)))
            self.handle = self.b.export(name="mem", size=size, host=host)
            self.a.take(name="other", handle=self.handle, size=size)
        except BaseException:
            self.stack.close()
            raise

    def __enter__(self):
        return self.a, self.b

    def __exit__(self, *what):
        return self.stack.__exit__(*what)


def ranges(rng, count):
    """(size, offset here, offset there) within SIZE: edges of pieces, odd ones."""
    sizes = [1, 7, 64, 4095, 4097, MIB - 1, MIB, MIB + 1, 3 * MIB + 5, SIZE // 2]
    for _ in range(count):
        n = rng.choice(sizes)
        yield n, rng.randrange(SIZE - n + 1), rng.randrange(SIZE - n + 1)


def test_copies(s, a, b, rng, rounds, kinds_of_memory=(False, True)):
    for host in kinds_of_memory:
        with Pair(s, a, b, host=host) as (here, there):
            for kind in KINDS:
                here.make(name=kind, kind=kind, size=SIZE)
                wrong = []
                for n, at, to in ranges(rng, rounds):
                    seed = rng.randrange(1 << 30)
                    there.write(name="mem", seed=seed)
                    before, after = there.hash(name="mem", at=0, n=to), there.hash(name="mem", at=to + n, n=SIZE - to - n)
                    here.write(name=kind, seed=seed + 1)
                    sent = here.hash(name=kind, at=at, n=n)
                    here.copy(dst="other", dst_at=to, src=kind, src_at=at, n=n)
                    if (before, sent, after) != (there.hash(name="mem", at=0, n=to), there.hash(name="mem", at=to, n=n), there.hash(name="mem", at=to + n, n=SIZE - to - n)):
                        wrong.append(("to", n, at, to))
                    first, last = here.hash(name=kind, at=0, n=at), here.hash(name=kind, at=at + n, n=SIZE - at - n)
                    there.write(name="mem", seed=seed + 2)
                    want = there.hash(name="mem", at=to, n=n)
                    here.copy(dst=kind, dst_at=at, src="other", src_at=to, n=n)
                    if (first, want, last) != (here.hash(name=kind, at=0, n=at), here.hash(name=kind, at=at, n=n), here.hash(name=kind, at=at + n, n=SIZE - at - n)):
                        wrong.append(("from", n, at, to))
                s.add(not wrong, f"{'host' if host else 'device'} memory of another machine and {kind} memory", str(wrong))


def test_across(s, a, b):
    """A fill whose pattern lies across the end of one import and the begin of the next."""
    with Agent(b, s.acl, s.env(b)) as there, Agent(a, s.acl, s.env(a)) as here:
        here.take_two(names=("x", "y"), handles=[there.export(name=name, size=2 * MIB) for name in ("x", "y")], size=2 * MIB)
        pattern = bytes(range(1, 9))
        for name in ("x", "y"):
            there.write(name=name, seed=6)
        data = bytearray(random.Random(6).randbytes(2 * MIB) * 2)
        for at, n in ((2 * MIB - 11, 64), (2 * MIB - 3, 8), (5, 4 * MIB - 8)):
            here.fill_native(dst="x", dst_at=at, pattern=int.from_bytes(pattern, "little"), n=n // 8 * 8)
            data[at:at + n // 8 * 8] = pattern * (n // 8)
            got = [there.hash(name=name) for name in ("x", "y")]
            s.add(got == [hashlib.sha256(data[i:i + 2 * MIB]).hexdigest() for i in (0, 2 * MIB)], f"a fill of {n} bytes across two imports")
        here.make(name="pinned", kind="pinned", size=4 * MIB)
        here.stream(name="s")
        for first, second in (("other", None), (None, "other")):
            handles = [there.export(name=name, size=2 * MIB) if name else None for name in (first, second)]
            here.take_two(names=("a", "b"), handles=handles, size=2 * MIB)
            for name in ("a", "b", "pinned"):
                here.fill(dst=name, value=1, n=2 * MIB)
            before = [there.hash(name="other"), *(here.hash(name=name, n=2 * MIB) for name in ("a", "b", "pinned"))]
            codes = [here.failure(request, **{"dst": dst, "src": src, "n": 4 * MIB - 5, f"{'dst' if dst == 'a' else 'src'}_at": 5, **stream})[0]
                     for dst, src in (("a", "pinned"), ("pinned", "a")) for request, stream in (("copy", {}), ("copy_async", {"stream": "s"}))]
            codes += [here.failure("fill", dst="a", dst_at=5, value=2, n=4 * MIB - 5, stream=stream)[0] for stream in (None, "s")]
            here.sync(stream="s")
            s.add(codes == [PARAM] * 6 and before == [there.hash(name="other"), *(here.hash(name=name, n=2 * MIB) for name in ("a", "b", "pinned"))],
                  f"across the border of {'both' if first else 'this'} machine's memory: refused, and nothing has changed", str(codes))
            there.drop(name="other")


def test_between(s, a, b, c, rng):
    """From one machine to another one, by a third; and within one."""
    with Pair(s, a, b) as (here, there), Agent(c, s.acl, s.env(c, USDMA_DEVICES="sim:mem=64M")) as third:
        here.take(name="third", handle=third.export(name="mem", size=SIZE), size=SIZE)
        for dst, agent in (("third", third), ("other", there)):
            there.write(name="mem", seed=rng.randrange(1 << 30))
            n, at, to = 3 * MIB + 11, rng.randrange(1000), 4 * MIB + rng.randrange(1000)
            want = there.hash(name="mem", at=at, n=n)
            here.copy(dst=dst, dst_at=to, src="other", src_at=at, n=n)
            s.add(agent.hash(name="mem", at=to, n=n) == want, f"from another machine to {'a third' if agent is third else 'itself'}")


def check_blocked(s, here, there):
    """What is behind a wait has no effect, and the call returns."""
    here.notify(name="go")
    here.stream(name="second")
    here.wait(stream="s", notify="go")
    before = there.hash(name="mem")
    here.copy_async(stream="s", dst="other", src="pinned", n=SIZE)
    here.fill(dst="other", value=7, n=1000, stream="s")
    here.copy_async(stream="s", dst="back", src="other", n=SIZE)
    s.add(there.hash(name="mem") == before, "copies behind a wait have not begun")
    here.record(stream="second", notify="go")
    here.sync(stream="s")
    s.add(there.hash(name="mem") == here.hash(name="back") != before and there.hash(name="mem", at=1000, n=SIZE - 1000) == here.hash(name="pinned", at=1000, n=SIZE - 1000),
          "and then they run in order")


def check_order(s, here, there, rng):
    """Device memory, two streams with an event's order by a notify, many copies of the same bytes."""
    here.make(name="dev", kind="device", size=SIZE)
    wrong = []
    for i in range(20):
        n, at = rng.choice((1, 4096, MIB + 1, 3 * MIB)), rng.randrange(SIZE - 3 * MIB)
        here.write(name="pinned", seed=rng.randrange(1 << 30))
        here.copy_async(stream="s", dst="dev", dst_at=at, src="pinned", src_at=at, n=n)
        here.copy_async(stream="s", dst="other", dst_at=at, src="dev", src_at=at, n=n)
        here.record(stream="s", notify="go")
        here.wait(stream="second", notify="go")
        here.copy_async(stream="second", dst="back", dst_at=at, src="other", src_at=at, n=n)
        here.sync(stream="second")
        if not here.hash(name="back", at=at, n=n) == here.hash(name="pinned", at=at, n=n) == there.hash(name="mem", at=at, n=n):
            wrong.append((i, n, at))
    s.add(not wrong, "from the host to a device, to the other machine and back by another stream", str(wrong))


def check_shapes(s, here, there, rng):
    items, at = [], 0
    while at < SIZE - 20000 and len(items) < 300:
        n = rng.choice((1, 64, 999, 8192))
        items.append((at, SIZE - at - n, n))
        at += n + rng.randrange(3)
    for to, src, dst in ((True, "pinned", "other"), (False, "other", "back")):
        here.write(name="pinned", seed=rng.randrange(1 << 30))
        there.write(name="mem", seed=rng.randrange(1 << 30))
        here.batch(stream="s", dst=dst, src=src, items=items, to_device=to)
        here.sync(stream="s")
        wrong = [i for i in items if here.hash(name=dst, at=i[0], n=i[2]) != here.hash(name=src, at=i[1], n=i[2])]
        s.add(not wrong, f"a batch of {len(items)} copies {'to' if to else 'from'} the other machine", str(wrong[:5]))
    for stream in (None, "s"):
        for dst, src in (("other", "pinned"), ("back", "other")):
            width, rows, pitches = 777, 100, (1000, 2000)
            here.write(name="back", seed=1)
            there.write(name="mem", seed=rng.randrange(1 << 30))
            between = here.hash(name=dst, at=5 + width, n=pitches[0] - width)
            here.rect(dst=dst, dst_at=5, src=src, src_at=3, pitches=pitches, width=width, height=rows, stream=stream)
            if stream:
                here.sync(stream=stream)
            wrong = [r for r in range(rows) if here.hash(name=dst, at=5 + r * pitches[0], n=width) != here.hash(name=src, at=3 + r * pitches[1], n=width)]
            s.add(not wrong and between == here.hash(name=dst, at=5 + width, n=pitches[0] - width), f"a rectangle to {dst}{', in a stream' if stream else ''}", str(wrong))
        there.write(name="mem", seed=2)
        before, after = there.hash(name="mem", at=0, n=17), there.hash(name="mem", at=SIZE - 40, n=40)
        here.fill(dst="other", dst_at=17, value=0x5a, n=SIZE - 57, stream=stream)
        if stream:
            here.sync(stream=stream)
        want = hashlib.sha256(b"\x5a" * (SIZE - 57)).hexdigest()
        s.add((before, want, after) == (there.hash(name="mem", at=0, n=17), there.hash(name="mem", at=17, n=SIZE - 57), there.hash(name="mem", at=SIZE - 40, n=40)),
              f"a fill{', in a stream' if stream else ''}")


def check_capture(s, here, there):
    here.capture(stream="s")
    here.copy_async(stream="s", dst="other", src="pinned", n=SIZE)
    here.fill(dst="other", value=3, n=100, stream="s")
    here.copy_async(stream="s", dst="back", src="other", n=SIZE)
    here.captured(stream="s", name="graph")
    for seed in (11, 12):
        here.write(name="pinned", seed=seed)
        here.replay(stream="s", name="graph")
        here.sync(stream="s")
        s.add(here.hash(name="back") == there.hash(name="mem") and here.hash(name="back", at=100, n=SIZE - 100) == here.hash(name="pinned", at=100, n=SIZE - 100), "a graph with such copies, executed")


def check_native(s, here, there):
    here.write(name="pinned", seed=21)
    number, refused = here.native_stream()
    fill = hashlib.sha256(bytes.fromhex("8877665544332211") * 512).hexdigest()
    s.add(there.hash(name="mem", n=8192) == here.hash(name="pinned", n=8192) and there.hash(name="mem", at=8192, n=4096) == fill, "copies and a fill of the native interface")
    s.add(number == 2, "the number of the second one", str(number))
    s.add(refused == [-errno.EXDEV] * 3, "a value, a wait and a reduction are refused", str(refused))


def test_streams(s, a, b, rng, brief=False):
    with Pair(s, a, b) as (here, there):
        for name in ("pinned", "back"):
            here.make(name=name, kind="pinned", size=SIZE)
        here.stream(name="s")
        here.write(name="pinned", seed=rng.randrange(1 << 30))
        check_blocked(s, here, there)
        if brief:
            return
        check_order(s, here, there, rng)
        check_shapes(s, here, there, rng)
        check_capture(s, here, there)
        check_native(s, here, there)
        here.copy_buffered(stream="s", dst="other", src="pinned", n=SIZE)
        here.sync(stream="s")
        s.add(there.hash(name="mem") == here.hash(name="pinned"), "a copy with a source that changes when the call has returned")
        code, text = here.failure("export_again", name="other")
        s.add(code == NOT_SUPPORTED and "another machine" in text, "imported memory is not exported", f"{code} {text}")


def test_threads(s, a, b, rng):
    with Pair(s, a, b) as (here, there):
        for agent, name, start, threads in ((here, "other", 0, 6), (there, "mem", SIZE // 2, 2)):
            agent.send("hammer", other=name, start=start, size=SIZE // 2, threads=threads, rounds=60, seed=rng.randrange(1 << 30))
        for agent in (here, there):
            wrong = agent.answer()
            s.add(not wrong, "six threads copy at once" if agent is here else "as the exporter does", str(wrong[:5]))


def test_race(s, a, b):
    """USDMA_CHECK=race follows memory of another machine."""
    with tempfile.TemporaryFile("w+") as log, Agent(b, s.acl, s.env(b)) as there, Agent(a, s.acl, s.env(a, USDMA_CHECK="race"), stderr=log) as here:
        here.take(name="other", handle=there.export(name="mem", size=2 * MIB), size=2 * MIB)
        here.make(name="pinned", kind="pinned", size=2 * MIB)
        here.notify(name="go")
        for name in ("s", "t"):
            here.stream(name=name)
        for ordered in (True, False):
            here.copy_async(stream="s", dst="other", src="pinned", n=4096)
            if ordered:
                here.record(stream="s", notify="go")
                here.wait(stream="t", notify="go")
            here.copy_async(stream="t", dst="other", src="pinned", dst_at=100, n=4096)
            here.sync(stream="s")
            here.sync(stream="t")
            log.seek(0)
            text = log.read()
            s.add(("race" in text) != ordered, f"two writes of the same bytes, {'in order' if ordered else 'not ordered: reported'}", text)


def test_dropped(s, a, b):
    """Abort and destruction, before and during copies; failures belong to their stream."""
    with Pair(s, a, b) as (here, there):
        here.make(name="pinned", kind="pinned", size=SIZE)
        here.notify(name="go")
        for what, blocked in (("abort", True), ("abort", False), ("end", False)):
            here.stream(name="s")
            if blocked:
                here.wait(stream="s", notify="go")
            before = there.hash(name="mem")
            for _ in range(10):
                here.copy_async(stream="s", dst="other", src="pinned", n=SIZE)
            begin = time.monotonic()
            getattr(here, what)(stream="s")
            took = time.monotonic() - begin
            s.add(took < 5 and (not blocked or there.hash(name="mem") == before), f"{what} of a stream with copies{' behind a wait' if blocked else ''}: {took:.2f} s")
            if what == "abort":
                here.end(stream="s")
        here.write(name="pinned", seed=5)
        here.copy(dst="other", src="pinned", n=SIZE)
        s.add(there.hash(name="mem") == here.hash(name="pinned"), "what was dropped does not overtake a later copy")
        here.stream(name="s")
        here.stream(name="t")
        here.make(name="dev", kind="device", size=SIZE)
        os.kill(there.helpers()[0], signal.SIGKILL)
        here.copy_async(stream="s", dst="other", src="pinned", n=SIZE)
        here.copy_async(stream="t", dst="dev", src="pinned", n=SIZE)
        got = here.failure("sync", stream="s")
        s.add(got[0] == REMOTE and "another machine" in got[1], "the other helper is killed: the stream's error", str(got))
        s.add(here.failure("sync", stream="t")[0] == 0 and here.failure("sync", stream="s")[0] == 0, "once, and not of another stream")


def test_refused(s, a, b):
    with Pair(s, a, b) as (here, there):
        here.make(name="pinned", kind="pinned", size=SIZE)
        for n, at in ((SIZE, 1), (1, SIZE), (SIZE + 1, 0)):
            code, text = here.failure("copy", dst="other", dst_at=at, src="pinned", n=n)
            s.add(code, f"{n} bytes at {at} are beyond the memory: refused", f"{code} {text}")
        listed = there.export(name="listed", size=2 * MIB, everybody=False)
        code, text = here.failure("take", name="x", handle=listed, size=2 * MIB)
        s.add(code == DRV and "list of processes" in text, "memory for a list of processes is not for other machines", f"{code} {text}")
        there.allow_all(handle=listed)
        code, text = here.failure("take", name="allowed", handle=listed, size=2 * MIB)
        there.write(name="listed", seed=3)
        s.add(not code and here.hash(name="allowed") == there.hash(name="listed"), "and then it is opened to all", f"{code} {text}")
        there.drop(name="listed")
        code, text = here.failure("take", name="x", handle=listed, size=2 * MIB)
        s.add(code == INVALID_HANDLE and "not exported" in text, "memory that was freed", f"{code} {text}")
        key = bytearray(bytes.fromhex(listed))
        key[24 + 30] ^= 1
        code, text = here.failure("take", name="x", handle=key.hex(), size=2 * MIB)
        s.add(code == INVALID_HANDLE, "a key that no one has", f"{code} {text}")
    with Agent(a, s.acl, s.env(a, USDMA_NET_KEY_FILE=s.make_key("wrong"))) as here, Agent(b, s.acl, s.env(b)) as there:
        handle = there.export(name="mem", size=2 * MIB)
        code, text = here.failure("take", name="x", handle=handle, size=2 * MIB)
        s.add(code == DRV and "net_key_file" in text, "another key", f"{code} {text}")
    with Agent(a, s.acl, s.env(a)) as here:
        begin = time.monotonic()
        code, text = here.failure("take", name="x", handle=handle, size=2 * MIB)
        s.add(code == INVALID_HANDLE and b.address() in text and time.monotonic() - begin < 10, "the exporter has ended", f"{code} {text}")
    with Agent(a, s.acl, s.env(a, USDMA_NET="")) as here:
        code, text = here.failure("take", name="x", handle=handle, size=2 * MIB)
        s.add(code == NOT_SUPPORTED and "USDMA_NET" in text, "without the setting net", f"{code} {text}")
    with Agent(a, s.acl, s.env(a, USDMA_NET_KEY_FILE="/nonexistent")) as here:
        code, text = here.failure("export", name="x", size=2 * MIB)
        s.add(code and "net_key_file" in text and not here.helpers(), "without the key: an error that says so, and nothing listens", f"{code} {text}")


def libraries(agent):
    return [m for m in agent.mapped() if ".so" in m]


def test_off(s, a):
    """Off by default."""
    with Agent(a, s.acl, a.env(USDMA_DEVICES="sim:mem=64M")) as here:
        before, mapped = here.descriptors(), libraries(here)
        here.export(name="mem", size=2 * MIB)
        s.add(not here.helpers() and not listening(a), "without the setting nothing listens")
        s.add(here.descriptors() == before + 2 and libraries(here) == mapped, "an export costs its two descriptors, and no library", str((before, here.descriptors())))
    with Agent(a, s.acl, s.env(a)) as here:
        here.export(name="mem", size=2 * MIB)
        s.add(len(here.helpers()) == 1 and listening(a) == {a.address()}, "with it one helper listens, at the interface's address", str(listening(a)))
        s.add(libraries(here) == mapped, "and the program maps no more libraries than without")
    s.add(helper_exits(here), "the helper exits with its program")


def test_program(s, a):
    """A usdma-net beside the library that others may write is not run."""
    top, path = os.path.dirname(os.path.dirname(os.path.dirname(s.acl))), os.environ.get("LD_LIBRARY_PATH", "")
    with tempfile.TemporaryDirectory(prefix="usdma-tree-") as tree:
        for folder, file in (("lib/acl", s.acl), ("net", s.net)):
            os.makedirs(os.path.join(tree, folder))
            shutil.copy(file, os.path.join(tree, folder))
        program = os.path.join(tree, "net/usdma-net")
        # In a user namespace without root both have another owner.
        for mode, owner, owner_of_library, runs in ((0o757, 0, 0, False), (0o755, 65534, 0, False), (0o755, 65534, 65534, True), (0o755, 0, 0, True)):
            os.chown(program, owner, 0)
            os.chown(os.path.join(tree, "lib/acl/libascendcl.so"), owner_of_library, 0)
            os.chmod(program, mode)
            with Agent(a, os.path.join(tree, "lib/acl/libascendcl.so"), s.env(a, LD_LIBRARY_PATH=f"{top}/lib/native:{path}")) as here:
                code, text = here.failure("export", name="mem", size=2 * MIB)
                s.add(not code if runs else code and "is not run" in text and not here.helpers(), f"usdma-net with mode {mode:o} of user {owner}: {'run' if runs else 'refused'}",
                      f"{code} {text}")


def helper_exits(agent, seconds=5):
    end = time.monotonic() + seconds
    while agent.helpers() and time.monotonic() < end:
        time.sleep(0.02)
    return not agent.helpers()


def soon(agent, seconds=10, **request):
    """The request is repeated until it succeeds."""
    end = time.monotonic() + seconds
    while True:
        got = agent.failure(request["do"], **{k: v for k, v in request.items() if k != "do"})
        if not got[0] or time.monotonic() > end:
            return got
        time.sleep(0.05)


def test_freed(s, a, b):
    """Memory that the exporter frees is that of its importers until they free it or end."""
    most = 40 * MIB
    for how in ("frees it", "is killed", "has never imported it"):
        with Agent(b, s.acl, s.env(b, USDMA_DEVICES="sim:mem=64M")) as there, Agent(a, s.acl, s.env(a, USDMA_DEVICES="sim:mem=64M")) as here:
            handle = there.export(name="mem", size=most)
            here.make(name="pinned", kind="pinned", size=MIB)
            if how != "has never imported it":
                here.take(name="other", handle=handle, size=most)
            there.drop(name="mem")
            code, text = here.failure("take", name="x", handle=handle, size=most)
            s.add(code == INVALID_HANDLE, "freed memory cannot be imported any more", f"{code} {text}")
            if how != "has never imported it":
                here.write(name="pinned", seed=31)
                here.copy(dst="other", src="pinned", n=MIB)
                here.fill(dst="pinned", value=0, n=MIB)
                want = hashlib.sha256(random.Random(31).randbytes(MIB)).hexdigest()
                here.copy(dst="pinned", src="other", n=MIB)
                s.add(here.hash(name="pinned") == want, "and who has it uses it")
                code, text = there.failure("export", name="big", size=most)
                s.add(code == NO_MEMORY and "still map" in text, "the exporter does not get it back", f"{code} {text}")
            if how == "frees it":
                here.drop(name="other")
            elif how == "is killed":
                here.process.kill()
            got = soon(there, do="export", name="big", size=most)
            s.add(not got[0], f"the exporter gets it back when the importer {how}", str(got))


def test_again(s, a, b):
    """The exporter's helper has ended: what is exported can be exported anew.  IPv6.  A child has the helper's socket."""
    with Agent(b, s.acl, s.env(b, USDMA_NET=b.address6())) as there, Agent(a, s.acl, s.env(a, USDMA_NET=a.address6())) as here:
        first = there.export(name="mem", size=2 * MIB)
        here.take(name="one", handle=first, size=2 * MIB)
        here.make(name="pinned", kind="pinned", size=2 * MIB)
        here.copy(dst="one", src="pinned", n=2 * MIB)
        s.add(there.hash(name="mem") == here.hash(name="pinned"), "IPv6")
        s.add(there.failure("export_again", name="mem")[0] == DRV, "exported already")
        os.kill(there.helpers()[0], signal.SIGKILL)
        helper_exits(there)
        second = there.export_again(name="mem")
        here.take(name="two", handle=second, size=2 * MIB)
        here.write(name="pinned", seed=77)
        here.copy(dst="two", src="pinned", n=2 * MIB)
        s.add(there.hash(name="mem") == here.hash(name="pinned"), "the helper was killed, and the memory exported anew")
        child = there.fork()
        there.process.kill()
        there.process.wait()
        s.add(helper_exits(there), "the program is killed while a child of it has its descriptors: the helper exits")
        os.kill(child, signal.SIGKILL)


def test_killed(s, a, b):
    """The exporter's program, its helper or the own one is killed; in the middle of copies, too."""
    for name, victim, code in (("the exporter", lambda here, there: there.process.pid, REMOTE), ("its helper", lambda here, there: there.helpers()[0], REMOTE),
                               ("the own helper", lambda here, there: here.helpers()[0], REMOTE)):
        with Pair(s, a, b) as (here, there):
            here.make(name="pinned", kind="pinned", size=SIZE)
            here.copy(dst="other", src="pinned", n=SIZE)
            os.kill(victim(here, there), signal.SIGKILL)
            begin = time.monotonic()
            got = (0, "")
            while not got[0] and time.monotonic() - begin < 5:
                got = here.failure("copy", dst="pinned", src="other", n=SIZE)
            took = time.monotonic() - begin
            s.add(got[0] == code and took < 2, f"{name} is killed: an error after {took:.2f} s", str(got))
            here.make(name="more", kind="device", size=SIZE)
            here.copy(dst="more", src="pinned", n=SIZE)
            if name == "the own helper":
                there.drop(name="mem")
                here.take(name="again", handle=there.export(name="mem", size=SIZE), size=SIZE)
                here.copy(dst="again", src="pinned", n=SIZE)
                s.add(there.hash(name="mem") == here.hash(name="pinned"), "and the next import starts another one")
            else:
                s.add(here.hash(name="more") == here.hash(name="pinned"), "and the rest of the program works")


def gate(s, a, b, c, rng):
    test_copies(s, a, b, rng, 1, (False,))
    test_streams(s, a, b, rng, True)
    test_off(s, a)


def more(s, a, b, c, rng):
    test_copies(s, a, b, rng, 10)
    test_between(s, a, b, c, rng)
    test_streams(s, a, b, rng)
    test_threads(s, a, b, rng)
    test_race(s, a, b)
    test_dropped(s, a, b)
    test_refused(s, a, b)
    test_across(s, a, b)
    test_freed(s, a, b)
    test_again(s, a, b)
    test_killed(s, a, b)
    test_program(s, a)


def main():
    print(f"# USDMA_TEST_SEED={SEED}")
    try:
        hosts = Hosts(3)
    except Lacks as e:
        print(f"1..0 # SKIP {e}")
        return 0
    rng = random.Random(SEED)
    with hosts as (a, b, c), tempfile.TemporaryDirectory(prefix="usdma-memory-") as scratch:
        s = Suite(*sys.argv[1:4], scratch)
        s.hosts = hosts
        try:
            (more if len(sys.argv) > 4 else gate)(s, a, b, c, rng)
        except Error as e:
            s.add(False, f"unexpected: {e}")
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
