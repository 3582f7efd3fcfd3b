#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Tests of usdmactl on fake system trees and on this machine: the content of its
output, not the layout.  ctl_test.py USDMACTL USDMA-SIM; prints TAP.
"""
import fcntl
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile

from fake_tree import BRIDGE, DSA, EDU, HISI, IOAT, NIC, Suite, ready_machine


def test_list(s):
    t = ready_machine(s)
    t.device("0000:00:05.0", EDU, None, 7, numa=1)
    t.device("0000:00:06.0", EDU, None, 8)
    t.device("0000:00:06.1", NIC, "e1000e", 8)
    status, found = s.json("list", tree=t)
    by = {d["address"]: d for d in found}
    s.check(status == 0 and sorted(by) == ["0000:00:04.0", "0000:00:05.0", "0000:00:06.0"], "list: only the supported devices", found)
    s.check(by["0000:00:04.0"]["engine"] == "edu" and by["0000:00:04.0"]["driver"] == "vfio-pci", "list: engine and driver", found)
    s.check(by["0000:00:05.0"]["driver"] is None and by["0000:00:05.0"]["numa_node"] == 1, "list: a device without a driver, and its NUMA node", found)
    s.check(by["0000:00:06.0"]["group_members"] == ["0000:00:06.0", "0000:00:06.1"]
            and by["0000:00:06.0"]["group_sharers"] == ["0000:00:06.1 (e1000e)"], "list: the group's members, and those that prevent its use", found)
    s.check(len(s.json("list", "--all", tree=t)[1]) == 4, "list --all: all devices")
    text = s.run("list", tree=t).stdout
    s.check("0000:00:04.0" in text and "group 3" in text and max(map(len, text.splitlines())) <= 80, "list: readable at 80 columns", text)
    s.check(s.json("list", tree=s.tree()) == (0, []), "list: no devices")


def test_bind_refusals(s):
    t = ready_machine(s)
    t.device("0000:00:06.0", EDU, None, 8)
    t.device("0000:00:06.1", NIC, "e1000e", 8)
    t.device("0000:00:07.0", NIC, "e1000e", 9)
    t.write("sys/bus/pci/devices/0000:00:07.0/net/eth0/mtu", "1500\n")
    t.device("0000:00:08.0", EDU, "edu_pci")
    t.device("0000:00:1e.0", BRIDGE, "pcieport", 10)
    for bdf, word, name in (("0000:00:06.0", "0000:00:06.1", "a shared group, naming the other"),
                            ("0000:00:07.0", "eth0", "a device in use, naming its interface"),
                            ("0000:00:08.0", "IOMMU", "a device without an IOMMU"),
                            ("0000:00:1e.0", "bridge", "a bridge"),
                            ("0000:00:09.0", "0000:00:09.0", "a device that does not exist"),
                            ("nonsense", "nonsense", "an invalid address")):
        done = s.run("bind", bdf, tree=t)
        s.check(done.returncode == (2 if bdf == "nonsense" else 1) and word in done.stderr, f"bind refuses {name}", done)
    s.check(s.json("bind", "0000:00:04.0", tree=t)[1]["driver"] == "vfio-pci", "bind: a bound device stays bound")
    s.check(not os.path.exists(t.path("run/usdma")), "bind: a refusal saves nothing in /run")
    t.device("0000:00:0a.0", EDU)
    done = s.run("bind", "0000:00:0a.0", tree=t)
    s.check(done.returncode == 1 and "no IOMMU group" in done.stderr and not os.listdir(t.path("run/usdma/former-driver")),
            "bind: no group with the new driver is an error, and the change is undone", done)
    u = s.tree()
    u.device("0000:00:04.0", EDU, None, 3)
    done = s.run("bind", "0000:00:04.0", tree=u)
    s.check(done.returncode == 1 and "modprobe vfio-pci" in done.stderr, "bind: the module is missing; the message says how to load it", done)


def test_bind_dry_run(s):
    t = s.tree()
    t.vfio()
    t.device("0000:00:04.0", EDU, "edu_pci", 3)
    status, output = s.json("bind", "0000:00:04.0", "--dry-run", tree=t)
    s.check(status == 0 and output["dry_run"] and output["former_driver"] == "edu_pci", "bind --dry-run: prints what it would do", output)
    with open(t.path("sys/bus/pci/devices/0000:00:04.0/driver_override"), encoding="utf-8") as f:
        untouched = f.read() == "(null)\n"
    s.check(untouched and not os.path.exists(t.path("run/usdma")), "bind --dry-run: changes nothing")


def test_ioat(s):
    t = ready_machine(s)
    t.device("0000:00:04.1", IOAT, "ioatdma", 4)
    t.device("0000:00:04.2", ("0x8086", "0x3c28", "0x088000"), None, 5)
    by = {d["address"]: d for d in s.json("list", tree=t)[1]}
    s.check(sorted(by) == ["0000:00:04.0", "0000:00:04.1"] and by["0000:00:04.1"]["engine"] == "ioat", "I/OAT: listed, an unsupported function is not", by)
    status, output, at = s.doctor(t)
    s.check(status == 0 and at["devices"]["state"] == "advice" and "ioatdma" in at["devices"]["text"] and
            "bind 0000:00:04.1" in at["devices"]["fix"] and "unbind 0000:00:04.1" in json.dumps(output),
            "I/OAT: a device at the kernel's driver: advice, with the commands that bind and return it", output)
    output = s.json("bind", "0000:00:04.1", "--dry-run", tree=t)[1]
    s.check(output["former_driver"] == "ioatdma" and output["driver"] == "vfio-pci", "I/OAT: bind names the former driver", output)
    t.device("0000:00:06.0", EDU, None, 8)
    s.check("0000:00:06.0" in s.doctor(t)[2]["devices"]["text"], "doctor: a missing driver is reported before advice")


def test_dsa(s):
    t = ready_machine(s)
    t.device("0000:6a:01.0", DSA, "idxd", 4)
    by = {d["address"]: d for d in s.json("list", tree=t)[1]}
    s.check(by["0000:6a:01.0"]["engine"] == "dsa", "DSA: listed", by)
    status, output, at = s.doctor(t)
    s.check(status == 1 and at["denylist"]["state"] == "failed" and "0000:6a:01.0" in at["denylist"]["text"] and
            "disable_denylist=1" in at["denylist"]["fix"], "DSA of Sapphire Rapids: the option that lifts VFIO's denylist", at)
    s.check(at["devices"]["state"] == "advice" and "idxd" in at["devices"]["text"] and "/dev/dsa" in json.dumps(output),
            "DSA: a device at the kernel's driver: advice", at)
    for device, driver in ((DSA, "vfio-pci"), (("0x8086", "0x11fb", "0x088000"), "idxd")):
        t = ready_machine(s)
        t.device("0000:6a:01.0", device, driver, 4)
        if driver == "vfio-pci":
            t.vfio([3, 4])
        s.check(s.doctor(t)[2]["denylist"]["state"] == "ok", f"DSA: {device[1]} at {driver} is not denied")
    t.write("sys/module/vfio_pci/parameters/disable_denylist", "Y\n")
    t.device("0000:6a:02.0", DSA, "idxd", 5)
    s.check(s.doctor(t)[2]["denylist"]["state"] == "ok", "DSA: the option lifts the denylist")


def test_hisi(s):
    t = ready_machine(s)
    t.device("0000:7b:00.0", HISI, "hisi_dma", 4)
    by = {d["address"]: d for d in s.json("list", tree=t)[1]}
    s.check(by["0000:7b:00.0"]["engine"] == "hisi", "HiSilicon: listed", by)
    status, output, at = s.doctor(t)
    s.check(status == 0 and at["devices"]["state"] == "advice" and "hisi_dma" in at["devices"]["text"] and
            "bind 0000:7b:00.0" in at["devices"]["fix"] and "unbind 0000:7b:00.0" in json.dumps(output),
            "HiSilicon: a device at the kernel's driver: advice, with the commands that bind and return it", output)


def test_unbind_in_use(s):
    t = ready_machine(s)
    os.makedirs(t.path("proc/4711/fd"))
    t.write("proc/4711/comm", "trainer\n")
    os.symlink(t.path("dev/vfio/3"), t.path("proc/4711/fd/5"))
    done = s.run("unbind", "0000:00:04.0", tree=t)
    s.check(done.returncode == 1 and "4711" in done.stderr and "trainer" in done.stderr, "unbind: refused while a process has the group open", done)


def test_info_and_reset(s):
    status, output = s.json("info", "sim:mem=64M:channels=8")
    s.check(status == 0 and output["engine"]["driver"] == "sdma" and output["engine"]["memory_size"] == 64 << 20
            and output["engine"]["channels"] == 8, "info: the engine's limits", output)
    for device, env, variant in (("sim", {}, "cpu"), ("sim:faults=", {}, "staging"), ("sim:latency=1", {}, "staging"),
                                 ("sim", {"USDMA_TEST_PAGEABLE": "staging"}, "staging"), ("sim:timing=late", {}, "staging")):
        done = s.run("--json", "info", device, env=env)
        s.check(json.loads(done.stdout)["engine"]["pageable"] == variant, f"info: how pageable memory is copied, {device} {env}", done)
    done = s.run("info", "sim:mem=64M", env={"USDMA_SIM_CPUS": "0", "USDMA_HUGE_PAGES": "off"})
    s.check("opened as sim:mem=64M:cpus=0:huge=off by the settings in force" in done.stdout, "info: the settings in force for a device", done)
    s.check(any(r["name"] == "BAR2" and r["size"] == 64 << 20 for r in output["regions"]) and output["interrupts"]["MSI-X"] > 0
            and any(c["name"] == "MSI-X" for c in output["capabilities"]), "info: regions, interrupts, capabilities", output)
    t = ready_machine(s)
    t.device("0000:00:05.0", EDU, "edu_pci", 7)
    status, output = s.json("info", "0000:00:05.0", tree=t)
    s.check(status == 0 and output["pci"]["driver"] == "edu_pci" and output["regions"][0]["size"] == 1 << 20
            and "bind" in output["note"], "info: of a device that is not bound", output)
    status, output = s.json("info")
    s.check(status == 0 and output["devices"] == ["sim"] and output["settings"]["devices"]["source"] == "environment",
            "info: the settings in force", output)
    s.check(s.json("reset", "sim") == (0, {"device": "sim", "reset": True}), "reset: done")
    done = s.run("info", "vfio-user:/nonexistent/socket")
    s.check(done.returncode == 1 and "/nonexistent/socket" in done.stderr, "info: no server at the socket", done)


def test_settings(s):
    conf = os.path.join(s.scratch, "a.conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("# mine\nspin_us = 33\npool_size = 128K\n")
    done = s.run("--json", "info", env={"USDMA_CONFIG": conf, "USDMA_POOL_SIZE": "1M"})
    got = json.loads(done.stdout)["settings"]
    s.check(got["spin_us"]["value"] == 33 and got["spin_us"]["where"] == conf + ":2" and got["spin_us"]["default"] == 50,
            "settings: a value of the file, with its line", got)
    s.check(got["pool_size"]["value"] == 1 << 20 and got["pool_size"]["where"] == "USDMA_POOL_SIZE"
            and got["wait"]["source"] == "default", "settings: the environment overrides the file, and the file the default", got)
    home = os.path.join(s.scratch, "home")
    os.makedirs(os.path.join(home, ".config/usdma"))
    with open(os.path.join(home, ".config/usdma/usdma.conf"), "w", encoding="utf-8") as f:
        f.write("wait = poll\n")
    done = s.run("--json", "info", env={"HOME": home, "XDG_CONFIG_HOME": "", "USDMA_CONFIG": ""})
    got = json.loads(done.stdout)["settings"]
    s.check(got["wait"]["value"] == "poll" and "home/.config" in got["wait"]["where"], "settings: the user's own file", got)
    with open(conf, "w", encoding="utf-8") as f:
        f.write("spin_us = 33\n\nspinn_us = 3\n")
    done = s.run("info", env={"USDMA_CONFIG": conf})
    s.check(done.returncode == 1 and conf + ":3" in done.stderr and "mean spin_us" in done.stderr,
            "settings: a misspelt name is reported with its line and the nearest name", done)
    done = s.run("info", env={"USDMA_SPIN_US": "many"})
    s.check(done.returncode == 1 and "USDMA_SPIN_US=many" in done.stderr and "1000000" in done.stderr,
            "settings: an invalid variable is reported with the valid range", done)
    done = s.run("--json", "doctor", env={"USDMA_CONFIG": conf})
    point = [c for c in json.loads(done.stdout)["checks"] if c["id"] == "settings"][0]
    s.check(point["state"] == "failed" and "+3 " + conf in point["fix"], "settings: doctor reports an invalid file", point)
    done = s.run("--json", "doctor", env={"USDMA_CONFIG": "/dev/null", "USDMA_SPINUS": "1"})
    point = [c for c in json.loads(done.stdout)["checks"] if c["id"] == "settings"][0]
    s.check(point["state"] == "advice" and "USDMA_SPIN_US" in point["text"], "settings: doctor reports an unknown variable", point)
    t = ready_machine(s)
    t.write("etc/usdma/usdma.conf", "wait = never\n")
    _, output = s.json("doctor", tree=t)
    point = [c for c in output["checks"] if c["id"] == "settings"][0]
    s.check(point["state"] == "failed" and "usdma.conf:1" in point["text"], "settings: doctor reads the tree's file", point)


def test_tune(s):
    def setting(name, now, proposed):
        return {"name": name, "now": now, "proposed": proposed, "what": "64 B", "unit": "us", "before": 2.5, "after": 1.25}
    result, conf = os.path.join(s.scratch, "result.json"), os.path.join(s.scratch, "new/dir/usdma.conf")
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [setting("spin_us", "50", "20"), setting("pool_size", "512K", "64K"),
                                setting("hang_ms", "4", "4"), setting("direct_store", "4K", "1M")]}, f)
    done = s.run("tune", "--from", result)
    s.check(done.returncode == 0 and "2.50 -> 1.25 us" in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
            and not os.path.exists(conf), "tune: prints the gain, writes nothing", done)
    s.check(s.run("tune", "--from", result, "--write", conf).returncode == 0 and os.path.exists(conf), "tune: creates a new file")
    done = s.run("--json", "info", env={"USDMA_CONFIG": conf})
    got = json.loads(done.stdout)["settings"]
    s.check(got["spin_us"]["value"] == 20 and got["direct_store"]["value"] == 1 << 20 and got["hang_ms"]["source"] == "default",
            "tune: the library reads the written file", got)
    with open(conf, "w", encoding="utf-8") as f:
        f.write("# my own\nSPIN_US = 7 # old\n\nwait = poll\n")
    os.chmod(conf, 0o640)
    s.run("tune", "--from", result, "--write", conf)
    with open(conf, encoding="utf-8") as f:
        lines = f.read().splitlines()
    s.check([line.split("#")[0].strip() for line in lines] == ["", "spin_us = 20", "", "wait = poll", "pool_size = 64K", "direct_store = 1M"]
            and lines[0] == "# my own" and os.stat(conf).st_mode & 0o777 == 0o640 and len(os.listdir(os.path.dirname(conf))) == 1,
            "tune: other lines, the order and the mode of the file do not change", lines)
    with open(conf, "w", encoding="utf-8") as f:
        f.write("wait = never\n")
    done = s.run("tune", "--from", result, "--write", conf)
    with open(conf, encoding="utf-8") as f:
        s.check(done.returncode == 1 and conf + ":1" in done.stderr and f.read() == "wait = never\n",
                "tune: an invalid file is not changed", done)
    for text in ("", "{}", '{"settings": [{"name": 5}]}', json.dumps({"settings": [setting("spin_us", "50", "x\nwait = poll")]})):
        with open(result, "w", encoding="utf-8") as f:
            f.write(text)
        done = s.run("tune", "--from", result, "--write", conf)
        s.check(done.returncode == 1 and result in done.stderr, "tune: an invalid result", done)
    done = s.run("tune", "--device", "vfio-user:/nonexistent/socket")
    s.check(done.returncode == 1 and "calibration failed" in done.stderr, "tune: a calibration that fails is an error", done)


def test_thresholds(s):
    """tune: the lengths at which the library changes the copy routine, measured or set."""
    result = os.path.join(s.scratch, "skipped.json")
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"settings": [], "skipped": [{"name": "sim_cpus", "why": "two engines and the program need three CPUs, here are 2 of them"}]}, f)

    def thresholds(**env):
        done = s.run("--json", "tune", "--from", result, env=dict(env, USDMA_CONFIG="/dev/null"))
        return json.loads(done.stdout)["thresholds"]
    base = thresholds()
    lengths = [n for n in (base["memmove_max"], base["probe_from"], base["stream_from"]) if n is not None]
    s.check(lengths == sorted(lengths) and base["cached"] and base["uncached"] and (base["probe_from"] is None or base["cached_below_ticks"] > 0),
            "tune: the copy routines and their thresholds", base)
    s.check(base["direct_store_max"] == 4096, "tune: thresholds by default", base)
    s.check(thresholds(USDMA_DIRECT_STORE="32K")["direct_store_max"] == 32768, "tune: thresholds that are set")
    stream = base["uncached"]
    for env, words in (({}, ("4 KiB", "own stores")), ({"USDMA_DIRECT_STORE": "0", "USDMA_TEST_PAGEABLE": "staging"}, ("any length", "staging buffers"))):
        done = s.run("tune", "--from", result, env=dict(env, USDMA_CONFIG="/dev/null"))
        s.check(all(w in done.stdout for w in ("memmove", stream, "three CPUs", *words))
                and max(map(len, done.stdout.splitlines())) <= 80, f"tune: the thresholds as text {env}", done)
    with open(result, "w", encoding="utf-8") as f:
        f.write('{"settings": [], "skipped": [1]}')
    done = s.run("tune", "--from", result)
    s.check(done.returncode == 1 and result in done.stderr, "tune: an invalid list of skipped settings", done)


def test_selftest(s):
    source, back = os.path.join(s.scratch, "in"), os.path.join(s.scratch, "out")
    with open(source, "wb") as f:
        f.write(os.urandom(3 * 1048576 + 17))
    status, output = s.json("selftest", "sim:mem=64M", "--size", "1M", "--file", source, "--out", back)
    s.check(status == 0 and output["ok"] and all(x["ok"] for x in output["steps"]) and len(output["steps"]) == 5, "selftest: all steps", output)
    with open(source, "rb") as a, open(back, "rb") as b:
        s.check(a.read() == b.read(), "selftest: the file was read back unchanged")
    done = s.run("selftest", "sim:mem=64M", "--size", "1G")
    s.check(done.returncode == 1 and "--size" in done.stderr, "selftest: too large for the device", done)
    done = s.run("selftest", "sim:mem=64M", "--file", "/nonexistent", "--out", back)
    s.check(done.returncode == 1 and "/nonexistent" in done.stdout, "selftest: a file that does not exist fails", done)


def test_stat(s):
    """A process that has copied and now waits: stat reads its totals."""
    fifo = os.path.join(s.scratch, "fifo")
    os.mkfifo(fifo)
    user = subprocess.Popen([s.program, "selftest", "sim:mem=64M", "--size", "100K", "--file", fifo, "--out", "/dev/null"],
                            stdout=subprocess.DEVNULL)
    with open(fifo, "wb") as f:  # opened when the process has done its other steps
        status, output = s.json("stat", "--pid", str(user.pid), "--count", "1", "--interval", "0.05")
        mine = output["processes"]
        npu = json.loads(s.run("--json", "npu-smi", env={"USDMA_DEVICES": "sim:mem=64M"}).stdout)[0]
        users = [u for u in npu["processes"] if u["pid"] == user.pid]
        s.check(len(users) == 1 and npu["memory_size"] == 64 << 20 and 0 < users[0]["memory_used"] <= 64 << 20,
                "npu-smi: the device's memory that the process uses", npu)
        s.check(status == 0 and len(mine) == 1 and mine[0]["pid"] == user.pid and mine[0]["device"] == "sim:mem=64M"
                and mine[0]["driver"] == "sdma", "stat: the process and its device", output)
        # two copies of the pinned step, three within the device, six in odd pieces; pageable copies are counted in addition
        s.check(mine and mine[0]["copies"] >= 11 and mine[0]["bytes"] >= 7 * 102400 and mine[0]["faults"] == 0,
                "stat: what it has copied", output)
        before = mine[0]["bytes"] if mine else 0
        f.write(b"x" * 102400)
        f.flush()
        for _ in range(200):
            after = s.json("stat", "--pid", str(user.pid), "--count", "1", "--interval", "0.05")[1]["processes"][0]["bytes"]
            if after >= before + 2 * 102400:
                break
        s.check(after == before + 2 * 102400, "stat: the counters are updated", (before, after))
        text = s.run("stat", "--count", "1", "--interval", "0.05").stdout
        s.check(str(user.pid) in text and "sim:mem=64M" in text and max(map(len, text.splitlines())) <= 80, "stat: readable", text)
    s.check(user.wait(60) == 0, "stat: the observed process succeeds")
    done = s.run("stat", "--pid", str(os.getpid()), "--count", "1")
    s.check(done.returncode == 1 and str(os.getpid()) in done.stderr, "stat: a process that does not use usdma", done)


def test_stat_retained(s):
    """stat reports memory that a process retains for devices that it lost and closed, also if it has no open device."""
    fd = os.memfd_create("usdma-stats", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096 + 16 * 1024 * 64)
    os.pwrite(fd, struct.pack("=8sIIIIQQ", b"usdmast1", 1, os.getpid(), 16, 1024, 2, 5 << 20), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    try:
        args = ("stat", "--pid", str(os.getpid()), "--count", "1", "--interval", "0.05")
        status, output = s.json(*args)
        s.check(status == 0 and not output["processes"] and [(k["pid"], k["devices"], k["bytes"]) for k in output["kept"]] == [(os.getpid(), 2, 5 << 20)],
                "stat: lost devices that may still write", output)
        text = s.run(*args).stdout
        s.check("2 lost devices may still write: 5120 KiB out of use" in text and max(map(len, text.splitlines())) <= 80,
                "stat: lost devices, readable", text)
    finally:
        os.close(fd)


def test_sim(s, program):
    control = os.path.join(s.scratch, "control")
    ready, ready_writer = os.pipe()
    sim = subprocess.Popen([program, "--socket", os.path.join(s.scratch, "dev"), "--control", control, "--mem", "16M",
                            "--ready-fd", str(ready_writer)], pass_fds=[ready_writer], stdout=sys.stderr)
    os.close(ready_writer)
    try:
        s.check(select.select([ready], [], [], 20)[0] and os.read(ready, 1), "sim: usdma-sim serves")
        done = s.run("sim", control, "faults", "fail@7")
        s.check(done.returncode == 0 and "fail@7" in done.stdout, "sim: rules", done.stdout + done.stderr)
        status, state = s.json("sim", control, "state")
        s.check(status == 0 and "fail@7" in [r.get("rule") for r in state["faults"]], "sim: state", state)
        done = s.run("sim", control, "faults", "fail@")
        s.check(done.returncode == 1 and "ACTION@N" in done.stderr, "sim: an invalid rule", done.stderr)
        done = s.run("sim", control, "clear")
        s.check(done.returncode == 0 and "faults: none" in done.stdout, "sim: clear", done.stdout + done.stderr)
    finally:
        os.close(ready)
        sim.terminate()
        s.check(sim.wait(60) == 0, "sim: usdma-sim exits on SIGTERM")
    done = s.run("sim", control, "state")
    s.check(done.returncode == 1 and "is usdma-sim running" in done.stderr, "sim: no server at the socket", done.stderr)
    s.check(s.run("sim").returncode == 2, "sim: the socket is a required argument")


def test_share(s, program):
    """Clients of a device that usdma-sim shares; their work is in test fault-share."""
    control, path = (os.path.join(s.scratch, name) for name in ("share-control", "share-dev"))
    ready, ready_writer = os.pipe()
    sim = subprocess.Popen([program, "--backend", "sim:mem=1M", "--socket", path, "--control", control, "--weight", "7:3",
                            "--ready-fd", str(ready_writer)], pass_fds=[ready_writer], stdout=sys.stderr)
    os.close(ready_writer)
    try:
        s.check(select.select([ready], [], [], 20)[0] and os.read(ready, 1), "share: usdma-sim serves")
        done = s.run("share", control)
        s.check(done.returncode == 0 and "driver sdma: 0 clients" in done.stdout, "share: no clients", done.stdout + done.stderr)
        status, state = s.json("share", control, "drain")
        s.check(status == 0 and state["draining"] and state["shared"] == [], "share: draining", state)
        s.check(s.run("selftest", "vfio-user:" + path).returncode != 0, "share: no client is served")
        s.check(s.run("share", control, "return").returncode == 0, "share: clients may come again")
        done = s.run("selftest", "vfio-user:" + path)
        s.check(done.returncode == 0, "share: a client works", done.stdout + done.stderr)
        status, state = s.json("share", control)
        s.check(status == 0 and state["clients"] == 1, "share: a client is counted", state)
        for words in (["weight", "7", "0"], ["weight", "7"], ["client", "99", "2"], ["vanish"]):
            done = s.run("share", control, *words)
            s.check(done.returncode == 1 and done.stderr, f"share: {' '.join(words)} is refused", done.stdout)
        s.check(s.run("share", control, "weight", "7", "2").returncode == 0, "share: a weight")
        s.check(state["all_copies"] > 0 and state["all_mapped"] == 0 and state["users"] == [], "share: sums of clients that have left", state)
        options = os.path.join(s.scratch, "share.conf")

        def reload(text):
            with open(options, "w", encoding="ascii") as f:
                f.write(f'# a comment\nOPTIONS="{text}"\n')
            return s.json("share", control, "reload", options)

        status, state = reload("--share 64K --user-clients=1 --hang-ms 4000 --nomem --mem 1G -v")
        s.check(status == 0 and state["most_mapped"] == 65536 and state["most_clients_of_user"] == 1 and state["hang_ms"] == 4000
                and state["need_restart"] == "--nomem --mem -v", "share: reloaded, and what needs a restart", state)
        s.check(s.run("selftest", "vfio-user:" + path).returncode != 0, "share: a client exceeds the new limit")
        for text in ("--share x", "--share", "weight 3", "--weight 7:0"):
            s.check(reload(text)[0] == 1, f"share: '{text}' is refused")
        s.check(s.run("share", control, "reload", "/nonexistent").returncode == 1, "share: no file of options")
        status, state = reload("--user-share=1G")
        s.check(status == 0 and state["most_mapped"] > 65536 and state["most_mapped_by_user"] == 1 << 30, "share: defaults again", state)
    finally:
        os.close(ready)
        sim.terminate()
        s.check(sim.wait(60) == 0, "share: usdma-sim exits on SIGTERM")
    done = s.run("share", control)
    s.check(done.returncode == 1 and "is usdma-sim running" in done.stderr, "share: no server at the socket", done.stderr)


NPU_COLUMNS = [0, 28, 44, 97]


def cells(line):
    """The text between the bars; None: the bars are not at the columns of npu-smi."""
    bars = [i for i, c in enumerate(line) if c == "|"]
    return [line[a + 1:b].split() for a, b in zip(bars, bars[1:])] if bars == NPU_COLUMNS else None


def test_npu_smi(s):
    done = s.run("npu-smi", env={"USDMA_DEVICES": "sim:mem=61M,vfio-user:/nonexistent"})
    lines = done.stdout.splitlines()
    s.check(done.returncode == 0 and {len(line) for line in lines} == {98}, "npu-smi: a table of 98 columns", done.stdout)
    s.check(lines[1].split()[1:3] == ["npu-smi", "25.2.0"] and lines[3].split("|")[1].split() == ["NPU", "Name"], "npu-smi: heading", done.stdout)
    rows = [cells(line) for line in lines if cells(line) and cells(line)[0][0].isdigit()]
    s.check(rows == [[["0", "Ascend910"], ["OK"], ["NA", "NA", "0", "/", "0"]],
                     [["0", "0"], ["NA"], ["0", "0", "/", "0", "0", "/", "61"]],
                     [["1", "Ascend910"], ["UNKNOWN"], ["NA", "NA", "0", "/", "0"]],
                     [["0", "1"], ["NA"], ["0", "0", "/", "0", "0", "/", "NA"]]], "npu-smi: a working device and an unavailable one", rows)
    s.check("No running processes found in NPU 1 " in done.stdout, "npu-smi: no process", done.stdout)
    output = json.loads(s.run("--json", "npu-smi", env={"USDMA_DEVICES": "sim:mem=61M"}).stdout)
    s.check([(n["npu"], n["healthy"], n["memory_size"], n["processes"]) for n in output] == [(0, True, 61 << 20, [])], "npu-smi: JSON", output)
    s.check(s.run("npu-smi", env={"USDMA_DEVICES": "nonsense"}).returncode == 1, "npu-smi: invalid settings")


def test_npu_smi_users(s):
    """A process that has a device open, by its page of counters."""
    fd = os.memfd_create("usdma-stats", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096 + 16 * 1024 * 64)
    os.pwrite(fd, struct.pack("=8sIIII", b"usdmast1", 1, os.getpid(), 16, 1024), 0)
    os.pwrite(fd, struct.pack("=96s16sIIQ", b"sim:mem=61M", b"sdma", 1, 0, 1), 64 + 128)
    os.pwrite(fd, struct.pack("=QQ", 5 << 20, 61 << 20), 64 + 16 * 128 + 16)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    devices = {"USDMA_DEVICES": "sim:mem=31M,sim:mem=61M"}
    try:
        with open("/proc/self/comm", encoding="ascii") as f:
            command = f.read().strip()
        text = s.run("npu-smi", env=devices).stdout
        s.check("| 0     1                   | NA            | 0           0    / 0          5    / 61            |" in text,
                "npu-smi: memory in use", text)
        output = json.loads(s.run("--json", "npu-smi", env=devices).stdout)
        s.check(output[1]["memory_used"] == 5 << 20 and not output[0]["processes"] and
                [(u["pid"], u["command"], u["memory_used"]) for u in output[1]["processes"]] == [(os.getpid(), command, 5 << 20)],
                "npu-smi: a process", output)
        s.check("No running processes found in NPU 0 " in text and "in NPU 1 " not in text, "npu-smi: processes", text)
        s.check(f"| 1       0                 | {os.getpid():<13} | {command:<24.24} | 5                       |" in text,
                "npu-smi: a process, readable", text)
    finally:
        os.close(fd)


def fake_installation(s):
    """A copy of the program as installed; creates each file that it reports as missing."""
    top = tempfile.mkdtemp(dir=s.scratch)
    program = os.path.join(top, "bin/usdmactl")
    os.makedirs(os.path.dirname(program))
    shutil.copy(s.program, program)
    for _ in range(2):
        missing = subprocess.run([program, "ascend-home", top + "/a"], capture_output=True, text=True, check=False).stderr.split(" ")[1]
        s.check(missing.startswith(top), "ascend-home: a file that is not installed is named", missing)
        os.makedirs(os.path.dirname(missing), exist_ok=True)
        with open(missing, "w", encoding="ascii"):
            pass
    os.makedirs(os.path.join(top, "include/usdma/runtime"))
    return program, top + "/a"


def test_ascend_home(s):
    program, top = fake_installation(s)
    for words in (), ("--json",):
        done = subprocess.run([program, *words, "ascend-home", top + "/"], capture_output=True, text=True, check=False)
        s.check(done.returncode == 0 and top in done.stdout, f"ascend-home: creates a folder {words}", done.stdout + done.stderr)
    arch = os.uname().machine + "-linux"
    for path in ("include/acl/acl.h", "lib64/libascendcl.so", arch + "/include/acl/acl.h", arch + "/lib64/libascendcl.so", "bin/setenv.bash",
                 "lib64/libacl_tdt_queue.so", "share/info/hccl/version.info", "tools/tikcpp/ascendc_kernel_cmake/ascendc.cmake"):
        s.check(os.path.exists(os.path.join(top, path)), f"ascend-home: {path}", path)
    shown = subprocess.run(["sh", "-c", '. "$0"/set_env.sh && echo $ASCEND_HOME_PATH:$ASCEND_TOOLKIT_HOME:$LD_LIBRARY_PATH:$PATH', top],
                          capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}).stdout.strip()
    s.check(shown == f"{top}:{top}:{top}/lib64:{top}/bin:/usr/bin:/bin", "ascend-home: set_env.sh", shown)
    with open(top + "/version.cfg", encoding="ascii") as f:
        s.check("runtime_running_version=[9.1.0:9.1.0]" in f.read(), "ascend-home: version.cfg")
    smi = subprocess.run([top + "/bin/npu-smi", "info"], capture_output=True, text=True, check=False, env=dict(os.environ, USDMA_DEVICES="sim"))
    s.check("NPU   Name" in smi.stdout, "ascend-home: npu-smi info", smi.stdout + smi.stderr)
    other = tempfile.mkdtemp(dir=s.scratch)
    with open(other + "/mine", "w", encoding="ascii"):
        pass
    done = subprocess.run([program, "ascend-home", other], capture_output=True, text=True, check=False)
    s.check(done.returncode == 1 and os.listdir(other) == ["mine"], "ascend-home: a folder with other files is refused", done.stderr)
    s.check(s.run("ascend-home").returncode == 2, "ascend-home: the folder is a required argument")


def test_help(s):
    for command in ("list", "bind", "unbind", "info", "doctor", "reset", "selftest", "share", "sim", "stat", "tune", "npu-smi", "ascend-home", None):
        done = s.run(*filter(None, (command, "--help")))
        lines = done.stdout.splitlines()
        s.check(done.returncode == 0 and max(map(len, lines)) <= 80 and (not command or "Examples:" in done.stdout),
                f"help: {command or 'overview'} fits and has examples", done.stdout)
    s.check(s.run("frobnicate").returncode == 2 and s.run().returncode == 2, "usage errors: exit status 2")


TESTS = [test_list, test_bind_refusals, test_bind_dry_run, test_ioat, test_dsa, test_hisi, test_unbind_in_use, test_info_and_reset,
         test_settings, test_tune, test_thresholds, test_selftest, test_stat, test_stat_retained, test_npu_smi, test_npu_smi_users,
         test_ascend_home, test_help]


def main():
    suite = Suite(sys.argv[1])
    return suite.run_all(TESTS + [lambda suite: test_sim(suite, sys.argv[2]), lambda suite: test_share(suite, sys.argv[2])])


if __name__ == "__main__":
    sys.exit(main())
