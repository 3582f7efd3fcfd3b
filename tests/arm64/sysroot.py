# SPDX-License-Identifier: BSD-3-Clause
"""A sysroot of Debian's arm64 packages, and a mount namespace in which Linux runs arm64 programs by qemu-user."""
import contextlib
import ctypes
import glob
import os
import shutil
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in ("../foreign/machines", "../install")]
import cache  # noqa: E402
from debian_root import run  # noqa: E402

AT = os.path.join(os.path.dirname(cache.AT), "arm64")
PACKAGES = ("libc6-dev", "libstdc++-12-dev", "liburing-dev", "libnuma-dev", "libcli11-dev", "nlohmann-json3-dev", "libfmt-dev", "libpci-dev",
            "libboost-dev", "libseccomp-dev", "libcmocka-dev", "libfuse3-dev", "systemtap-sdt-dev")
QEMU = "/usr/bin/qemu-aarch64-static"
TRIPLET = "aarch64-linux-gnu"
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
# An executable or shared ELF file of 64 bits, little-endian, for machine 183 (AArch64). F: the interpreter is opened at once; P: it gets argv[0].
FORMAT = rf":NAME:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00" \
         rf"\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{QEMU}:FP"


def must(result, what):
    ok, output = result
    if not ok:
        raise cache.CacheError(f"{what} failed: is there a mirror with arm64 packages in apt's sources?\n{output[-2000:]}")
    return output


def apt(folder, **more):
    """apt-get with its own state: the host's list of architectures is unchanged."""
    for name in ("lists/partial", "archives/partial", "fs/usr/lib"):
        os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, "status"), "w", encoding="ascii"):
        pass
    settings = {"Dir::State::status": f"{folder}/status", "Dir::State::Lists": f"{folder}/lists", "Dir::Cache": folder,
                "APT::Architecture": "arm64", "APT::Architectures": "arm64", "APT::Sandbox::User": "", "Debug::NoLocking": "1", **more}
    return ["apt-get", "-q", "-y", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]


def _make(folder):
    words = apt(folder)
    must(run([*words, "update"], 300), "apt-get update for arm64")
    must(run([*words, "--no-install-recommends", "--download-only", "install", *PACKAGES], 900), "download of arm64 packages")
    os.symlink("usr/lib", f"{folder}/fs/lib")
    debs = sorted(glob.glob(f"{folder}/archives/*.deb"))
    for deb in debs:
        must(run(["dpkg-deb", "-x", deb, f"{folder}/fs"]), f"unpacking {deb}")
    for name in ("lists", "archives", "fs/etc", "fs/usr/share/doc", "fs/usr/share/man"):
        shutil.rmtree(os.path.join(folder, name))
    return {"packages": [os.path.basename(deb) for deb in debs]}


def get(say):
    """The sysroot's folder; creates it if it does not exist."""
    return os.path.join(cache.made(AT, "root", cache.key("1", *PACKAGES), _make, say), "fs")


def _map_ids(pid):
    """All ids where this process may map them, for tests that change theirs; else its own, as root."""
    for name, own in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
        try:
            write(f"/proc/{pid}/{name}", "0 0 65536")
        except PermissionError:
            write(f"/proc/{pid}/setgroups", "deny")  # the kernel demands it of a process without privileges
            write(f"/proc/{pid}/{name}", f"0 {own} 1")


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def register(folder, name):
    """Linux runs arm64 programs by qemu-user, also in other roots, while binfmt_misc is mounted at the folder.  Returns the entry's path."""
    must(run(["mount", "-t", "binfmt_misc", "none", folder]), "mount of binfmt_misc")
    with contextlib.suppress(OSError):  # an entry of a run that was killed
        write(f"{folder}/{name}", "-1")
    write(f"{folder}/register", FORMAT.replace("NAME", name, 1))
    return f"{folder}/{name}"


def enter(fs):
    """From here on arm64 programs that this process starts, and those that they start, run by qemu-user; other processes are unaffected."""
    parent, (ready, started) = os.getpid(), os.pipe()
    child = os.fork()
    if not child:  # in the outer namespace, which alone may map its ids
        os.close(started)
        os.read(ready, 1)
        _map_ids(parent)
        os._exit(0)
    os.close(ready)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    os.close(started)
    if os.waitpid(child, 0)[1]:
        raise OSError("the user namespace got no ids")
    register("/proc/sys/fs/binfmt_misc", "arm64")
    os.environ["QEMU_LD_PREFIX"] = fs


def cross_file(fs, path):
    """Writes Meson's cross file: the compiler, pkg-config's folders, and that built programs can run."""
    tools = {"c": "gcc", "cpp": "g++", "ar": "gcc-ar", "strip": "strip", "objcopy": "objcopy", "readelf": "readelf", "nm": "nm"}
    ccache = ["ccache"] if shutil.which("ccache") else []
    lines = [f"{name} = {(ccache if tool in ('gcc', 'g++') else []) + [f'{TRIPLET}-{tool}'] + ([f'--sysroot={fs}'] if tool in ('gcc', 'g++') else [])}"
             for name, tool in tools.items()]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(["[binaries]", *lines, "pkgconfig = 'pkg-config'", "[properties]", "needs_exe_wrapper = false", f"sys_root = '{fs}'",
                           f"pkg_config_libdir = ['{fs}/usr/lib/{TRIPLET}/pkgconfig', '{fs}/usr/share/pkgconfig']",
                           "[host_machine]", "system = 'linux'", "cpu_family = 'aarch64'", "cpu = 'aarch64'", "endian = 'little'", ""]))
