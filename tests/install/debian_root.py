# SPDX-License-Identifier: BSD-3-Clause
"""A clean Debian root, by default of the release that runs: made by debootstrap once, unpacked for each run; runs commands in it."""
import os
import platform
import re
import shutil
import subprocess


def release():
    """Debian 12 or 13; 12 on other systems."""
    here = platform.freedesktop_os_release()
    return {"debian 12": "bookworm", "debian 13": "trixie"}.get(f"{here.get('ID')} {here.get('VERSION_ID')}", "bookworm")


SUITE = release()
APT_SETTINGS = re.compile(r'^Acquire::(https?::|Check-Valid-Until|Check-Date|Retries)[^\n]*;$', re.M)
# Prefixes of environment variables that are not passed on: paths and compiler settings of this machine.
HOST_ONLY = ("USDMA_", "LD", "DESTDIR", "PYTHON", "CC", "CXX", "CFLAGS", "CPPFLAGS")


class Stop(Exception):
    """The test is over; the failed point has been reported."""


class Points:
    count = failed = 0

    def add(self, ok, name, log=""):
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}", flush=True)
        if not ok and log:
            print("".join(f"# {line}\n" for line in log.splitlines()[-60:]), end="", flush=True)
        return ok

    def must(self, result, name):
        if not self.add(result[0], name, result[1]):
            raise Stop
        return result[1]


def run(words, deadline=600, cwd=None, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(HOST_ONLY)}
    try:
        p = subprocess.run(words, cwd=cwd, env={**clean, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **env},
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace", timeout=deadline, check=False)
        return p.returncode == 0, p.stdout
    except subprocess.TimeoutExpired as e:
        return False, f"{words[0]}: still running after {deadline} s\n{(e.stdout or b'').decode(errors='replace')}"
    except OSError as e:
        return False, str(e)


def why_not(tools, packages):
    """Why commands cannot run in such a root here; None: they can.  packages: arguments of ./tools/packages that install the tools."""
    if os.geteuid():
        return "not root, and debootstrap needs to be"
    for tool in ("debootstrap", "unshare", "pivot_root", *tools):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            return f"no {tool}: ./tools/packages {packages} installs it"
    ok, said = run(["unshare", "--mount", "--pid", "--fork", "sh", "-ec", "mount --bind /mnt /mnt; cd /mnt; pivot_root . ."])
    return None if ok else f"this container may not make namespaces or change its root (CAP_SYS_ADMIN): {said.strip()}"


def swap(result, name):
    return result[0], name, result[1]


def mirror(suite=SUITE, otherwise="http://deb.debian.org/debian"):
    """The URL from which apt gets this suite."""
    ok, out = run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"])
    sites = [line.split()[0] for line in out.splitlines() if ok and line.endswith(" " + suite)]
    return sites[0] if sites else otherwise


def apt_as_here(root, site, suites):
    """Makes apt in the root use the mirror, proxy and certificates of this machine."""
    with open(f"{root}/etc/apt/sources.list", "w", encoding="utf-8") as f:
        f.write("".join(f"deb {site} {suite} main\n" for suite in suites))
    ok, said = run(["apt-config", "dump"])
    with open(f"{root}/etc/apt/apt.conf.d/90host", "w", encoding="utf-8") as f:
        f.write("\n".join(m.group(0) for m in APT_SETTINGS.finditer(said if ok else "")) + "\n")
    for name in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
        if os.path.exists("/" + name):
            os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
            shutil.copy("/" + name, f"{root}/{name}")


def root_dir(points, work, suite=SUITE, site=None, options=()):
    base, root = os.path.join(work, "base.tar"), os.path.join(work, "root")
    shutil.rmtree(root, ignore_errors=True)
    if not os.path.exists(base):
        # In a namespace: its mounts are removed with it, also if it is killed.
        points.must(run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase", *options, suite, root,
                         site or mirror(suite)], 3600), "debootstrap")
        points.must(run(["tar", "-C", root, "-cf", base + ".part", "."]), "the root is saved for the next run")
        os.rename(base + ".part", base)
    else:
        os.makedirs(root)
        points.must(run(["tar", "-C", root, "-xpf", base]), "a root that debootstrap made before")
    with open(os.path.join(root, "etc/dpkg/dpkg.cfg.d/quick"), "w", encoding="ascii") as f:
        f.write("force-unsafe-io\n")
    with open(os.path.join(root, "usr/sbin/policy-rc.d"), "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nexit 101\n")
    os.chmod(os.path.join(root, "usr/sbin/policy-rc.d"), 0o755)
    return root


# Mounts below $1 are visible to the script only.  pivot_root and not chroot: user namespaces work in it.
ENTER = '''mount --bind "$1" "$1"; mount -t proc proc "$1/proc"; mount --bind /sys "$1/sys"; mount -o remount,bind,ro "$1/sys"
root=$1 script=$2; shift 2
while [ $# -gt 0 ]; do mkdir -p "$root$2"; mount --rbind "$1" "$root$2"; shift 2; done
cd "$root"; pivot_root . media; umount -l /media; cd /; exec /bin/sh -ec "$script"'''


def inside(root, script, deadline=600, folder=None, binds=(), **env):
    """A shell script in the root, with its own processes and /proc, the host's /sys to read, a folder as /mnt, and binds: (from, to)."""
    mounts = [*([(folder, "/mnt")] if folder else []), *binds]
    return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh", root, script, *(p for pair in mounts for p in pair)],
               deadline, **{"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TMPDIR": "/tmp", **env})
