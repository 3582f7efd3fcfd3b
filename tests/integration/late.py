#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The libraries, loaded late into a process whose static TLS is used up: opens a device, copies, waits.  TAP.

late.py LATE_TLS LIBUSDMA LIBASCENDCL [--modules]

Each way is a process of its own.  What is loaded is used by the thread that loaded it, by one that was there before and
by one that comes later.  --modules: the Python modules too, for the Python that runs this.
"""
import argparse
import ctypes
import os
import random
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from tap import Points  # noqa: E402

SIZE = 50_000
DEADLINE_S = 60
H2D, D2H = 1, 2


def need(lib, call, *args):
    err = getattr(lib, call)(*args)
    if err:
        raise SystemExit(f"{call}: {err}")


def made(lib, call, *args):
    """What such a call stores through its last argument."""
    out = ctypes.c_void_p()
    need(lib, call, *args, ctypes.byref(out))
    return out


def native(path):
    lib = ctypes.CDLL(path)
    lib.usdma_copy.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t]

    def use(data):
        size = ctypes.c_size_t(len(data))
        dev = made(lib, "usdma_open", b"0")
        stream = made(lib, "usdma_stream_create", dev, None)
        host, back = (made(lib, "usdma_host_alloc", dev, size) for _ in range(2))
        mem = made(lib, "usdma_device_alloc", dev, size)
        ctypes.memmove(host, data, len(data))
        need(lib, "usdma_copy", stream, mem, host, len(data))
        need(lib, "usdma_copy", stream, back, mem, len(data))
        need(lib, "usdma_stream_sync", stream, -1)
        return ctypes.string_at(back, len(data))
    return use


def acl(path):
    lib = ctypes.CDLL(path)
    need(lib, "aclInit", None)

    def use(data):
        size = ctypes.c_size_t(len(data))
        need(lib, "aclrtSetDevice", 0)
        stream, mem = ctypes.c_void_p(), ctypes.c_void_p()
        need(lib, "aclrtCreateStream", ctypes.byref(stream))
        need(lib, "aclrtMalloc", ctypes.byref(mem), size, 0)
        host, back = ctypes.c_void_p(), ctypes.c_void_p()
        for block in (host, back):
            need(lib, "aclrtMallocHost", ctypes.byref(block), size)
        ctypes.memmove(host, data, len(data))
        need(lib, "aclrtMemcpyAsync", mem, size, host, size, H2D, stream)
        need(lib, "aclrtMemcpyAsync", back, size, mem, size, D2H, stream)
        need(lib, "aclrtSynchronizeStream", stream)
        return ctypes.string_at(back, len(data))
    return use


def usdma_module(_):
    import usdma

    def use(data):
        with usdma.Device() as dev, dev.stream() as stream:
            source, back, mem = dev.host_buffer(len(data)), dev.host_buffer(len(data)), dev.device_buffer(len(data))
            source.view()[:] = data
            stream.copy(mem, source)
            stream.copy(back, mem)
            stream.synchronize()
            return bytes(back.view())
    return use


def acl_module(_):
    import acl

    def checked(result):
        value, err = result if isinstance(result, tuple) else (None, result)
        if err:
            raise SystemExit(f"acl: {err}")
        return value

    def use(data):
        checked(acl.rt.set_device(0))
        stream, mem = checked(acl.rt.create_stream()), checked(acl.rt.malloc(len(data), 0))
        host, back = checked(acl.rt.malloc_host(len(data))), checked(acl.rt.malloc_host(len(data)))
        ctypes.memmove(host, data, len(data))
        checked(acl.rt.memcpy_async(mem, len(data), host, len(data), H2D, stream))
        checked(acl.rt.memcpy_async(back, len(data), mem, len(data), D2H, stream))
        checked(acl.rt.synchronize_stream(stream))
        return ctypes.string_at(back, len(data))
    return use


WAYS = {"native": native, "acl": acl, "module usdma": usdma_module, "module acl": acl_module}


def run_way(way, path, seed):
    """In the process with no static TLS left."""
    data, loaded, right = random.Random(seed).randbytes(SIZE), threading.Event(), []
    box = {}

    def check():
        loaded.wait()
        right.append(box["use"](data) == data)

    before = threading.Thread(target=check, daemon=True)
    before.start()
    box["use"] = WAYS[way](path)
    loaded.set()
    before.join()
    check()
    later = threading.Thread(target=check)
    later.start()
    later.join()
    if right != [True] * 3:
        raise SystemExit(f"copied right: {right}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("late_tls")
    parser.add_argument("libusdma")
    parser.add_argument("libascendcl")
    parser.add_argument("--modules", action="store_true")
    parser.add_argument("--way", nargs=2, metavar=("WAY", "SEED"))
    args = parser.parse_args()
    paths = {"native": args.libusdma, "acl": args.libascendcl}
    if args.way:
        run_way(args.way[0], paths.get(args.way[0]), int(args.way[1]))
        return 0
    points, seed = Points(), random.randrange(1 << 31)
    print(f"# seed {seed}")
    for way in WAYS if args.modules else paths:
        words = [sys.executable, "-B", os.path.abspath(__file__), *sys.argv[1:], "--way", way, str(seed)]
        p = subprocess.run(words, env=os.environ | {"LD_PRELOAD": os.path.abspath(args.late_tls)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False)
        points.add(p.returncode == 0, f"{way}: loaded without static TLS, it copies", f"status {p.returncode}\n{p.stdout}")
    return points.end()


sys.exit(main())
