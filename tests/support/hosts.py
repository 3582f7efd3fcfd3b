# SPDX-License-Identifier: BSD-3-Clause
"""
Machines of a test: network namespaces that a bridge connects, each with an identity of its own (USDMA_HOST_ID).

They belong to processes of the test: nothing remains after it, however it is stopped.  Needs root, `ip` and a kernel with
network namespaces, veth and bridges; reason() says what is missing.
"""
import ctypes
import os
import shutil
import subprocess

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
libc = ctypes.CDLL(None, use_errno=True)


class Lacks(Exception):
    """This machine cannot have others in it; the text says why."""


def must(err):
    if err:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def leave():
    """/sys shows the interfaces of the namespace in which it was mounted."""
    must(libc.unshare(CLONE_NEWNET | CLONE_NEWNS))
    must(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    must(libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None))


class Space:
    """A network namespace, held by a process that exits with this one."""

    def __init__(self):
        self.holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=leave)
        self.files = [os.open(f"/proc/{self.holder.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "mnt")]

    def enter(self):
        for file in self.files:
            must(libc.setns(file, 0))

    def popen(self, command, **options):
        return subprocess.Popen(command, preexec_fn=self.enter, **options)

    def run(self, *command, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60, **options}
        return subprocess.run(command, preexec_fn=self.enter, check=False, **options)

    def ip(self, text):
        done = self.run("ip", *text.split())
        if done.returncode:
            raise Lacks(f"ip {text}: {done.stderr.strip()}")

    def end(self):
        for file in self.files:
            os.close(file)
        self.holder.stdin.close()
        self.holder.wait()


class Host(Space):
    """Its interfaces are eth0, eth1, …; addresses in the networks 10.77.N.0/24 and fd77:N::/64."""

    def __init__(self, number, interfaces):
        super().__init__()
        self.number, self.interfaces = number, interfaces
        self.id = f"{os.getpid():016x}{number:016x}"

    def address(self, net=0):
        return f"10.77.{net}.{self.number}"

    def address6(self, net=0):
        return f"fd77:{net}::{self.number}"

    def env(self, **more):
        """Without settings of the user's."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("USDMA_", "UCX_"))}
        return {**clean, "USDMA_HOST_ID": self.id, "USDMA_CONFIG": "/dev/null", **more}


class Hosts:
    """with Hosts(2) as (a, b): …"""

    def __init__(self, count=2, interfaces=1):
        if os.geteuid():
            raise Lacks("not root: network namespaces need it")
        if not shutil.which("ip"):
            raise Lacks("there is no ip (package iproute2)")
        self.all, self.switch = [], None
        try:
            self.switch = Space()
            self.all = [Host(n + 1, interfaces) for n in range(count)]
            for net in range(interfaces):
                self.connect(net)
        except (OSError, subprocess.SubprocessError, Lacks) as e:
            self.end()
            raise Lacks(f"no network namespaces: {e}") from e

    def connect(self, net):
        self.switch.ip(f"link add br{net} type bridge")
        self.switch.ip(f"link set br{net} up")
        for host in self.all:
            port = f"p{net}-{host.number}"
            self.switch.ip(f"link add {port} type veth peer name eth{net} netns {host.holder.pid}")
            self.switch.ip(f"link set {port} master br{net} up")
            host.ip("link set lo up")
            host.ip(f"address add {host.address(net)}/24 dev eth{net}")
            host.ip(f"address add {host.address6(net)}/64 dev eth{net} nodad")
            host.ip(f"link set eth{net} up")

    def link(self, host, up, net=0):
        self.switch.ip(f"link set p{net}-{host.number} {'up' if up else 'down'}")

    def end(self):
        for space in [*self.all, self.switch]:
            if space:
                space.end()

    def __enter__(self):
        return self.all

    def __exit__(self, *_):
        self.end()
