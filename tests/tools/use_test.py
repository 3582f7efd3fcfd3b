#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
How the tools handle output that cannot be written, signals and invalid arguments.  use_test.py USDMACTL USDMA-SIM USDMA-PERF;
prints TAP.
"""

import contextlib
import csv
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys

from fake_tree import Suite

CPUS = sorted(os.sched_getaffinity(0))
TIMEOUT_S = 120  # a hang does not end by itself


class Tools(Suite):
    def __init__(self, ctl, sim, perf):
        super().__init__(ctl)
        self.ctl, self.sim, self.perf = ctl, sim, perf
        self.env = dict(os.environ, USDMA_DEVICES="sim:mem=64M", USDMA_CONFIG="/dev/null")
        self.measure = [perf, "--client-cpu", str(CPUS[0]), "--cold-bytes", "4M", "--seconds", "0.02", "--repeats", "1"]
        # On one CPU: with two, the round trip of a cache line is measured first, which takes a second on a busy machine.
        self.brief = [*self.measure, "--engine-cpu", str(CPUS[0])]
        # The same by the affinity of the process, for modes that refuse these options.
        self.placed = ["taskset", "-c", str(CPUS[0]), perf, "--cold-bytes", "4M", "--seconds", "0.002", "--repeats", "1"]
        self.matrix = [*self.placed, "--matrix"]

    def path(self, name):
        return os.path.join(self.scratch, name)

    def done(self, *command, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.env, **options}
        return subprocess.run(command, text=True, timeout=TIMEOUT_S, check=False, **options)


def printing_commands(s):
    """Commands that print something and succeed."""
    return [(s.ctl, "list"), (s.ctl, "list", "--json"), (s.ctl, "info"), (s.ctl, "--version"), (s.ctl, "--help"), (s.ctl, "stat", "--count", "1", "--interval", "0.01"),
            (s.ctl, "stat", "--json", "--interval", "0.01"), (s.sim, "--version"), (s.sim, "--help"), (s.sim, "--socket", s.path("dev")),
            (s.perf, "--version"), (s.perf, "--help"), (*s.brief, "-s", "64"), (*s.brief, "-s", "64", "--json", "-")]


def test_full(s):
    for command in printing_commands(s):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = s.done(*command, stdout=full)
        s.check(done.returncode == 1 and done.stderr.count("No space left on device") == 1,
                f"full: {os.path.basename(command[0])} {' '.join(command[1:])[-40:]}", done)
        if "--socket" in command:
            s.check(not os.path.exists(s.path("dev")), "full: usdma-sim leaves no socket")
            continue  # a service needs no standard output
        done = s.done("sh", "-c", 'exec "$0" "$@" >&-', *command)
        s.check(done.returncode == 1 and "standard output cannot be written" in done.stderr,
                f"closed: {os.path.basename(command[0])} {' '.join(command[1:])[-40:]}", done)
    with open(s.path("rows.csv"), "w", encoding="utf-8"):
        pass
    done = s.done(*s.brief, "-s", "64", "--json", "/dev/full", "--csv", s.path("rows.csv"))
    with open(s.path("rows.csv"), encoding="utf-8") as f:
        s.check(done.returncode == 1 and "/dev/full cannot be written: No space left on device" in done.stderr and len(f.readlines()) == 2,
                "full: --json fails, --csv is written", done)
    done = s.done(*s.brief, "-s", "64", "--csv", "/dev/full")
    s.check(done.returncode == 1 and "/dev/full cannot be written: No space left on device" in done.stderr, "full: --csv", done)


def test_closed_pipe(s):
    """The tools end by SIGPIPE, or with status 1 if it is ignored; they print no error."""
    for command in printing_commands(s):
        for ignored in (False, True):
            reader, writer = os.pipe()
            os.close(reader)
            done = s.done(*command, stdout=writer, restore_signals=not ignored)
            os.close(writer)
            # usdma-sim prints an error: its line on standard output is what a caller waits for
            expected = 1 if ignored else -signal.SIGPIPE
            s.check(done.returncode == expected and not done.stderr or "--socket" in command and done.returncode == expected,
                    f"closed pipe{', ignored' * ignored}: {os.path.basename(command[0])} {' '.join(command[1:])[-40:]}", done)


def interrupted(s, sig, until, *args):
    """Sends sig once standard output has a line that contains until; the status and both outputs."""
    measure = s.measure[:-2] if "--repeats" in args else s.measure
    with subprocess.Popen([*measure, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=s.env) as p:
        out = ""
        for line in p.stdout:
            out += line
            if until in line:
                break
        p.send_signal(sig)
        rest, err = p.communicate(timeout=TIMEOUT_S)
    return p.returncode, out + rest, err


def test_interrupted_sweep(s):
    for sig in (signal.SIGINT, signal.SIGTERM):
        status, out, err = interrupted(s, sig, " held ", "-d", ",".join(["1"] * 4000), "-s", "64", "--json", s.path("i.json"), "--csv", s.path("i.csv"))
        with open(s.path("i.json"), encoding="utf-8") as f:
            result = json.load(f)
        with open(s.path("i.csv"), encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        s.check(status == 128 + sig and "interrupted: " in err and "of 4000 rows" in err, f"{sig.name}: status and message", (status, err))
        s.check(result["interrupted"] is True and 1 <= len(result["rows"]) < 4000 and result["rows"][0]["gbps"] > 0, f"{sig.name}: --json is complete", result)
        s.check(len(rows) == len(result["rows"]) == out.count(" held ") and "way" in out, f"{sig.name}: --csv and the table have the same rows",
                (rows, out))
    done = s.done(*s.measure, "-s", "64", "--json", "-")
    result = json.loads(done.stdout)
    s.check(done.returncode == 0 and result["interrupted"] is False and result["rows"][0]["interrupted"] is False, "not interrupted", done)


def test_interrupted_row(s):
    """An interrupted row is reported with what was measured until then."""
    for threads, depth in (("1", "1"), ("2", "16")):
        rows, seconds = [], 0.7
        while not rows and seconds < TIMEOUT_S:  # a slow machine was still warming up: try again with more time
            seconds *= 2
            done = s.done("timeout", str(seconds), *(w.replace("0.02", "3600") for w in s.measure), "-s", "64", "-t", threads, "-d", depth, "--json", s.path("h.json"))
            with open(s.path("h.json"), encoding="utf-8") as f:
                result = json.load(f)
            rows = result["rows"]
        s.check(done.returncode == 124 and result["interrupted"] and [r["interrupted"] for r in rows] == [True] and rows[0]["copies"] > 0,
                f"an interrupted row, {threads} threads", (done, result))


def test_interrupted_modes(s):
    for args, key, until in ((("--curves",), "curves", "in flight"), (("--calibrate",), "settings", "sim_cpus"),
                             (("--workload", "kv-cache", "--layers", "1", "--requests", "10000"), "kv_cache", "kv-cache"),
                             (("--workload", "weights", "--file-size", "8M", "--repeats", "1000"), "weights", "weights"),
                             (("--workload", "kv-file", "--layers", "2", "--repeats", "1000"), "kv_file", "kv-file")):
        status, out, err = interrupted(s, signal.SIGINT, until, *args, "--json", s.path("m.json"))
        with open(s.path("m.json"), encoding="utf-8") as f:
            result = json.load(f)
        s.check(status == 130 and result["interrupted"] is True and isinstance(result[key], list), f"interrupted: {args[0]}", (status, out, err, result))
    conf = s.path("half.conf")
    status, out, err = interrupted(s, signal.SIGTERM, "sim_cpus", "--calibrate", "--write", conf)
    s.check(status == 143 and conf in err and not os.path.exists(conf), "interrupted: an incomplete calibration is not written", (status, out, err))


def test_file_workloads(s):
    """Each workload compares the data, and has a row for each of its methods."""
    for name, args, key, n in (("weights", ("--file-size", "3M"), "weights", 13), ("kv-file", ("--layers", "1", "--tokens", "100"), "kv_file", 4)):
        done = s.done(*s.measure, "--workload", name, *args, "--folder", s.scratch, "--json", s.path("w.json"))
        with open(s.path("w.json"), encoding="utf-8") as f:
            rows = json.load(f)[key]
        s.check(done.returncode == 0 and len(rows) == n and all(r["ms"] > 0 and r["gbps"] > 0 and r["cpu_ms"] > 0 for r in rows) and "usdma_file_batch" in done.stdout
                and not os.path.exists(os.path.join(s.scratch, name)), f"--workload {name}", (done, rows))
    with open(s.path("own"), "wb") as f:
        f.write(os.urandom(1 << 20))
    done = s.done(*s.measure, "--workload", "weights", "--file", s.path("own"))
    s.check(done.returncode == 0 and "weights: a file of 1M, " + s.path("own") in done.stdout, "weights of a given file", done)
    done = s.done(*s.measure, "--workload", "kv-file", "--file", s.path("own"))
    s.check(done.returncode == 2 and "--file needs --workload weights" in done.stderr, "--file of another workload", done)
    s.check(os.path.getsize(s.path("own")) == 1 << 20, "the given file is not changed")
    done = s.done(*s.measure, "--workload", "weights", "--folder", "/nonexistent")
    s.check(done.returncode == 2 and "/nonexistent" in done.stderr, "--folder that does not exist", done)
    done = s.done(*s.measure, "--workload", "weights", "--file-size", "1M", "--folder", "/proc")
    s.check(done.returncode == 1 and "usdma-perf: a file in /proc: " in done.stderr, "--folder where no file can be created", done)
    done = s.done(*s.measure, "--workload", "weights", "--file-size", "1G")
    s.check(done.returncode == 1 and "reduce --file-size" in done.stderr, "--file-size larger than the device's memory", done)


def test_interrupted_tune(s):
    """The signal is sent to usdmactl only, which forwards it."""
    with subprocess.Popen([s.ctl, "tune", "--json", "--write", s.path("tune.conf")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=s.env) as p:
        child = None
        while not child and p.poll() is None:
            with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="utf-8") as f:
                child = f.read().split()
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=TIMEOUT_S)
    s.check(p.returncode == 143 and isinstance(json.loads(out), dict) and not os.path.exists(s.path("tune.conf")), "interrupted: tune", (p.returncode, out, err))


def test_invalid_arguments(s):
    done = s.done(s.ctl, "frob")
    s.check(done.returncode == 2 and 'there is no command "frob"' in done.stderr and all(c in done.stderr for c in ("list", "doctor", "tune")),
            "an unknown command: the message has the valid ones", done)
    s.check("did you mean doctor?" in s.done(s.ctl, "docter").stderr and "did you mean selftest?" in s.done(s.ctl, "self-test", "sim").stderr,
            "an unknown command: the message has the nearest one")
    done = s.done(s.ctl, "nosuch", "--help")
    s.check(done.returncode == 2 and 'there is no command "nosuch"' in done.stderr and not done.stdout, "help of an unknown command", done)
    done = s.done(s.ctl)
    s.check(done.returncode == 2 and "a command is missing" in done.stderr and "selftest" in done.stderr, "no command", done)
    done = s.done(s.ctl, "--frob")
    s.check(done.returncode == 2 and "--frob" in done.stderr, "an unknown option", done)
    done = s.done(s.ctl, "list", "--al")
    s.check(done.returncode == 2 and "--al" in done.stderr, "an unknown option of a command", done)
    for option, word, choices in (("-w", "h2x", "h2d d2h d2d page-h2d page-d2h 2d batch desc sync"), ("--wait", "7", "default poll interrupt hybrid"),
                                  ("--api", "1", "native acl"), ("--model", "9b", "8b 70b"), ("--workload", "kv", "kv-cache kv-file weights"),
                                  ("--client-cpu", "99999", " ".join(map(str, CPUS))), ("--engine-cpu", "x", " ".join(map(str, CPUS)))):
        done = s.done(s.perf, option, word)
        s.check(done.returncode == 2 and f'there is no "{word}"; there are {", ".join(choices.split())} (usdma-perf --help)\n' in done.stderr and "{" not in done.stderr,
                f"usdma-perf {option} {word}: the message has the valid values once", done)


RULE = "digits, then K, M, G or T for powers of 1024, such as 64K"


def test_before_work(s):
    """Errors are reported before a tool measures or serves; errors of the command line have status 2."""
    for status, text, *command in ((2, 'usdma-perf: --depth: "x": it takes a number from 1 to 65536 (usdma-perf --help)', s.perf, "--depth", "x"),
                                   (2, 'usdma-perf: --seconds: "nan": it takes a number from 0.001 to 3600 (usdma-perf --help)', s.perf, "--seconds", "nan"),
                                   (2, "usdma-sim: --hang-ms requires --backend (usdma-sim --help)", s.sim, "--socket", "/nonexistent/dev", "--hang-ms", "500"),
                                   (2, "usdma-sim: --socket and --control are the same path (usdma-sim --help)", s.sim, "--socket", "/nonexistent/d", "--control", "/nonexistent/d"),
                                   (2, "usdma-perf: --json: /nonexistent/x cannot be written: No such file or directory", s.perf, "--json", "/nonexistent/x"),
                                   (2, 'usdmactl: --count: "0": it takes a number from 1 to 2147483647 (usdmactl --help)', s.ctl, "stat", "--count", "0"),
                                   (2, "usdmactl: The following argument was not expected: more (usdmactl --help)", s.ctl, "list", "more"),
                                   (2, "usdma-sim: The following argument was not expected: more (usdma-sim --help)", s.sim, "--socket", "/nonexistent/dev", "more"),
                                   (2, "usdma-sim: --cpus: CPU 1023 does not exist, or this process may not use it: Invalid argument (usdma-sim --help)", s.sim,
                                    "--socket", "/nonexistent/dev", "--cpus", "1023"),
                                   (2, "usdma-sim: --mem: mem=12Z is invalid: it takes a size from 64K to 16T in pages of 4K: " + RULE + " (usdma-sim --help)", s.sim,
                                    "--socket", "/nonexistent/dev", "--mem", "12Z"),
                                   (2, "usdma-sim: --share: share=1 is invalid: it takes a size from 4K: " + RULE + " (usdma-sim --help)", s.sim, "--socket", "/nonexistent/dev",
                                    "--share", "1"),
                                   (2, "usdma-sim: --mem and --nomem exclude each other (usdma-sim --help)", s.sim, "--socket", "/nonexistent/dev", "--nomem", "--mem", "1G"),
                                   (2, "usdma-sim: --model ioat excludes --mem and --engines: it has no memory of its own and one engine (usdma-sim --help)", s.sim,
                                    "--socket", "/nonexistent/dev", "--model", "ioat", "--engines", "4"),
                                   (2, "usdma-perf: --model needs --workload kv-cache or kv-file", s.perf, "--model", "8b"),
                                   (2, "usdma-perf: --batch needs -w batch", s.perf, "--batch", "8", "-w", "h2d"),
                                   (2, "usdma-perf: --rate excludes --workload, --curves and --calibrate", s.perf, "--rate", "9", "--workload", "weights"),
                                   (2, "usdma-perf: --engines is for the embedded software device: it excludes --device", s.perf, "--engines", "2", "--device", "sim"),
                                   (2, "usdma-perf: --device: it takes a device string", s.perf, "--device", ""),
                                   (2, "usdma-perf: --numa: 'x' is not a node: give CLIENT:ENGINE, such as 0:1, or all", s.perf, "--numa", "x"),
                                   (2, 'usdma-sim: there is no option "--sokcet"; did you mean --socket? (usdma-sim --help)', s.sim, "--sokcet", "/nonexistent/dev"),
                                   (2, "usdma-sim: where to listen is missing: give --socket PATH or --listen-fd N (usdma-sim --help)", s.sim, "--mem", "1G"),
                                   (2, 'usdma-sim: --ready-fd: "x": it takes a number from 0 to 2147483647 (usdma-sim --help)', s.sim, "--socket", "/nonexistent/dev",
                                    "--ready-fd", "x"),
                                   (2, "usdma-sim: --once takes no value (usdma-sim --help)", s.sim, "--socket", "/nonexistent/dev", "--once=x"),
                                   (2, "usdma-sim: --weight requires --backend (usdma-sim --help)", s.sim, "--socket", "/nonexistent/dev", "--weight", "7:3"),
                                   (2, 'usdma-sim: --backend: device "foo": not a device string; valid are: sim[:KEY=VALUE]..., vfio-user:PATH[:trust=no|checked|yes], '
                                    "DDDD:BB:DD.F, and :isolated=yes after each (usdma-sim --help)", s.sim, "--socket", "/nonexistent/dev", "--backend", "foo"),
                                   (2, "usdma-sim: --backend: sim: mem=3 is invalid: it takes a size from 64K to 16T in pages of 4K: " + RULE + " (usdma-sim --help)", s.sim,
                                    "--socket", "/nonexistent/dev", "--backend", "sim:mem=3"),
                                   (2, "usdmactl: --json takes no value (usdmactl --help)", s.ctl, "list", "--json=x"),
                                   (2, 'usdmactl: there is no option "--froce" (usdmactl --help)', s.ctl, "bind", "--froce"),
                                   (2, 'usdma-perf: there is no option "--dpeth"; did you mean --depth? (usdma-perf --help)', s.perf, "--dpeth", "4")):
        done = s.done(*command)
        s.check(done.returncode == status and done.stderr == text + "\n" and not done.stdout, text, done)


def test_sizes(s):
    """All options that take a size accept the same forms, and print the rule on error (all forms: unit test words_sizes)."""
    options = {"usdma-perf -s": lambda size: s.done(*s.brief, "-s", size),
               "usdma-perf --cold-bytes": lambda size: s.done(*(size if w == "4M" else w for w in s.brief), "-s", "64"),
               "selftest --size": lambda size: s.done(s.ctl, "selftest", "sim:mem=64M", "--size", size),
               "device string": lambda size: s.done(s.ctl, "info", f"sim:mem={size}"),
               "usdma-sim --mem": lambda size: s.done(s.sim, "--socket", "/nonexistent/dev", "--mem", size),
               "usdma-sim --rate": lambda size: s.done(s.sim, "--socket", "/nonexistent/dev", "--rate", size),
               "usdma-sim --share": lambda size: s.done(s.sim, "--socket", "/nonexistent/dev", "--share", size),
               "a variable": lambda size: s.done(s.ctl, "info", env=dict(s.env, USDMA_TEST_HOST_ARENA=size))}
    for where, use in options.items():
        for size in ("4096K", "4m"):
            done = use(size)
            s.check(RULE not in done.stderr, f"{where} accepts {size}", done)
        for size in ("4MB", "-1", "17179869184G"):
            done = use(size)
            s.check(done.returncode not in (0, 124) and done.stderr.count(RULE) == 1 and size in done.stderr, f"{where} refuses {size!r}", done)


def test_invalid_device(s):
    for args in ((), ("--curves",), ("--calibrate",), ("--workload", "kv-cache"), ("--limits",)):
        done = s.done(*s.measure, *args, "--device", "foo")
        s.check(done.returncode == 2 and not done.stdout and "foo" in done.stderr, f"usdma-perf {' '.join(args)} --device foo: no table", done)


@contextlib.contextmanager
def served(s, *args):
    """usdma-sim at a socket to which any user may connect."""
    path = s.path("served")
    with subprocess.Popen([s.sim, "--socket", path, "--mem", "16M", *args], stdout=subprocess.PIPE, text=True) as sim:
        try:
            sim.stdout.readline()
            os.chmod(s.scratch, 0o755)
            os.chmod(path, 0o666)
            yield path
        finally:
            sim.terminate()


def test_client_rejected(s):
    """A rejected client receives the reason in a reply of the protocol."""
    with served(s) as path:
        name = "another user's client is rejected with the reason"
        try:
            done = s.done(s.ctl, "selftest", f"vfio-user:{path}", "--json", **({"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}))
            skip_reason = None if os.geteuid() == 0 else "not root"
        except PermissionError:
            skip_reason = f"user 65534 may not run {s.ctl}"
        if skip_reason:
            s.skip(name, skip_reason)
        else:
            s.check(done.returncode == 1 and "the server runs as another user" in done.stdout and "65534" in done.stdout and "is lost" not in done.stdout, name, done)
        done = s.done(s.ctl, "selftest", f"vfio-user:{path}")
        s.check(done.returncode == 0, "the next client is served", done)
        for major, error in ((9, errno.ENOTSUP), (0, 0)):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                sock.sendall(struct.pack("<HHIIIHH", 0x4711, 1, 20, 0, 0, major, 1))
                number, command, _, flags, received = struct.unpack("<HHIII", sock.recv(16, socket.MSG_WAITALL))
            s.check((number, command, received) == (0x4711, 1, error) and flags == (0x21 if error else 1), f"a client of version {major}.1",
                    (number, command, flags, received))


def test_server_refuses(s):
    """The client's message for each errno with which a server answers VERSION."""
    path = s.path("refusing")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(4)
        for error, words in ((errno.EACCES, "another user"), (errno.EBUSY, "maximum number of clients"), (errno.ENOTSUP, "protocol 0.1"),
                             (errno.EMFILE, "descriptors"), (errno.EINVAL, "refuses VERSION"), (None, "is lost")):
            with subprocess.Popen([s.ctl, "selftest", f"vfio-user:{path}"], stderr=subprocess.PIPE, text=True, env=s.env) as client:
                sock = listener.accept()[0]
                with sock:
                    number, command, size, _, _ = struct.unpack("<HHIII", sock.recv(16, socket.MSG_WAITALL))
                    sock.recv(size - 16, socket.MSG_WAITALL)
                    if error:
                        sock.sendall(struct.pack("<HHIII", number, command, 16, 0x21, error))
                output = client.communicate(timeout=TIMEOUT_S)[1]
            s.check(client.returncode == 1 and words in output and (not error or "is lost" not in output), f"VERSION answered by {error}: {words}", output)


