#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a test program over a backend: the embedded device, or usdma-sim processes of its own.

backend.py BACKEND --sim USDMA-SIM [--device OPTIONS]... [--apart] [--deadline S] -- TEST [ARGUMENT]...

OPTIONS are the software device's ("mem=256M:engines=2"), once for each device;
default: one device as it comes.  One with "faults=" takes rules while it runs: a
process by the control socket SOCKET.control.  The test finds USDMA_DEVICES set, and beside it
USDMA_TEST_BACKEND and USDMA_SIM (the program, for tests that kill one).
With --apart the device's engines have one CPU and the test the others, and the test finds
USDMA_TEST_APART set; where there is one CPU only, they share it and it is not set.
A test that hangs is killed at the deadline, and a device process that ends
before it is told to, or badly, is a failure.
"""
import argparse
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile

READY_SECONDS = 20
LEAVE_SECONDS = 20


class Trouble(Exception):
    pass


class Sim:
    """One usdma-sim on a socket."""

    def __init__(self, program, options, path):
        self.path = path
        ready, told = os.pipe()
        settings = ["--" + pair for pair in options.replace("nomem=1", "nomem").split(":") if pair and pair != "faults="]
        words = [word for word in os.environ.get("USDMA_CHECK", "").split(",") if word]
        if words:
            settings += ["--timing", next((word for word in words if word not in ("race", "unwritten", "guard")), "late").replace(":", "@")]
        if "faults=" in options:
            settings += ["--control", path + ".control"]
        self.log = tempfile.TemporaryFile()
        # What the engines copy is the client's, and so is the order of it: a race checker in here sees no reason for it.
        quiet = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan-sim.supp")
        env = dict(os.environ, TSAN_OPTIONS=os.environ.get("TSAN_OPTIONS", "") + ":suppressions=" + quiet)
        self.process = subprocess.Popen([program, "--socket", path, "--ready-fd", str(told), *settings],
                                        pass_fds=[told], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env)
        os.close(told)
        try:
            self._wait_ready(ready)
        except Trouble:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            os.close(ready)

    def _wait_ready(self, fd):
        if not select.select([fd], [], [], READY_SECONDS)[0]:
            raise Trouble(f"usdma-sim was not ready after {READY_SECONDS} s\n{self.output()}")
        if not os.read(fd, 64):
            raise Trouble(f"usdma-sim ended with status {self.process.wait()} before it was ready\n{self.output()}")

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def leave(self):
        """Ends it; what was wrong with it, or nothing."""
        early = self.process.poll()
        if early is None:
            self.process.terminate()
            try:
                self.process.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return f"usdma-sim did not end {LEAVE_SECONDS} s after SIGTERM\n{self.output()}"
        status = self.process.returncode
        if early is not None:
            return f"usdma-sim ended by itself with status {early}\n{self.output()}"
        return f"usdma-sim ended with status {status}\n{self.output()}" if status not in (0, -signal.SIGTERM) else None


def run_test(command, env, deadline):
    test = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        status = test.wait(deadline)
        return status if status >= 0 else 128 - status
    except subprocess.TimeoutExpired:
        print(f"\nBail out! still running after {deadline} s", flush=True)
        return 1
    finally:
        try:  # what is left of it: its whole session, so that no child of a hanging test stays behind
            os.killpg(test.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        test.wait()


def keep_apart(devices):
    *others, engines = sorted(os.sched_getaffinity(0))
    if not others:
        return devices
    os.sched_setaffinity(0, others)
    os.environ["USDMA_TEST_APART"] = "1"
    return [f"{d}:cpus={engines}" for d in devices]


def run(args, scratch, sims):
    if args.apart:
        args.device = keep_apart(args.device)
    env = dict(os.environ, USDMA_SIM=args.sim, USDMA_TEST_BACKEND=args.backend)
    if args.backend == "embedded":
        env["USDMA_DEVICES"] = ",".join("sim" + (":" + d if d else "") + args.suffix for d in args.device)
    else:
        for n, options in enumerate(args.device):
            sims.append(Sim(args.sim, options, os.path.join(scratch, f"dev{n}")))
        env["USDMA_DEVICES"] = ",".join("vfio-user:" + s.path + args.suffix for s in sims)
    return run_test(args.command, env, args.deadline)


def end_on_signal(number, _frame):
    sys.exit(128 + number)


def main():
    signal.signal(signal.SIGTERM, end_on_signal)  # so that what was started is ended too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=["embedded", "process"])
    parser.add_argument("--sim", required=True)
    parser.add_argument("--device", action="append")
    parser.add_argument("--apart", action="store_true", help="the device's engines have a CPU of their own")
    parser.add_argument("--suffix", default="", help="what each device string ends in, such as :trust=no")
    parser.add_argument("--deadline", type=float, default=110)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    args.device = args.device or [""]
    scratch, sims = tempfile.mkdtemp(prefix="usdma-it-"), []
    try:
        args.deadline *= float(os.environ.get("USDMA_TEST_PATIENCE", 1))  # what a sanitizer costs; meson's --timeout-multiplier
        status = run(args, scratch, sims)
    except Trouble as trouble:
        print(f"Bail out! {str(trouble).splitlines()[0]}")
        print(trouble, file=sys.stderr)
        status = 1
    finally:
        wrong = [w for w in (s.leave() for s in sims) if w]
        shutil.rmtree(scratch, ignore_errors=True)
    for w in wrong:
        print(w, file=sys.stderr)
    return status if status or not wrong else 1


sys.exit(main())
