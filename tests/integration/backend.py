#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a test program over a backend: the embedded device, usdma-sim processes of its own, or devices that usdma-sim shares.

backend.py BACKEND --sim USDMA-SIM [--device OPTIONS]... [--apart] [--deadline S] -- TEST [ARGUMENT]...

OPTIONS are the software device's ("mem=256M:engines=2"), once for each device;
default: one device with default options.  A device with "faults=" accepts fault rules at run
time: a process by its control socket SOCKET.control.  The test gets the environment variables
USDMA_DEVICES, USDMA_TEST_BACKEND and USDMA_SIM (the program, for tests that kill one).
With --apart the device's engines run on one CPU and the test on the others, and USDMA_TEST_APART
is set; with one CPU only, they share it and the variable is not set.
A test that hangs is killed at the deadline.  A device process that exits by
itself, or with an error, is a failure.
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
STOP_SECONDS = 20


class SimError(Exception):
    pass


class Sim:
    """One usdma-sim on a socket."""

    def __init__(self, program, options, path, behind=None):
        self.path = path
        ready, ready_write = os.pipe()
        settings = ["--backend", behind] if behind else ["--" + pair for pair in options.replace("nomem=1", "nomem").split(":") if pair and pair != "faults="]
        words = [word for word in os.environ.get("USDMA_CHECK", "").split(",") if word]
        if words and not behind:
            settings += ["--timing", next((word for word in words if word not in ("race", "unwritten", "guard")), "late").replace(":", "@")]
        if "faults=" in options:
            settings += ["--control", path + ".control"]
        self.log = tempfile.TemporaryFile()
        # The client orders the engines' accesses; TSan in this process cannot see that order.
        suppressions = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan-sim.supp")
        env = dict(os.environ, TSAN_OPTIONS=os.environ.get("TSAN_OPTIONS", "") + ":suppressions=" + suppressions)
        self.process = subprocess.Popen([program, "--socket", path, "--ready-fd", str(ready_write), *settings],
                                        pass_fds=[ready_write], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env)
        os.close(ready_write)
        try:
            self._wait_ready(ready)
        except SimError:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            os.close(ready)

    def _wait_ready(self, fd):
        if not select.select([fd], [], [], READY_SECONDS)[0]:
            raise SimError(f"usdma-sim was not ready after {READY_SECONDS} s\n{self.output()}")
        if not os.read(fd, 64):
            raise SimError(f"usdma-sim ended with status {self.process.wait()} before it was ready\n{self.output()}")

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def stop(self):
        """Terminates it; returns the text of a failure, or None."""
        early = self.process.poll()
        if early is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return f"usdma-sim did not end {STOP_SECONDS} s after SIGTERM\n{self.output()}"
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
        try:  # the whole session, so that no child of a hanging test stays
            os.killpg(test.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        test.wait()


def separate_cpus(devices):
    *others, engines = sorted(os.sched_getaffinity(0))
    if not others:
        return devices
    os.sched_setaffinity(0, others)
    os.environ["USDMA_TEST_APART"] = "1"
    return [f"{d}:cpus={engines}" for d in devices]


def run(args, scratch, sims):
    if args.apart:
        args.device = separate_cpus(args.device)
    env = dict(os.environ, USDMA_SIM=args.sim, USDMA_TEST_BACKEND="embedded" if args.backend == "embedded" else "process")
    if all("rate=" in d for d in args.device):
        env["USDMA_TEST_RATED"] = "1"
    if args.backend == "embedded":
        env["USDMA_DEVICES"] = ",".join("sim" + (":" + d if d else "") + args.suffix for d in args.device)
    else:
        for n, options in enumerate(args.device):
            path = os.path.join(scratch, f"dev{n}")
            if args.backend == "shared":
                sims.append(Sim(args.sim, options, path + ".behind"))
                sims.insert(n, Sim(args.sim, "", path, behind=f"vfio-user:{path}.behind"))
            else:
                sims.append(Sim(args.sim, options, path))
        env["USDMA_DEVICES"] = ",".join("vfio-user:" + s.path + args.suffix for s in sims[:len(args.device)])
    return run_test(args.command, env, args.deadline)


def end_on_signal(number, _frame):
    sys.exit(128 + number)


def main():
    signal.signal(signal.SIGTERM, end_on_signal)  # so that the cleanup below runs
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=["embedded", "process", "shared"])
    parser.add_argument("--sim", required=True)
    parser.add_argument("--device", action="append")
    parser.add_argument("--apart", action="store_true", help="the device's engines have a CPU of their own")
    parser.add_argument("--suffix", default="", help="appended to each device string, such as :trust=no")
    parser.add_argument("--deadline", type=float, default=110)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    args.device = args.device or [""]
    scratch, sims = tempfile.mkdtemp(prefix="usdma-it-"), []
    try:
        args.deadline *= float(os.environ.get("USDMA_TEST_PATIENCE", 1))  # a sanitizer's slowdown; meson's --timeout-multiplier
        status = run(args, scratch, sims)
    except SimError as error:
        print(f"Bail out! {str(error).splitlines()[0]}")
        print(error, file=sys.stderr)
        status = 1
    finally:
        failures = [w for w in (s.stop() for s in sims) if w]
        shutil.rmtree(scratch, ignore_errors=True)
    for w in failures:
        print(w, file=sys.stderr)
    return status if status or not failures else 1


sys.exit(main())