def test_without_proc(s):
    """An embedded device works without /proc, and prints no warning."""
    name = "a root without /proc"
    bare = ["unshare", "-m", "sh", "-c", 'mount --make-rprivate / && mount -t tmpfs none /proc && exec "$@"', "sh"]
    if s.done(*bare, "true").returncode:
        s.skip(name, "mounting is not permitted")
        return
    for device in ("sim:mem=64M", "sim:mem=64M:engines=2"):
        done = s.done(*bare, os.path.abspath(s.ctl), "selftest", device)
        s.check(done.returncode == 0 and not done.stderr, f"{name}: {device}", done)


def rows_of(s, *args, **env):
    done = s.done(*args, "--json", "-", env=dict(s.env, **env))
    return done, json.loads(done.stdout)["rows"] if done.returncode == 0 else []


def test_open_loop(s):
    done, rows = rows_of(s, *s.brief, "-s", "64", "--rate", "2000,50%")
    s.check([(r["load_percent"], r["offered_per_s"] > 0) for r in rows] == [(0, False), (0, True), (50, True)] and rows[1]["offered_per_s"] == 2000,
            "--rate: a row without a schedule, one for a number, one for a percentage", done)
    # A copy takes at least 1 ms, and two are scheduled in that time: the k-th copy waits k times 0.5 ms.
    longer = [w.replace("0.02", "0.2") for w in s.brief]
    done, rows = rows_of(s, *longer, "--rate", "2000", "-s", "64", "-d", "1", USDMA_DEVICES="sim:mem=64M:latency=1000")
    s.check(len(rows) == 1 and rows[0]["latency_ns"]["max"] > 50e6 and rows[0]["latency_ns"]["p50"] > 20e6,
            "--rate: the latency includes the wait after the scheduled time", done)
    for args in (("--rate", "0"), ("--rate", "5k"), ("--rate", "%"), ("--rate", "10", "--streams", "2"), ("--rate", "10", "--wait", "hybrid")):
        done = s.done(*s.brief, *args)
        s.check(done.returncode == 2 and "--rate" in done.stderr, f"{' '.join(args)} is refused", done)


