#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The libraries that libusdma loads: when, and the error if one is missing or of another build.  TAP.

libraries.py LIBUSDMA LIBUSDMA-SIM LIBUSDMA-CHECK USDMA-SIM
"""
import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from build_id import NODE, nodes  # noqa: E402
from tap import Points  # noqa: E402

OPEN = """
import ctypes, json, sys
lib, dev = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
lib.usdma_error_text.restype = ctypes.c_char_p
err = lib.usdma_open(sys.argv[2].encode(), ctypes.byref(dev))
lines = open("/proc/self/maps").read().splitlines()
names = {line.split("/")[-1] for line in lines if "/libusdma" in line}
print(json.dumps([err, lib.usdma_error_text().decode() if err else "", sorted(names), len(lines)]))
"""


ABSENT = "ffff:ff:1f.7"


def use(libusdma, device, check=""):
    """(error, its text, the libraries of ours that are loaded, the number of mappings)"""
    env = {k: v for k, v in os.environ.items() if not k.startswith("USDMA_") and k != "LD_LIBRARY_PATH"}
    done = subprocess.run([sys.executable, "-c", OPEN, libusdma, device], capture_output=True, text=True, timeout=60, check=False,
                          env={**env, "USDMA_CONFIG": "/dev/null", "USDMA_CHECK": check, "USDMA_LOG": "none"})
    return json.loads(done.stdout) if done.returncode == 0 else [None, done.stderr, [], 0]


@contextlib.contextmanager
def server(program, folder):
    socket = os.path.join(folder, "device")
    ready, write = os.pipe()
    with subprocess.Popen([program, "--socket", socket, "--mem", "16M", "--ready-fd", str(write)], pass_fds=[write], stdout=subprocess.DEVNULL) as sim:
        os.close(write)
        os.read(ready, 1)
        os.close(ready)
        try:
            yield "vfio-user:" + socket
        finally:
            sim.terminate()


def without_runpath(libusdma, folder):
    path = os.path.join(folder, "other-" + os.path.basename(libusdma))
    with open(libusdma, "rb") as f:
        content = f.read()
    with open(path, "wb") as f:
        f.write(content.replace(b"$ORIGIN", b"/absent"))
    return path


def main():
    libusdma, sim, check, program = sys.argv[1:]
    points, mine = Points(), os.path.basename(libusdma)
    for text in (b"edu over %s, interrupts", b"channel %u does not start: state"):
        has = [text in open(path, "rb").read() for path in (libusdma, sim)]
        points.add(has == [False, True], f"a driver of software devices is in {os.path.basename(sim)} alone: {text.decode()}", str(has))
    with tempfile.TemporaryDirectory(prefix="usdma-libraries-") as folder, server(program, folder) as remote:
        got = use(libusdma, "sim:mem=16M")
        points.add(got[0] == 0 and got[2] == [os.path.basename(sim), mine], "a software device loads the simulator, and no more", str(got))
        got = use(libusdma, remote)
        points.add(got[0] == 0 and got[2] == [os.path.basename(sim), mine], "one of another process too", str(got))
        got = use(libusdma, ABSENT)
        points.add(got[0] < 0 and got[2] == [mine], f"a PCI device loads neither ({got[3]} mappings)", str(got))
        for word in ("race", "strict"):
            got = use(libusdma, ABSENT, word)
            points.add(got[0] < 0 and got[2] == [os.path.basename(check), mine], f"USDMA_CHECK={word} loads the race detector", str(got))
        alone = shutil.copy(libusdma, os.path.join(folder, mine))
        got = use(alone, ABSENT)
        points.add(got[0] == -errno.ENXIO, "without both there is that error alone", str(got))
        for path, device, word in ((sim, remote, ""), (check, remote, "race")):
            name = os.path.basename(path)
            package = name.replace(".so.0", "0")
            got = use(alone, device, word)
            points.add(got[0] == -(errno.EINVAL if word else errno.ENOPKG) and name in got[1] and f"install the package {package}" in got[1],
                       f"without {name}: an error that names the package", str(got))
            with open(path, "rb") as f:
                content = f.read()
            node = nodes(path).pop()
            other = node.replace(NODE.match(node).group(1), "0123456789ab")
            with open(os.path.join(folder, name), "wb") as f:
                f.write(content.replace(node.encode(), other.encode()))
            got = use(alone, device, word)
            points.add(got[0] and got[0] < 0 and other in got[1] and package in got[1], f"{name} of another build: refused, with its id", str(got))
            shutil.copy(path, os.path.join(folder, name))
            points.add(use(alone, device, word)[0] == 0, f"{name} of this build, beside it: loaded", "")
            got = use(without_runpath(libusdma, folder), device, word)
            points.add(got[0] == 0, f"{name} beside it, without a RUNPATH, as TSan's dlopen() has none of ours: loaded", str(got))
    return points.end()


sys.exit(main())
