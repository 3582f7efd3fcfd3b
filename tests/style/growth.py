# SPDX-License-Identifier: BSD-3-Clause
"""
Lack of memory (driver/base/grow.h): in driver/ and lib/ nothing grows a container, makes a string or calls a `new` that
throws, but within fits() and within_memory(), by a try_ function, or where it is allowed below.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Files whose functions make strings and lists; all run under a within_memory of their callers.
WITHIN = {
    "driver/base/printable.cpp": "texts: for the settings (as config_file.cpp) and for tools, which catch",
    "driver/dma/open.cpp": "open_by_scheme: under open_device",
    "driver/dma/parse.cpp": "device strings: under open_device, device_add and the settings",
    "driver/sim/client.cpp": "as open_by_scheme",
    "driver/pci/": "reading sysfs: under vfio::kernel_open; the tools catch for themselves",
    "driver/sim/config.cpp": "a device string's settings: under open_device",
    "driver/sim/console.cpp": "commands and answers: under console::read_some, for each line",
    "driver/sim/fault_plan.cpp": "fault rules: under fault_plan::set, the console's and the embedded device's report",
    "driver/sim/recording.cpp": "a report: under set_replay",
    "driver/sim/replay.cpp": "under replay_model's start, region_read and region_write",
    "driver/vfio/group.cpp": "opening: under vfio::kernel_open",
    "driver/vfio/iommufd.cpp": "opening: under vfio::kernel_open",
    "driver/vfio/kernel_check.cpp": "opening: under vfio::kernel_open",
    "driver/vfio/kernel_open.cpp": "opening: under vfio::kernel_open",
    "lib/core/check/entry.cpp": "under on_access's fits",
    "lib/core/check/frames.cpp": "as race_state.cpp",
    "lib/core/check/race_state.cpp": "under within_race, which counts the lack",
    "lib/core/check/race_order.cpp": "as race_state.cpp",
    "lib/core/check/race_report.cpp": "as race_state.cpp; the summary under race_end's fits",
    "lib/core/check/guarded_pages.cpp": "race_guards: as race_state.cpp",
    "lib/core/check/race_sources.cpp": "as race_state.cpp",
    "lib/core/check/race_words.cpp": "as race_state.cpp",
    "lib/core/check/race_requests.cpp": "under check_request's fits",
    "lib/core/config/check_words.cpp": "settings: as config.cpp; device strings: under device_add",
    "lib/core/config/config_load.cpp": "settings: under take_into_use, setting_set and setting_save_log",
    "lib/core/config/config_file.cpp": "settings: as config.cpp",
    "lib/core/config/default_devices.cpp": "settings: as config.cpp",
    "lib/core/config/setting.cpp": "settings: as config.cpp",
    "lib/core/config/setting_value.cpp": "settings: as config.cpp",
    "lib/hccl_comm/rank_table.cpp": "rank tables: under init's fits",
    "lib/hcomm/channel.cpp": "names and messages: under the fits of create_one and connect_step",
    "lib/hcomm/link.cpp": "messages: as channel.cpp and one_sided.cpp",
    "lib/hcomm/one_sided.cpp": "messages: under the fits of prepare and exchange_desc",
    "lib/hcomm/thread.cpp": "a batch's name: under begin_batch's fits",
}
# Single statements: the file, a part of the line, and why it needs no memory or which function catches it.
ALLOWED = [
    ("driver/sim/server.cpp", "body.append(", "a message's body reports lack of memory by truncated()"),
    ("driver/sim/send_queue.cpp", "bytes_.append(", "a message's body reports lack of memory by truncated()"),
    ("driver/sim/server_commands.cpp", "body->append(", "a message's body reports lack of memory by truncated()"),
    ("driver/sim/server_commands.cpp", "body.append(", "a message's body reports lack of memory by truncated()"),
    ("driver/sim/dma_space.cpp", "err = map_.insert(", "range_map gives -ENOMEM"),
    ("driver/sim/bus_error.cpp", "err = mappings->insert(", "range_map gives -ENOMEM"),
    ("lib/core/memory/region.cpp", "err = region_map->insert(", "range_map gives -ENOMEM"),
    ("lib/core/memory/heap.cpp", "insert(std::move(node))", "a map's node: its memory comes along"),
    ("driver/dma/host_memory.h", "insert(std::move(n))", "a map's node: its memory comes along"),
    ("lib/acl/pool.cpp", "insert(std::move(node))", "a map's node: its memory comes along"),
    ("lib/core/memory/dma_range.cpp", "both.push_back(", "under usable_of and iovas_make"),
    ("lib/acl/init.cpp", "text->append(", "configure: under start"),
    ("lib/acl/init.cpp", "std::string text;", "configure: under start"),
    ("lib/native/setting.cpp", "std::string text = ", "get: under usdma_setting_get"),
]

CATCHES = re.compile(r"\b(fits|within_memory)\s*\(")
RAW = re.compile(r"""
      (?:\.|->)(?:push_back|emplace_back|push_front|emplace_front|emplace|insert|insert_or_assign|try_emplace|append|assign)\s*\(
    | (?:^|[;{}])\s*(?!\(void\))[\w.>\[\]()*-]*(?:\.|->)(?:resize|reserve)\s*\(
    | \bmake_(?:unique|shared)\b
    | \bnew\b(?!\s*\()
    | \bto_string\s*\(
    | \bstd::string\b(?!\s*[&*>),])
    """, re.X | re.M)


def blank(m):
    return re.sub(r"[^\n]", " ", m.group())


def code_of(text):
    """The text with comments and literals replaced by spaces."""
    text = re.sub(r"^\s*#\s*include[^\n]*", blank, text, flags=re.M)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def end_of(code, at):
    """The offset behind the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if not depth:
            return i + 1
    return len(code)


def caught(code):
    return [(m.start(), end_of(code, m.end() - 1)) for m in CATCHES.finditer(code)]


def findings(path, text):
    """The number and the text of each line that may throw."""
    code = code_of(text)
    inside = caught(code)
    lines = text.split("\n")
    for m in RAW.finditer(code):
        at = m.end() - 1
        if path.endswith(".h") and m.group().startswith("std::string"):
            continue  # a member or a result: not made here
        if not any(a <= at < b for a, b in inside):
            number = code.count("\n", 0, at) + 1
            yield number, lines[number - 1].strip()


def sources():
    for top in ("driver", "lib"):
        for at, _, names in os.walk(os.path.join(TOP, top)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(at, name), TOP)
                if name.endswith((".cpp", ".h")) and not path.startswith("lib/python/") and path != "driver/base/grow.h":
                    yield path


def main():
    wrong, used = [], set()
    for path in sources():
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            found = list(findings(path, f.read()))
        for number, line in found:
            by = [p for p in WITHIN if path.startswith(p)] or [a for a in ALLOWED if a[0] == path and a[1] in line]
            used.update(by)
            if not by:
                wrong.append(f"{path}:{number}: {line}")
    wrong += [f"{__file__}: this exception is unused: {a}" for a in [*WITHIN, *ALLOWED] if a not in used]
    print("\n".join(wrong or ["lack of memory is handled wherever memory grows"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