def test_processes(s):
    measure = [*s.placed, "-s", "64"]
    done, rows = rows_of(s, *measure, "--processes", "1,2", "--verify")
    s.check([(r["processes"], r["copies"] > 0, r["verified"]) for r in rows] == [(1, True, True), (2, True, True)], "--processes: a row for each number", done)
    done = s.done(*measure, "--processes", "2", "--device", "foo")
    s.check(done.returncode == 1 and not done.stdout and "foo" in done.stderr, "--processes --device foo: no table", done)
    with served(s) as path:
        done = s.done(*measure, "--processes", "2", "--device", f"vfio-user:{path}")
    s.check(done.returncode == 1 and "usdma-perf: device: " in done.stderr, "--processes on a device that serves one client", done)


def test_matrix(s):
    brief = [*s.matrix, "-s", "64K", "--verify"]
    done, rows = rows_of(s, *brief, USDMA_DEVICES="sim:mem=64M,sim:mem=64M")
    sets = {n: {(r["from"], r["to"]) for r in rows if r["set"] == n} for n in ("single", "bidirectional", "host-to-all", "all-to-host", "host-both")}
    between = {("0", "1"), ("1", "0")}
    into, back = {("host", "0"), ("host", "1")}, {("0", "host"), ("1", "host")}
    s.check(sets == {"single": into | back | between | {("0", "0"), ("1", "1")}, "bidirectional": into | back | between, "host-to-all": into, "all-to-host": back,
                     "host-both": into | back} and all(r["gbps"] > 0 and r["verified"] for r in rows), "--matrix: all cells of two devices", done)
    done = s.done(*brief)
    lines = [line.split() for line in done.stdout.split("\n")]
    s.check(done.returncode == 0 and ["host", "0"] in lines and any(line[:2] == ["host", "-"] and len(line) == 3 for line in lines) and "sum" not in done.stdout,
            "--matrix: a table of one device", done)
    done = s.done(*brief, "-w", "h2d")
    s.check(done.returncode == 2 and "excludes --matrix" in done.stderr, "--matrix -w is refused", done)


