#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files that integrate usdma into a system: systemd services, the udev helper, a passed socket, completions.  TAP.

system.py BUILD_DIR
system.py BUILD_DIR --trace    the bpftrace scripts attached to a running program
"""
import glob
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from tap import Points  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYSTEM = os.path.join(TOP, "system")
points = Points()
point = points.add
skip = points.skip


def run(words, timeout=60, **kw):
    p = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       timeout=timeout, check=False, **kw)
    return p.returncode, p.stdout


def function(root, group, name, cls, vendor, device):
    d = os.path.join(root, "kernel/iommu_groups", str(group), "devices", name)
    os.makedirs(d)
    for key, value in (("class", cls), ("vendor", vendor), ("device", device)):
        with open(os.path.join(d, key), "w", encoding="ascii") as f:
            f.write(value + "\n")


def udev_helper(scratch):
    function(scratch, 1, "0000:01:00.0", "0x088000", "0x5553", "0x0d3a")
    function(scratch, 2, "0000:02:00.0", "0x060400", "0x8086", "0x1234")
    function(scratch, 2, "0000:03:00.0", "0x00ff00", "0x1234", "0x11e8")
    function(scratch, 3, "0000:04:00.0", "0x088000", "0x5553", "0x0d3a")
    function(scratch, 3, "0000:04:00.1", "0x020000", "0x8086", "0x1521")
    function(scratch, 4, "0000:05:00.0", "0x060400", "0x8086", "0x1234")
    function(scratch, 6, "0000:06:00.0", "0x088000", "0x8086", "0x3c2e")
    function(scratch, 7, "0000:07:00.0", "0x088000", "0x8086", "0x3c28")
    for group, want, what in ((1, 0, "our device alone"), (2, 0, "our device behind a bridge"),
                              (3, 1, "our device with a network card"), (4, 1, "only a bridge"),
                              (5, 1, "a group that does not exist"), (6, 0, "a device that matches a pattern"),
                              (7, 1, "a device that does not match the pattern")):
        got, log = run([os.path.join(SYSTEM, "usdma-iommu-group"), "5553:0d3a,1234:11e8,8086:3c2[0-7ef]", str(group)],
                       env={**os.environ, "SYSFS": scratch})
        point(got == want, f"udev: {what} is {'accessible' if want == 0 else 'not accessible'} to the group usdma", f"{got}\n{log}")


def rule_numbers(build):
    """The udev rules match the ids of dma::drivers, which the program prints, and no others."""
    with open(os.path.join(build, "system/70-usdma.rules"), encoding="ascii") as f:
        rules = f.read()
    bare = [r for r in rules.splitlines() if r.startswith("SUBSYSTEM") and "vfio" in r and 'KERNEL=="' not in r]
    point(not bare, "udev: no rule matches the device files of noiommu mode", "\n".join(bare))
    ids = {tuple(line.split()[1].split(":")) for line in run([os.path.join(build, "tests/install/engine-ids")])[1].splitlines()}
    pairs = [(m[1], p) for m in re.finditer(r'ATTRS\{vendor\}=="0x(\w{4})", ATTRS\{device\}=="([^"]*)"', rules) for p in m[2].replace("0x", "").split("|")]
    groups = [tuple(p.split(":")) for p in re.search(r"usdma-iommu-group (\S+) %k", rules)[1].split(",")]
    for what, found in (("a device file", pairs), ("an IOMMU group", groups)):
        matched = {(v, p[:3] + d) for v, p in found for d in (p[4:-1] if "[" in p else p[3:])}
        point(ids and matched == ids, f"udev: {what} of each id of an engine, and of no other", f"{ids ^ matched}")


def passed_socket(build, scratch):
    path = os.path.join(scratch, "sim.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen(4)
        sim = subprocess.Popen([os.path.join(build, "tools/usdma-sim"), "--listen-fd", str(s.fileno()), "--mem", "64M"],
                               pass_fds=[s.fileno()], stdout=subprocess.PIPE, text=True)
    try:
        line = sim.stdout.readline()
        point(line.startswith("ready fd "), "usdma-sim uses a socket that was passed to it", line)
        for n in ("first", "next"):
            got, log = run([os.path.join(build, "tools/usdmactl/usdmactl"), "selftest", "vfio-user:" + path, "--size", "64K"])
            point(got == 0, f"the {n} client of a passed socket gets a device", log)
    finally:
        sim.terminate()
        got = sim.wait(30)
    point(got == 0, "usdma-sim exits on SIGTERM")
    point(os.path.exists(path), "and does not remove a socket that it did not create")
    with open(os.devnull, encoding="ascii") as f:
        got, log = run([os.path.join(build, "tools/usdma-sim"), "--listen-fd", str(f.fileno())], pass_fds=[f.fileno()])
    point(got == 1 and "not a UNIX stream socket" in log, "usdma-sim refuses a descriptor that is not a socket", log)


def services(build, scratch):
    if not shutil.which("systemd-analyze"):
        skip("services", "systemd-analyze is not installed")
        return
    for service, name in (("usdma-bind@.service", "usdma-bind@device.service"),
                       ("usdma-sim@.service", "usdma-sim@one.service"), ("usdma-sim@.socket", "usdma-sim@one.socket"),
                       ("usdma-share@.service", "usdma-share@device.service"), ("usdma-share@.socket", "usdma-share@device.socket"),
                       ("usdma-program.service", None)):
        where = os.path.join(SYSTEM if service.endswith("socket") else EXAMPLE if service == "usdma-program.service" else os.path.join(build, "system"), service)
        with open(where, encoding="ascii") as f:
            # The tools need not be installed here: verify with a command that is.
            text = "".join(line.split("=")[0] + "=/bin/true\n" if line.startswith("Exec") else line for line in f)
        with open(os.path.join(scratch, service), "w", encoding="ascii") as f:
            f.write(text.replace("man:usdma", "https://usdma").replace("man:usdmactl", "https://usdmactl"))
        if name:
            os.symlink(service, os.path.join(scratch, name))
    for name in ("usdma-bind@device.service", "usdma-sim@one.socket", "usdma-share@device.socket", "usdma-program.service"):
        got, log = run(["systemd-analyze", "--recursive-errors=no", "--man=no", "verify", os.path.join(scratch, name)])
        point(got == 0 and not [x for x in log.splitlines() if "usdma" in x], f"systemd accepts {name}", log)


# The highest exposure (0 to 10, by systemd-analyze) that each service may have.
EXPOSURE = {"usdma-bind@.service": 1.9, "usdma-sim@.service": 2.3, "usdma-share@.service": 2.7, "usdma-program.service": 0.9}
EXAMPLE = os.path.join(TOP, "docs/examples/systemd")


def exposure(build, scratch):
    if not shutil.which("systemd-analyze"):
        return skip("exposure", "systemd-analyze is not installed")
    for service, most in EXPOSURE.items():
        path = os.path.join(scratch, service)
        if os.path.exists(path):
            os.unlink(path)
        shutil.copy(os.path.join(EXAMPLE if service == "usdma-program.service" else os.path.join(build, "system"), service), path)
        got, log = run(["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={int(most * 10)}", path])
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", log)
        point(got == 0 and found is not None, f"{service}: exposure {found[1] if found else '?'}, at most {most}", log)


def odd_instances(build):
    """The instance name of usdma-bind@ is never parsed as an option."""
    with open(os.path.join(build, "system/usdma-bind@.service"), encoding="utf-8") as f:
        commands = re.findall(r"^Exec(?:Start|Stop)=\S+ (.*)$", f.read(), re.M)
    point(len(commands) == 2, "usdma-bind@ has a command to start and one to stop", str(commands))
    for command in commands:
        for instance in ("--help", "--noiommu", "--dry-run", "--json", "-h"):
            words = [word.replace("%I", instance) for word in command.split()]
            got, log = run([os.path.join(build, "tools/usdmactl/usdmactl"), *words])
            point(got == 2 and f"'{instance}' is not a PCI address" in log, f"{command}: {instance} is refused as an invalid address", log)


def tracepoints(build):
    """The bpftrace scripts use only tracepoints and arguments that the library has."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        if "-DUSDMA_TRACE" not in f.read():
            skip("tracepoints", "built without sys/sdt.h (systemtap-sdt-dev)")
            return
    _, notes = run(["readelf", "-n", "--wide", os.path.join(build, "lib/native/libusdma.so.0")])
    found = {name: len(args.split()) for name, args in re.findall(r"Name: (\w+)\n.*\n\s*Arguments: (.*)", notes)}
    with open(os.path.join(TOP, "lib/core/base/trace.h"), encoding="utf-8") as f:
        named = set(re.findall(r"STAP_PROBE\d\(usdma, (\w+),", f.read()))
    point(named and set(found) == named, "libusdma has the tracepoints of trace.h", f"{found}\n{notes}")
    for script in sorted(glob.glob(os.path.join(TOP, "docs/examples/bpftrace/*.bt"))):
        with open(script, encoding="utf-8") as f:
            uses = re.findall(r"^((?:usdt:\*:usdma:\w+,?\n)+)(.*?)^}", f.read(), re.M | re.S)
        wrong = [(probe, body) for heads, body in uses for probe in re.findall(r"usdma:(\w+)", heads)
                 if max([int(a) for a in re.findall(r"\barg(\d)", body)], default=-1) >= found.get(probe, -1)]
        point(uses and not wrong, f"{os.path.basename(script)} uses existing tracepoints and arguments", str(wrong))


