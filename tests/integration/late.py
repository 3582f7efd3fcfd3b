#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Loads the libraries into a process that has no static TLS left, opens a device, copies and waits.  TAP.

late.py LATE_TLS LIBUSDMA LIBASCENDCL [--modules]

Each variant runs in its own process.  The library is used by the thread that loaded it, by an older thread and by a
newer one.  --modules tests the Python modules, too.
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


def create(lib, call, *args):
    """Returns the handle that the call stores through its last argument."""
    out = ctypes.c_void_p()
    need(lib, call, *args, ctypes.byref(out))
    return out


def native(path):
    lib = ctypes.CDLL(path)
    lib.usdma_copy.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t]

    def use(data):
        size = ctypes.c_size_t(len(data))
        dev = create(lib, "usdma_open", b"0")
        stream = create(lib, "usdma_stream_create", dev, None)
        host, back = (create(lib, "usdma_host_alloc", dev, size) for _ in range(2))
        mem = create(lib, "usdma_device_alloc", dev, size)
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


VARIANTS = {"native": native, "acl": acl, "module usdma": usdma_module, "module acl": acl_module}


def run_variant(variant, path, seed):
    """Runs in the process with no static TLS left."""
    data, loaded, right = random.Random(seed).randbytes(SIZE), threading.Event(), []
    box = {}

    def check():
        loaded.wait()
        right.append(box["use"](data) == data)

    before = threading.Thread(target=check, daemon=True)
    before.start()
    box["use"] = VARIANTS[variant](path)
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
    parser.add_argument("--variant", dest="variant", nargs=2, metavar=("VARIANT", "SEED"))
    args = parser.parse_args()
    paths = {"native": args.libusdma, "acl": args.libascendcl}
    if args.variant:
        run_variant(args.variant[0], paths.get(args.variant[0]), int(args.variant[1]))
        return 0
    points, seed = Points(), random.randrange(1 << 31)
    print(f"# seed {seed}")
    for variant in VARIANTS if args.modules else paths:
        words = [sys.executable, "-B", os.path.abspath(__file__), *sys.argv[1:], "--variant", variant, str(seed)]
        p = subprocess.run(words, env=os.environ | {"LD_PRELOAD": os.path.abspath(args.late_tls)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False)
        points.add(p.returncode == 0, f"{variant}: loaded without static TLS, it copies", f"status {p.returncode}\n{p.stdout}")
    return points.end()


sys.exit(main())
