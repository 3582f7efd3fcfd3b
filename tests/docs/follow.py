#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Runs the commands of the documentation in the order of reading: README.md, docs/devices.md, then the other pages.  TAP.

In a copy of the tree, with /usr/local empty and private changes to /etc (a mount namespace), sudo that runs its
arguments, and apt-get that installs nothing: ./tools/check docs installs what the pages need before.  apt-get may download,
which changes nothing on the machine: tests/vm/shell fetches its kernel by it.
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../install"))
from pages import TOP, all_blocks, matches  # noqa: E402
from sources import copy_tree  # noqa: E402

# A block builds the tree, which a busy machine takes 20 minutes for.
BLOCK_SECONDS, BOOT_SECONDS, GUEST_SECONDS = 3600, 240, 120
MOUNTS = """set -e
mount -t tmpfs -o mode=755 tmpfs /usr/local
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" overlay /etc
shift
exec "$@"
"""
APT_GET = """[ "$1" != download ] || exec {} "$@"
echo "apt-get $*: a package is missing" >&2
exit 1"""
count = failed = 0


def point(ok, name, log=""):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}".replace("#", "").rstrip("\\ "), flush=True)
    if not ok:
        print("".join(f"# {line}\n" for line in log.splitlines()[-60:]), end="", flush=True)


# ---- in the clone ---------------------------------------------------------------------------------------

def run(command, where):
    p = subprocess.Popen(["bash", "-eo", "pipefail", "-c", command], cwd=where, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        return p.communicate(timeout=BLOCK_SECONDS)[0], p.returncode
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, 9)
        return p.communicate()[0] + f"\nkilled after {BLOCK_SECONDS} s", 1


def in_clone(block, where):
    for command, said in block.steps():
        printed, status = run(command, where)
        if status or (said is not None and not matches(said, printed)):
            return False, f"{command}\nstatus {status}, printed:\n{printed}\n" + (f"the page says:\n{said}" if said else "")
    return True, ""


# ---- in the guest ---------------------------------------------------------------------------------------

class GuestLost(Exception):
    pass


class Terminal:
    """The terminal of a virtual machine that a command starts."""

    def __init__(self, command, where):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(["bash", "-ec", command], cwd=where, stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True)
        os.close(slave)
        self.text = ""
        self.until_prompt(BOOT_SECONDS)

    def more(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.master], [], [], left)[0]:
            raise GuestLost(f"no answer before the deadline; output so far:\n{self.text}")
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        if not data:
            raise GuestLost(f"the machine has exited; output so far:\n{self.text}")
        self.text += data.decode(errors="replace").replace("\r", "")

    def until_prompt(self, seconds):
        deadline = time.monotonic() + seconds
        while True:
            plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.text)
            if plain.endswith("guest# "):
                self.text = ""
                return plain.removesuffix("guest# ").partition("\n")[2]
            self.more(deadline)

    def type(self, command):
        os.write(self.master, command.encode() + b"\n")

    def run(self, command):
        """(output, status) of a command in the guest."""
        self.type(command)
        printed = self.until_prompt(GUEST_SECONDS)
        self.type("echo $?")
        return printed, int(self.until_prompt(GUEST_SECONDS).strip() or -1)

    def leave(self):
        self.type("exit")
        deadline = time.monotonic() + GUEST_SECONDS
        try:
            while True:
                self.more(deadline)
        except GuestLost:
            return self.process.wait(30)

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.master)


def in_guest(block, guest):
    if guest is None:
        return False, "no machine was started"
    try:
        for command, said in block.steps():
            if command == "exit":
                if guest.leave():
                    return False, f"the machine ended with an error\n{guest.text}"
                continue
            printed, status = guest.run(command)
            if status or not matches(said, printed):
                return False, f"{command}\nstatus {status}, printed:\n{printed}\nthe page says:\n{said}"
    except (GuestLost, ValueError, OSError, subprocess.TimeoutExpired) as e:
        return False, str(e)
    return True, ""


# ---- all pages ------------------------------------------------------------------------------------------

def follow(clone):
    guest = None
    for block in all_blocks():
        if block.kind == "file":
            with open(os.path.join(clone, block.value), "w", encoding="utf-8") as f:
                f.write(block.text)
        elif block.kind == "guest":
            try:
                guest = Terminal(block.text, clone)
                point(True, block.title)
            except GuestLost as e:
                point(False, block.title, str(e))
        elif block.kind == "run" and block.value == "clone":
            ok, log = in_clone(block, clone)
            point(ok, block.title, log)
        elif block.kind == "run" and block.value == "guest":
            ok, log = in_guest(block, guest)
            point(ok, block.title, log)
    if guest:
        guest.stop()


def inside(scratch):
    clone, shims = os.path.join(scratch, "usdma"), os.path.join(scratch, "shims")
    copy_tree(clone)
    os.mkdir(shims)
    for name, text in (("sudo", 'exec "$@"'), ("apt-get", APT_GET.format(shutil.which("apt-get") or "false"))):
        with open(os.path.join(shims, name), "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(f.name, 0o755)
    for name in [n for n in os.environ if n.startswith(("USDMA_", "DESTDIR", "LD_LIBRARY", "PKG_CONFIG", "PYTHON"))]:
        del os.environ[name]
    os.environ["PATH"] = shims + ":" + os.environ["PATH"]
    os.environ["CXXFLAGS"] = "-O0"  # this test needs no fast code
    os.environ.update(CCACHE_BASEDIR=clone, CCACHE_NOHASHDIR="1", CCACHE_SLOPPINESS="pch_defines,time_macros")
    follow(clone)
    print(f"1..{count}")
    return 1 if failed or not count else 0


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(sys.argv[2])
    scratch = tempfile.mkdtemp(prefix="usdma-docs-")
    os.mkdir(os.path.join(scratch, "over"))
    enter = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c", MOUNTS, "sh",
             os.path.join(scratch, "over")]
    try:
        tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            print(f"1..0 # SKIP no mount namespace (needs CAP_SYS_ADMIN or user namespaces): {' '.join(tried.stderr.split())}")
            return 0
        return subprocess.run([*enter, sys.executable, "-B", os.path.abspath(__file__), "--inside", scratch], check=False).returncode
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


sys.exit(main())