def shells(build, scratch):
    """(environment, {shell: (command, first line of input)})"""
    files = {"bash": "complete.bash", "zsh": "zsh/_usdma", "fish": "complete.fish"}
    os.makedirs(os.path.join(scratch, "zsh"))
    shutil.copy(os.path.join(SYSTEM, "complete.zsh"), os.path.join(scratch, files["zsh"]))
    path = ":".join([*(os.path.join(build, "tools", t) for t in ("usdmactl", "perf", ".")), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PS1": "$ ", "TERM": "dumb", "INPUTRC": "/dev/null", "HOME": scratch, "ZDOTDIR": scratch}
    zsh = f"fpath=({scratch}/zsh $fpath); autoload -Uz compinit; compinit -u -d {scratch}/dump; unsetopt beep"
    return env, {"bash": (["bash", "--norc", "--noprofile", "-i"], f". {SYSTEM}/{files['bash']}"), "zsh": (["zsh", "-f", "-i"], zsh),
                 "fish": (["fish", "--no-config", "-c"], f"source {SYSTEM}/{files['fish']}")}


def typed(command, first, env, keys, wanted):
    """What an interactive shell prints after these keys and TAB, until it contains the wanted text."""
    master, slave = os.openpty()
    shell = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=env)
    os.close(slave)
    seen = ""
    os.write(master, f"{first}; echo rea''dy\n".encode())
    try:
        deadline = time.monotonic() + 60
        sent = False
        while time.monotonic() < deadline and wanted not in seen.rpartition("\nready")[2]:
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 4096).decode(errors="replace")
            if not sent and "\nready" in seen:
                os.write(master, f"{keys}\t".encode())
                sent = True
    finally:
        shell.kill()
        shell.wait()
        os.close(master)
    return seen.rpartition("\nready")[2]


