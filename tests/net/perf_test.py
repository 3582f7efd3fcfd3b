#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
usdma-perf --net between two machines (network namespaces): its figures, and what goes wrong.
perf_test.py USDMA-PERF USDMA-NET LIBASCENDCL; prints TAP.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, HERE)
from hosts import Hosts, Lacks  # noqa: E402
from hosts_test import Suite  # noqa: E402

MEMORY = {"USDMA_DEVICES": "sim:mem=192M"}
BRIEF = ("--seconds", "0.01", "--size", "64,1M", "--json", "-")


@contextlib.contextmanager
def listener(s, host, *more):
    with host.popen([s.ctl, "--net-listen", host.address(), *more], env=s.env(host, **MEMORY), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True) as p:
        try:
            while "listening at" not in (p.stdout.readline() or "listening at nothing"):
                pass
            yield p
        finally:
            p.send_signal(signal.SIGTERM)
            p.said = p.stderr.read()


def measure(s, host, address, *more, **settings):
    done = host.run(s.ctl, "--net", address, *(more or BRIEF), env=s.env(host, **{**MEMORY, **settings}), timeout=120)
    return done.returncode, done.stdout, done.stderr


STRANGER = """
import contextlib, socket, sys
s = socket.create_connection((sys.argv[1], 18599), 20)
with contextlib.suppress(OSError):
    s.sendall(bytes.fromhex(sys.argv[2]))
    s.shutdown(socket.SHUT_WR)
    while s.recv(65536):
        pass
"""


def send(host, address, data):
    """Sends this to the port, and closes the connection."""
    return host.run(sys.executable, "-c", STRANGER, address, data.hex()).returncode == 0


def test_figures(s, a, b):
    with listener(s, b) as there:
        code, out, err = measure(s, a, b.address())
        rows = json.loads(out)["rows"] if code == 0 else []
        s.add([(r["size"], r["kind"]) for r in rows] == [(n, kind) for n in (64, 1 << 20) for kind in ("write", "read")] and
              all(r[k] > 0 for r in rows for k in ("p50_us", "p99_us", "gbps", "tcp_p50_us", "tcp_gbps")), "each size, both kinds, beside TCP", out + err)
        code, out, err = measure(s, a, b.address(), "--size", "128M")
        s.add(code == 1 and "start it with --size 128M" in err, "a size that the other machine has no memory for", err)
        s.add(send(a, b.address(), b"GET / HTTP/1.0\r\n\r\n") and send(a, b.address(), (1).to_bytes(8, "little") + b"\xff" * 8), "strangers connect")
        s.add(measure(s, a, b.address())[0] == 0, "afterwards it serves as before")
    s.add(there.returncode == 128 + signal.SIGTERM and "of this version" in there.said, "it exits by a signal, and has said who came", there.said)


def test_errors(s, a, b):
    code, _, err = measure(s, a, b.address())
    s.add(code == 1 and f"{b.address()}: Connection refused" in err and "usdma-perf --net-listen" in err, "nothing listens there", err)
    for name, word in (("USDMA_NET", "net"), ("USDMA_NET_KEY_FILE", "net_key_file")):
        code, _, err = measure(s, a, b.address(), **{name: ""})
        s.add(code == 1 and f"the setting {word} is empty" in err and name in err, f"{word} is not set", err)
    with listener(s, b):
        code, _, err = measure(s, a, b.address(), **{"USDMA_NET_KEY_FILE": s.make_key("other")})
        s.add(code == 1 and "aclrtMemImportFromShareableHandleV2" in err and "507899" in err, "another key", err)
    for wrong in ("10.0.0.2:port", "[fd00::2", ":1", "10.0.0.2:70000"):
        code, _, err = measure(s, a, wrong)
        s.add(code == 2 and f'"{wrong}": it takes an address' in err, f"--net {wrong}", err)
    code, _, err = measure(s, a, b.address(), "--matrix")
    s.add(code == 2 and "excludes" in err, "--net excludes others", err)


def test_dies(s, a, b):
    with listener(s, b) as there, a.popen([s.ctl, "--net", b.address(), "--size", "1M", "--seconds", "100"], env=s.env(a, **MEMORY), stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as here:
        while "TCP us" not in (here.stdout.readline() or "TCP us"):
            pass
        there.kill()
        err = here.communicate(timeout=60)[1]
    s.add(here.returncode == 1 and "aclrt" in err and "50705" in err, "the other machine dies: an error with the code of the copy", err)


def main():
    try:
        hosts = Hosts(2)
    except Lacks as e:
        print(f"1..0 # SKIP {e}")
        return 0
    with hosts as (a, b), tempfile.TemporaryDirectory(prefix="usdma-perf-net-") as scratch:
        s = Suite(*sys.argv[1:4], scratch)
        for test in (test_figures, test_errors, test_dies):
            test(s, a, b)
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
