#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A descriptor that is opened in driver/ or lib/ goes through fd_above_stdio (driver/base/fd.h), or is closed by the function that opened it.

descriptors.py TREE: prints each line that does neither, and fails."""
import pathlib
import re
import sys

OPENS = re.compile(r"(?<![\w.>:])(?:open(?:at)?\(.*\bO_|(?:socket|accept4|eventfd|memfd_create|epoll_create1?|timerfd_create|signalfd|pidfd_open|dup)\()"
                   r"|F_DUPFD_CLOEXEC, 0\)|GET_DEVICE_FD,")
# Descriptors that the same function closes again.
TEMPORARY = {
    "lib/share/peer_file.cpp": ["usdma-probe", "O_PATH", "O_RDONLY | O_CLOEXEC | O_NONBLOCK"],
    "driver/pci/bind.cpp": ["O_WRONLY"],
    "driver/pci/sysfs.cpp": ["O_RDONLY"],
    "driver/sim/server_commands.cpp": ["sample(eventfd"],
    "lib/core/config/config_file.cpp": ["O_RDONLY"],
}


def main():
    top = pathlib.Path(sys.argv[1])
    bad = 0
    for path in sorted([*top.glob("driver/**/*.cpp"), *top.glob("driver/**/*.h"), *top.glob("lib/**/*.cpp"), *top.glob("lib/**/*.h")]):
        name = str(path.relative_to(top))
        if name == "driver/base/fd.h":
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if not OPENS.search(line) or "fd_above_stdio(" in line or line.lstrip().startswith(("*", "/*")):
                continue
            if any(word in line for word in TEMPORARY.get(name, [])):
                continue
            print(f"{name}:{number}: a descriptor without fd_above_stdio: {line.strip()}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
