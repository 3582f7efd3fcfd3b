# SPDX-License-Identifier: BSD-3-Clause
"""Builds the guest's only file system: a cpio archive (newc) with busybox, modules and our programs."""

import os
import re
import shutil
import stat
import subprocess

BUSYBOX = "/bin/busybox"
# Default folders of the guest's loader, which has no ld.so.cache.
STANDARD = ("/lib/", "/usr/lib/", "/lib64/")


class Archive:
    def __init__(self):
        self._out = bytearray()
        self._seen = set()
        self._ino = 0

    def _entry(self, name, mode, data=b"", rdev=(0, 0)):
        self._ino += 1
        name_z = name.encode() + b"\0"
        fields = [self._ino, mode, 0, 0, 1, 0, len(data), 0, 0, rdev[0], rdev[1], len(name_z), 0]
        self._out += b"070701" + b"".join(b"%08x" % v for v in fields) + name_z
        self._out += b"\0" * (-len(self._out) % 4)
        self._out += data
        self._out += b"\0" * (-len(self._out) % 4)

    def directory(self, path):
        path = path.strip("/")
        if not path or path in self._seen:
            return
        self.directory(os.path.dirname(path))
        self._seen.add(path)
        self._entry(path, stat.S_IFDIR | 0o755)

    def file(self, path, data, mode=0o644):
        path = path.strip("/")
        if path in self._seen:
            return
        self.directory(os.path.dirname(path))
        self._seen.add(path)
        self._entry(path, stat.S_IFREG | mode, data)

    def symlink(self, path, target):
        path = path.strip("/")
        self.directory(os.path.dirname(path))
        self._seen.add(path)
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def device(self, path, major, minor):
        self.directory(os.path.dirname(path.strip("/")))
        self._entry(path.strip("/"), stat.S_IFCHR | 0o600, rdev=(major, minor))

    def write(self, path):
        self._entry("TRAILER!!!", 0)
        with open(path, "wb") as f:
            f.write(self._out)


class Tools:
    """Tools for programs of this machine; or of another architecture: libraries below SYSROOT, RUNNER emulates programs."""

    def __init__(self, sysroot="", runner=(), strip="strip", busybox=BUSYBOX):
        self.sysroot, self.runner, self.strip, self.busybox = sysroot, list(runner), strip, busybox

    def here(self, library):
        """The file on this machine for a library that the loader names."""
        return self.sysroot + library if library.startswith(STANDARD) else library


HERE = Tools()


def shared_libraries(program, build_dir, tools=HERE):
    """(path in the guest, file on this machine) of each library that the program loads."""
    env = dict(os.environ, LD_LIBRARY_PATH="", **({"LD_TRACE_LOADED_OBJECTS": "1"} if tools.runner else {}))
    shown = subprocess.run([*(tools.runner or ["ldd"]), program], capture_output=True, text=True, env=env, check=False).stdout
    missing = re.findall(r"(\S+) => not found", shown)
    if missing:
        raise RuntimeError(f"{program}: libraries not found: {', '.join(missing)}")
    for name, path in re.findall(r"(\S+) => (/\S+)", shown):
        yield ("/usr/lib/usdma-test/" + name if not path.startswith(STANDARD) or path.startswith(build_dir) else path), tools.here(path)
        # It loads these itself.
        for other in ("libusdma-sim.so.0", "libusdma-check.so.0") if name == "libusdma.so.0" and path.startswith(build_dir) else ():
            yield "/usr/lib/usdma-test/" + other, os.path.join(os.path.dirname(path), other)
    for path in re.findall(r"^\s+(/\S*ld-linux\S*)", shown, re.M):
        yield path, tools.here(path)


def _stripped(path, scratch, strip):
    out = os.path.join(scratch, "stripped")
    if shutil.which(strip) and subprocess.run([strip, "-S", "-o", out, path], check=False, stderr=subprocess.DEVNULL).returncode == 0:
        path = out
    with open(path, "rb") as f:
        return f.read()


def add_program(archive, path, guest_path, build_dir, scratch, tools=HERE):
    archive.file(guest_path, _stripped(path, scratch, tools.strip), 0o755)
    for guest_lib, lib in shared_libraries(path, build_dir, tools):
        archive.file(guest_lib, _stripped(lib, scratch, tools.strip), 0o755)


def add_modules(archive, kernel, modules, names):
    """The modules, with the tables that busybox's modprobe reads."""
    base = f"lib/modules/{kernel.release}"
    lines = []
    for name in modules.closure(names):
        with_dash = os.path.basename(modules.paths[name]).split(".ko")[0]
        archive.file(f"{base}/kernel/{with_dash}.ko", modules.data(name))
        needs = reversed([m for m in modules.closure([name]) if m != name])
        needed = [f"kernel/{os.path.basename(modules.paths[m]).split('.ko')[0]}.ko" for m in needs]
        lines.append(f"kernel/{with_dash}.ko: {' '.join(needed)}\n")
    archive.file(f"{base}/modules.dep", "".join(lines).encode())
    archive.file(f"{base}/modules.alias", b"")
    archive.file(f"{base}/modules.symbols", b"")


def guest_text(*names):
    """The concatenated parts of the guest's init script."""
    text = ""
    for name in names:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), encoding="utf-8") as f:
            text += f.read()
    return text


def add_base(archive, init, tools=HERE):
    with open(tools.busybox, "rb") as f:
        archive.file("bin/busybox", f.read(), 0o755)
    applets = subprocess.run([*tools.runner, tools.busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for a in applets:
        if a not in ("busybox", "ip"):
            archive.symlink(f"bin/{a}", "busybox")
    archive.symlink("sbin", "bin")
    for d in ("proc", "sys", "dev", "run", "tmp", "root", "usr/bin"):
        archive.directory(d)
    archive.device("dev/console", 5, 1)
    archive.file("init", init.encode(), 0o755)
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n"
                 b"member:x:1001:1001:member:/tmp:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\nuser:x:1000:\nmember:x:1001:\nusdma:x:2000:member\n")