def completions(build, scratch):
    """TAB in a real shell: commands, options, choices, devices and files."""
    with open(os.path.join(scratch, "a socket"), "w", encoding="ascii"):
        pass
    env, all_shells = shells(build, scratch)
    rows = (("usdmactl self", "usdmactl selftest "), ("usdmactl selftest --si", "selftest --size "), ("usdmactl --json info s", "info sim "),
            ("usdmactl sim x fau", "x faults "), ("usdmactl tune --device vfio", "--device vfio-user:"),
            (f"usdmactl info vfio-user:{scratch}/a", f"vfio-user:{scratch}/a\\ socket "), ("usdma-perf --depth 4 --wait poll,hy", "--wait poll,hybrid"),
            ("usdma-perf --wait=int", "--wait=interrupt "), ("usdma-sim --huge req", "--huge require "), ("usdma-sim --onc", "usdma-sim --once "))
    for shell, (command, first) in all_shells.items():
        if not shutil.which(command[0]):
            skip(f"completion by {shell}", f"{shell} is not installed")
            continue
        for keys, wanted in rows:
            if shell == "fish":  # it does not work on a dumb terminal
                wanted = wanted.split()[-1].replace("\\", "") if "socket" not in wanted else "socket"
                seen = run([*command, f"{first}; complete -C '{keys}'"], env=env)[1]
            else:
                seen = typed(command, first, env, keys, wanted)
            point(wanted in seen, f"{shell}: {keys.replace(scratch, '')}TAB", seen)