def test_against(s):
    saved, other = s.path("saved.json"), s.path("other.json")
    s.done(*s.matrix, "-s", "64K", "--json", saved)
    done = s.done(*s.matrix, "-s", "64K", "--against", saved)
    s.check(done.returncode == 0 and " of 5 figures of 5 rows changed" in done.stdout, "--against: compares the cells", done)
    with open(saved, encoding="utf-8") as f:
        doc = json.load(f)
    for row in doc["rows"]:
        row["repeats"]["gbps"] = [1e6 if row["to"] == "host" else 1e-6]
    with open(other, "w", encoding="utf-8") as f:
        json.dump(doc, f)
    done = s.done(*s.matrix, "-s", "64K", "--against", other, "--json", "-")
    result = json.loads(done.stdout)["against"]
    s.check(sorted((f["then"]["median"] > 1, f["change_percent"] < 0, f["beyond_spread"]) for f in result["figures"]) ==
            [(False, False, True)] * 3 + [(True, True, True)] * 2, "--against: worse and better figures", done)
    done = s.done(*s.matrix, "-s", "32K", "--against", saved)
    s.check(done.returncode == 0 and "no row of this measurement is in that file" in done.stdout, "--against: no common rows", done)
    for text in ("", "{}", '{"rows": []}', '{"rows": [1]}', '{"rows": [{"gbps": 1}]}'):
        with open(other, "w", encoding="utf-8") as f:
            f.write(text)
        done = s.done(*s.brief, "--against", other)
        s.check(done.returncode == 1 and not done.stdout and f"--against: {other} is no result" in done.stderr, f"--against a file of {text!r}", done)
    done = s.done(*s.brief, "--against", "/nonexistent")
    s.check(done.returncode == 2 and "--against" in done.stderr and "/nonexistent" in done.stderr, "--against: a file that does not exist", done)
    done = s.done(*s.brief, "--against", saved, "--curves")
    s.check(done.returncode == 2 and "--against excludes" in done.stderr, "--against --curves is refused", done)


TESTS = [test_open_loop, test_file_workloads, test_processes, test_matrix, test_against, test_without_proc, test_client_rejected, test_server_refuses,
         test_invalid_arguments, test_before_work, test_sizes, test_invalid_device, test_full, test_closed_pipe, test_interrupted_sweep,
         test_interrupted_row, test_interrupted_modes, test_interrupted_tune]


def main():
    suite = Tools(*sys.argv[1:4])
    return suite.run_all(TESTS)


if __name__ == "__main__":
    sys.exit(main())
