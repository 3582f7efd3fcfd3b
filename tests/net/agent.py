# SPDX-License-Identifier: BSD-3-Clause
"""
A program of the ACL runtime that does what it is to do: a request of JSON a line, and its answer.  agent.py LIBASCENDCL.

Agent starts one on a machine of a test.
"""
import ctypes
import hashlib
import json
import mmap
import os
import random
import subprocess
import sys
import threading
import time

HBM_HUGE, DDR_NORMAL = 4, 2
DEFAULT_KIND, FABRIC, OPEN = 4, 2, 1


class Prop(ctypes.Structure):
    _fields_ = [("handleType", ctypes.c_int), ("allocation", ctypes.c_int), ("attr", ctypes.c_int), ("id", ctypes.c_uint32),
                ("type", ctypes.c_int), ("reserve", ctypes.c_uint64)]


class Location(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("type", ctypes.c_int)]


class BatchAttr(ctypes.Structure):
    _fields_ = [("dst", Location), ("src", Location), ("rsv", ctypes.c_uint8 * 16)]


class Attribute(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint32 * 9)]


class Failed(Exception):
    """A call of ACL has failed."""


class Server:
    def __init__(self, library):
        self.acl = ctypes.CDLL(library)
        self.acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.areas, self.held, self.physical, self.streams = {}, {}, {}, {}
        self.usdma = self.device = None

    def call(self, name, *args):
        code = getattr(self.acl, name)(*args)
        if code:
            raise Failed(code, (self.acl.aclGetRecentErrMsg() or b"").decode())

    def at(self, name, offset=0):
        return ctypes.c_void_p(self.areas[name][0] + offset)

    # ---- requests ----

    def begin(self):
        self.call("aclInit", None)
        self.call("aclrtSetDevice", 0)

    def map(self, name, memory, size):
        va = ctypes.c_void_p()
        self.call("aclrtReserveMemAddress", ctypes.byref(va), ctypes.c_size_t(size), ctypes.c_size_t(0), None, ctypes.c_uint64(0))
        self.call("aclrtMapMem", va, ctypes.c_size_t(size), ctypes.c_size_t(0), memory, ctypes.c_uint64(0))
        self.areas[name], self.physical[name] = (va.value, size), memory

    def make_physical(self, size, host=False):
        memory = ctypes.c_void_p()
        prop = Prop(0, 0, DDR_NORMAL if host else HBM_HUGE, 0, 0 if host else 1, 0)
        self.call("aclrtMallocPhysical", ctypes.byref(memory), ctypes.c_size_t(size), ctypes.byref(prop), ctypes.c_uint64(0))
        return memory

    def export(self, name, size, host=False, everybody=True):
        memory, handle = self.make_physical(size, host), (ctypes.c_char * 128)()
        self.map(name, memory, size)
        self.call("aclrtMemExportToShareableHandleV2", memory, ctypes.c_uint64(OPEN if everybody else 0), FABRIC, handle)
        return handle.raw.hex()

    def export_again(self, name):
        handle = (ctypes.c_char * 128)()
        self.call("aclrtMemExportToShareableHandleV2", self.physical[name], ctypes.c_uint64(OPEN), FABRIC, handle)
        return handle.raw.hex()

    def allow_all(self, handle):
        """As memory pools do it: by the driver's interface, after the export."""
        hal = ctypes.CDLL(os.path.join(os.path.dirname(self.acl._name), "../ascend/libascend_hal.so"))
        raw, number = (ctypes.c_char * 128)(), ctypes.c_uint64()
        raw.raw = bytes.fromhex(handle)
        attribute = (ctypes.c_uint32 * 9)(1)
        hal.halMemShareHandleSetAttribute.argtypes = [ctypes.c_uint64, ctypes.c_int, Attribute]
        codes = [hal.halMemTransShareableHandle(1, raw, ctypes.byref(ctypes.c_uint32()), ctypes.byref(number)),
                 hal.halMemShareHandleSetAttribute(number, 0, Attribute(attribute))]
        if any(codes):
            raise Failed(max(codes), str(codes))

    def fork(self):
        """A child that does not exec, with all descriptors; its number."""
        child = os.fork()
        if not child:
            time.sleep(600)
            os._exit(0)
        return child

    def import_memory(self, handle):
        memory, raw = ctypes.c_void_p(), (ctypes.c_char * 128)()
        raw.raw = bytes.fromhex(handle)
        self.call("aclrtMemImportFromShareableHandleV2", raw, FABRIC, ctypes.c_uint64(0), ctypes.byref(memory))
        return memory

    def take(self, name, handle, size):
        self.map(name, self.import_memory(handle), size)

    def drop(self, name):
        va = self.at(name)
        self.call("aclrtUnmapMem", va)
        self.call("aclrtReleaseMemAddress", va)
        self.call("aclrtFreePhysical", self.physical.pop(name))
        del self.areas[name]

    def make(self, name, kind, size):
        p = ctypes.c_void_p()
        if kind == "device":
            self.call("aclrtMalloc", ctypes.byref(p), ctypes.c_size_t(size), 0)
        elif kind == "pinned":
            self.call("aclrtMallocHost", ctypes.byref(p), ctypes.c_size_t(size))
        else:
            self.held[name] = mmap.mmap(-1, size)
            p.value = ctypes.addressof(ctypes.c_char.from_buffer(self.held[name]))
            if kind == "registered":
                self.call("aclrtHostRegister", p, ctypes.c_uint64(size), 0, ctypes.byref(ctypes.c_void_p()))
        self.areas[name] = (p.value, size)

    def write(self, name, seed, at=0, n=None):
        """Random bytes."""
        n = self.areas[name][1] - at if n is None else n
        data = random.Random(seed).randbytes(n)
        self.call("aclrtMemcpy", self.at(name, at), ctypes.c_size_t(n), data, ctypes.c_size_t(n), DEFAULT_KIND)
        return hashlib.sha256(data).hexdigest()

    def hash(self, name, at=0, n=None):
        n = self.areas[name][1] - at if n is None else n
        data = (ctypes.c_char * max(n, 1))()
        if n:
            self.call("aclrtMemcpy", data, ctypes.c_size_t(n), self.at(name, at), ctypes.c_size_t(n), DEFAULT_KIND)
        return hashlib.sha256(data.raw[:n]).hexdigest()

    def copy(self, dst, src, n, dst_at=0, src_at=0):
        begin = time.monotonic()
        self.call("aclrtMemcpy", self.at(dst, dst_at), ctypes.c_size_t(n), self.at(src, src_at), ctypes.c_size_t(n), DEFAULT_KIND)
        return time.monotonic() - begin

    def native(self):
        """libusdma, and a handle of its first device."""
        if not self.device:
            with open("/proc/self/maps", encoding="utf-8") as f:
                path = next(line.split(maxsplit=5)[5].strip() for line in f if "/libusdma.so" in line)
            self.usdma = ctypes.CDLL(path)
            self.usdma.usdma_error_text.restype = ctypes.c_char_p
            self.device = ctypes.c_void_p()
            assert self.usdma.usdma_open_index(0, ctypes.byref(self.device)) == 0
        return self.usdma

    def result(self, code):
        if code < 0:
            raise Failed(code, self.native().usdma_error_text().decode())

    def copy_within(self, dst, src, n, ms):
        self.result(self.native().usdma_copy_sync(self.device, self.at(dst), self.at(src), ctypes.c_size_t(n), ms))

    def native_stream(self):
        """A copy, a fill and a batch of the native interface, and what is refused."""
        lib, stream, a, b = self.native(), ctypes.c_void_p(), self.at("other"), self.at("pinned")
        number = ctypes.c_uint64()
        self.result(lib.usdma_stream_create(self.device, None, ctypes.byref(stream)))
        self.result(lib.usdma_copy(stream, a, b, ctypes.c_size_t(4096)))
        self.result(lib.usdma_submit_copy(stream, self.at("other", 4096), self.at("pinned", 4096), ctypes.c_size_t(4096), 1, ctypes.byref(number)))
        self.result(lib.usdma_fill(stream, self.at("other", 8192), ctypes.c_uint64(0x1122334455667788), 8, ctypes.c_size_t(4096)))
        self.result(lib.usdma_stream_sync(stream, 20000))
        refused = [lib.usdma_write_value(stream, a, ctypes.c_uint64(1)), lib.usdma_wait_value(stream, a, 1, ctypes.c_uint64(1)),
                   lib.usdma_reduce(stream, a, b, ctypes.c_size_t(8), 0, 0)]
        self.result(lib.usdma_stream_destroy(stream))
        return number.value, refused

    def fill_native(self, dst, dst_at, pattern, n):
        self.result(self.native().usdma_fill_sync(self.device, self.at(dst, dst_at), ctypes.c_uint64(pattern), 8, ctypes.c_size_t(n), 20000))

    def take_two(self, names, handles, size):
        """Two imports, one behind the other; without a handle memory of this machine."""
        va = ctypes.c_void_p()
        self.call("aclrtReserveMemAddress", ctypes.byref(va), ctypes.c_size_t(2 * size), ctypes.c_size_t(0), None, ctypes.c_uint64(0))
        for i, (name, handle) in enumerate(zip(names, handles)):
            memory = self.import_memory(handle) if handle else self.make_physical(size)
            self.call("aclrtMapMem", ctypes.c_void_p(va.value + i * size), ctypes.c_size_t(size), ctypes.c_size_t(0), memory, ctypes.c_uint64(0))
            self.areas[name], self.physical[name] = (va.value + i * size, 2 * size - i * size), memory

    def copy_buffered(self, stream, dst, src, n):
        """The source changes as soon as the call has returned."""
        source = ctypes.create_string_buffer(ctypes.string_at(self.areas[src][0], n), n)
        self.call("aclrtMemcpyAsync", self.at(dst), ctypes.c_size_t(n), source, ctypes.c_size_t(n), 5, self.streams[stream])
        ctypes.memset(source, 0xee, n)

    def times(self, dst, src, n, rounds):
        """The median of synchronous copies, in seconds."""
        args = [self.at(dst), ctypes.c_size_t(n), self.at(src), ctypes.c_size_t(n), DEFAULT_KIND]
        took = []
        for _ in range(rounds):
            begin = time.perf_counter()
            code = self.acl.aclrtMemcpy(*args)
            took.append(time.perf_counter() - begin)
            if code:
                self.call("aclrtMemcpy", *args)
        return sorted(took)[rounds // 2]

    def stream(self, name):
        self.streams[name] = ctypes.c_void_p()
        self.call("aclrtCreateStream", ctypes.byref(self.streams[name]))

    def copy_async(self, stream, dst, src, n, dst_at=0, src_at=0):
        self.call("aclrtMemcpyAsync", self.at(dst, dst_at), ctypes.c_size_t(n), self.at(src, src_at), ctypes.c_size_t(n), DEFAULT_KIND, self.streams[stream])

    def sync(self, stream):
        self.call("aclrtSynchronizeStream", self.streams[stream])

    def abort(self, stream):
        self.call("aclrtStreamAbort", self.streams[stream])

    def end(self, stream):
        self.call("aclrtDestroyStream", self.streams.pop(stream))

    def notify(self, name):
        self.streams[name] = ctypes.c_void_p()
        self.call("aclrtCreateNotify", ctypes.byref(self.streams[name]), ctypes.c_uint64(0))

    def wait(self, stream, notify):
        self.call("aclrtWaitAndResetNotify", self.streams[notify], self.streams[stream], ctypes.c_uint32(0))

    def record(self, stream, notify):
        self.call("aclrtRecordNotify", self.streams[notify], self.streams[stream])

    def fill(self, dst, value, n, dst_at=0, stream=None):
        if stream:
            self.call("aclrtMemsetAsync", self.at(dst, dst_at), ctypes.c_size_t(n), ctypes.c_int32(value), ctypes.c_size_t(n), self.streams[stream])
        else:
            self.call("aclrtMemset", self.at(dst, dst_at), ctypes.c_size_t(n), ctypes.c_int32(value), ctypes.c_size_t(n))

    def rect(self, dst, src, pitches, width, height, dst_at=0, src_at=0, stream=None):
        args = [self.at(dst, dst_at), ctypes.c_size_t(pitches[0]), self.at(src, src_at), ctypes.c_size_t(pitches[1]), ctypes.c_size_t(width),
                ctypes.c_size_t(height), DEFAULT_KIND]
        self.call("aclrtMemcpy2dAsync" if stream else "aclrtMemcpy2d", *args, *([self.streams[stream]] if stream else []))

    def batch(self, stream, dst, src, items, to_device):
        """items: (offset in dst, offset in src, bytes)"""
        count = len(items)
        dsts = (ctypes.c_void_p * count)(*(self.areas[dst][0] + i[0] for i in items))
        srcs = (ctypes.c_void_p * count)(*(self.areas[src][0] + i[1] for i in items))
        sizes = (ctypes.c_size_t * count)(*(i[2] for i in items))
        attr = BatchAttr(Location(0, int(to_device)), Location(0, int(not to_device)))
        self.call("aclrtMemcpyBatchAsync", dsts, sizes, srcs, sizes, ctypes.c_size_t(count), ctypes.byref(attr), (ctypes.c_size_t * 1)(0), ctypes.c_size_t(1),
                  ctypes.byref(ctypes.c_size_t()), self.streams[stream])

    def capture(self, stream):
        self.call("aclmdlRICaptureBegin", self.streams[stream], 2)

    def captured(self, stream, name):
        self.streams[name] = ctypes.c_void_p()
        self.call("aclmdlRICaptureEnd", self.streams[stream], ctypes.byref(self.streams[name]))

    def replay(self, stream, name):
        self.call("aclmdlRIExecuteAsync", self.streams[name], self.streams[stream])

    def hammer(self, other, start, size, threads, rounds, seed):
        """Threads that copy to and from parts of the memory of their own, now and then in streams; what was wrong."""
        wrong, part = [], size // threads

        def one(number, memory):
            rng, stream = random.Random(seed + number), ctypes.c_void_p()
            self.call("aclrtSetDevice", 0)
            self.call("aclrtCreateStream", ctypes.byref(stream))
            out, back = ctypes.c_void_p(), ctypes.c_void_p()
            for p in (out, back):
                self.call("aclrtMallocHost", ctypes.byref(p), ctypes.c_size_t(part))
                memory.append(p)
            for i in range(rounds):
                n = rng.choice((1, 100, 5000, 300000, part // 2))
                at = rng.randrange(part - n + 1)
                data = rng.randbytes(n)
                ctypes.memmove(out.value + at, data, n)
                there = ctypes.c_void_p(self.areas[other][0] + start + number * part + at)
                for dst, src in ((there, ctypes.c_void_p(out.value + at)), (ctypes.c_void_p(back.value + at), there)):
                    if i % 2:
                        self.call("aclrtMemcpy", dst, ctypes.c_size_t(n), src, ctypes.c_size_t(n), DEFAULT_KIND)
                    else:
                        self.call("aclrtMemcpyAsync", dst, ctypes.c_size_t(n), src, ctypes.c_size_t(n), DEFAULT_KIND, stream)
                self.call("aclrtSynchronizeStream", stream)
                if ctypes.string_at(back.value + at, n) != data:
                    wrong.append((number, i, at, n))
            self.call("aclrtDestroyStream", stream)

        def freed(number, memory):
            try:
                one(number, memory)
            finally:
                for p in memory:
                    self.acl.aclrtFreeHost(p)

        def guarded(number):
            try:
                freed(number, [])
            except Exception as e:  # pylint: disable=broad-except
                wrong.append(repr(e))
        all_of_them = [threading.Thread(target=guarded, args=(i,)) for i in range(threads)]
        for t in all_of_them:
            t.start()
        for t in all_of_them:
            t.join()
        return wrong

    def begin_copies(self, dst, src, n, rounds):
        """Synchronous copies by a thread, until one fails; returns after the first one."""
        first = threading.Event()
        self.error = None

        def all_of_them():
            try:
                self.call("aclrtSetDevice", 0)
                for _ in range(rounds):
                    self.copy(dst, src, n)
                    first.set()
            except Failed as e:
                self.error = e
            first.set()
        self.copies = threading.Thread(target=all_of_them)
        self.copies.start()
        first.wait()

    def end_copies(self):
        self.copies.join()
        if self.error:
            raise self.error

    def descriptors(self):
        return len(os.listdir("/proc/self/fd"))

    def mapped(self):
        """Names of files that are mapped."""
        with open("/proc/self/maps", encoding="utf-8") as f:
            return sorted({line.split(maxsplit=5)[5].strip() for line in f if len(line.split(maxsplit=5)) > 5})


def serve(server):
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": getattr(server, request.pop("do"))(**request)}
        except Failed as e:
            answer = {"code": e.args[0], "text": e.args[1]}
        print(json.dumps(answer), flush=True)


class Error(Exception):
    """A request that has failed: code, text."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Agent:
    """with Agent(host, library, env) as a: a.copy(dst="x", src="y", n=1)"""

    script = os.path.abspath(__file__)

    def __init__(self, host, library, env, prefix=(), **options):
        self.host = host
        self.process = host.popen([*prefix, sys.executable, "-B", self.script, library], env=env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, **options)
        self.begin()

    def __getattr__(self, request):
        def request_it(**args):
            self.send(request, **args)
            return self.answer()
        return request_it

    def send(self, request, /, **args):
        self.process.stdin.write(json.dumps({"do": request, **args}) + "\n")
        self.process.stdin.flush()

    def answer(self):
        got = json.loads(self.process.stdout.readline() or '{"code": -1, "text": "the program has ended"}')
        if "code" in got:
            raise Error(got["code"], got["text"])
        return got["ok"]

    def failure(self, request, /, **args):
        """The code and text with which the request fails; 0 if it does not."""
        try:
            getattr(self, request)(**args)
        except Error as e:
            return e.code, e.text
        return 0, ""

    def helpers(self):
        """Processes usdma-net in this program's machine: numbers."""
        net, found = os.readlink(f"/proc/{self.host.holder.pid}/ns/net"), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe").endswith("/usdma-net") and os.readlink(f"/proc/{pid}/ns/net") == net:
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


if __name__ == "__main__":
    serve(Server(sys.argv[1]))