def attach(build, script, seconds):
    """Attaches a script to a running program for so many seconds: (worked, output)."""
    work = subprocess.Popen([os.path.join(build, "tools/perf/usdma-perf"), "-q", "--way", "h2d", "--size", "64", "--depth", "4",
                             "--seconds", "1", "--repeats", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # bpftrace may not act on SIGINT while it attaches; killed, it counts as not attached yet.
        got, log = run(["timeout", "-k", "60", "-s", "INT", str(seconds), "bpftrace", "-p", str(work.pid), script], timeout=seconds + 120)
    finally:
        work.kill()
        work.wait()
    return got in (0, 124) and re.search(r"@\w+\[.*\].*\n?.*\d", log) is not None, log


def live_tracing(build):
    """The bpftrace scripts on a running process."""
    program = os.path.join(build, "tools/perf/usdma-perf")
    lack = "bpftrace is not installed" if not shutil.which("bpftrace") else "not root" if os.geteuid() else \
        "the kernel has no uprobes" if not os.path.exists("/sys/bus/event_source/devices/uprobe/type") else \
        "built without usdma-perf" if not os.path.exists(program) else None
    if not lack and run(["bpftrace", "-e", "BEGIN { exit(); }"])[0]:
        lack = "BPF is not permitted on this machine"
    for script in sorted(glob.glob(os.path.join(TOP, "docs/examples/bpftrace/*.bt"))):
        name = f"{os.path.basename(script)} attached to a running program"
        if lack:
            skip(name, lack)
            continue
        for seconds in (2, 8, 32, 128):  # a busy machine takes longer to attach it
            ok, log = attach(build, script, seconds)
            if ok:
                break
        point(ok, name, log)


def build_dependencies():
    """tools/packages installs what debian/control needs, but for names that debhelper and dh-python provide."""
    with open(os.path.join(TOP, "debian/control"), encoding="utf-8") as f:
        control = re.search(r"^Build-Depends:(.*?)\n\n", f.read(), re.M | re.S)[1]
    needed = {re.match(r"[a-z0-9.+-]+", item.strip())[0] for item in control.split(",")}
    with open(os.path.join(TOP, "tools/packages"), encoding="utf-8") as f:
        sets = dict(re.findall(r'^\t\[(\w+)\]="([^"]*)"', f.read(), re.M))
    lacking = {n for n in needed - set(f"{sets['build']} {sets['package']}".split()) if not n.startswith(("debhelper-compat", "dh-sequence-"))}
    point(len(needed) > 10 and not lacking, "tools/packages build package: the build dependencies of debian/control", f"not installed: {lacking}")


def main():
    build = sys.argv[1]
    if "--trace" in sys.argv:
        live_tracing(build)
        return points.end()
    scratch = tempfile.mkdtemp(prefix="usdma-system-")
    try:
        udev_helper(os.path.join(scratch, "sys"))
        if os.path.exists(os.path.join(build, "system/70-usdma.rules")):
            rule_numbers(build)
        build_dependencies()
        if os.path.exists(os.path.join(build, "tools/usdma-sim")):
            passed_socket(build, scratch)
        else:
            skip("a passed socket", "built without tools")
        if os.path.exists(os.path.join(build, "system")):
            services(build, os.path.join(scratch))
            exposure(build, scratch)
            if os.path.exists(os.path.join(build, "tools/usdmactl/usdmactl")):
                odd_instances(build)
        tracepoints(build)
        if all(os.path.exists(os.path.join(build, "tools", t)) for t in ("usdmactl/usdmactl", "usdma-sim", "perf/usdma-perf")):
            completions(build, scratch)
        else:
            skip("completions", "built without tools")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return points.end()


sys.exit(main())
