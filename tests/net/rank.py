# SPDX-License-Identifier: BSD-3-Clause
"""
A rank of a group of HCCL that does what it is to do, as agent.py.  rank.py LIBASCENDCL; Rank starts one on a machine of a test.
"""
import ctypes
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent import Agent, Failed, Server, serve  # noqa: E402

FLOAT, SUM, PARA, NOT_SUPPORT, TIMEOUT, TCP_CONNECT, NETWORK, REMOTE = 4, 0, 1, 5, 9, 11, 19, 21


class RankServer(Server):
    def __init__(self, library):
        super().__init__(library)
        self.hccl = ctypes.CDLL(os.path.join(os.path.dirname(library), "../hccl_comm/libhccl.so"))
        self.hccl.HcclGetErrorString.restype = ctypes.c_char_p
        self.comms, self.sizes = {}, {}

    def do(self, name, *args):
        code = getattr(self.hccl, name)(*args)
        if code:
            raise Failed(code, (self.hccl.HcclGetErrorString(code) or b"").decode())

    def begin(self):
        super().begin()
        self.stream("s")
        self.make("in", "device", 1 << 20)
        self.make("out", "device", 1 << 20)

    def root(self):
        info = (ctypes.c_char * 4108)()
        self.do("HcclGetRootInfo", info)
        return info.raw.hex()

    def join(self, size, root, rank, name="c"):
        info, comm = (ctypes.c_char * 4108)(), ctypes.c_void_p()
        info.raw = bytes.fromhex(root)
        begin = time.monotonic()
        self.do("HcclCommInitRootInfo", ctypes.c_uint32(size), info, ctypes.c_uint32(rank), ctypes.byref(comm))
        self.comms[name] = comm
        return time.monotonic() - begin

    def join_table(self, path, rank, name="c"):
        comm = ctypes.c_void_p()
        self.do("HcclCommInitClusterInfo", path.encode(), ctypes.c_uint32(rank), ctypes.byref(comm))
        self.comms[name] = comm

    def end_now(self):
        os._exit(0)

    def destroy(self, name="c"):
        self.do("HcclCommDestroy", self.comms.pop(name))

    def start_sum(self, value, n, name="c"):
        data = (ctypes.c_float * n)(*(value * (i % 97 + 1) for i in range(n)))
        self.call("aclrtMemcpy", self.at("in"), ctypes.c_size_t(4 * n), data, ctypes.c_size_t(4 * n), 4)
        self.do("HcclAllReduce", self.at("in"), self.at("out"), ctypes.c_uint64(n), FLOAT, SUM, self.comms[name], self.streams["s"])
        self.sizes[name] = n

    def finish(self, name="c", ms=60000):
        """Once it is over: whether all elements are what the first one says, and that."""
        n = self.sizes[name]
        data = (ctypes.c_float * n)()
        self.call("aclrtSynchronizeStreamWithTimeout", self.streams["s"], ms)
        self.call("aclrtMemcpy", data, ctypes.c_size_t(4 * n), self.at("out"), ctypes.c_size_t(4 * n), 4)
        return list(data) == [data[0] * (i % 97 + 1) for i in range(n)], data[0]

    def sum(self, value, n=5000, name="c"):
        self.start_sum(value, n, name)
        return self.finish(name)

    def sums(self, seconds, name="c"):
        """AllReduce again and again, until a call or the stream fails, or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.sum(1.0, 200000, name)

    def state(self, name="c"):
        """The group's error, with the text."""
        code = ctypes.c_int(0)
        self.do("HcclGetCommAsyncError", self.comms[name], ctypes.byref(code))
        return code.value, self.hccl.HcclGetErrorString(code.value).decode() if code.value else ""

    def bind(self, name="c"):
        """The first of the one-sided calls."""
        self.do("HcclCommPrepare", self.comms[name], (ctypes.c_uint32 * 64)(), ctypes.c_int(5))

    def times(self, nbytes, rounds, name="c"):
        """Of AllReduce and its end, in seconds."""
        n = nbytes // 4
        for area in ("a", "b"):
            if area not in self.areas or self.areas[area][1] < nbytes:
                self.make(area, "device", max(nbytes, 1 << 20))
        took = []
        for _ in range(rounds):
            begin = time.perf_counter()
            self.do("HcclAllReduce", self.at("a"), self.at("b"), ctypes.c_uint64(n), FLOAT, SUM, self.comms[name], self.streams["s"])
            self.call("aclrtSynchronizeStream", self.streams["s"])
            took.append(time.perf_counter() - begin)
        return took


class Rank(Agent):
    script = os.path.abspath(__file__)


if __name__ == "__main__":
    serve(RankServer(sys.argv[1]))
