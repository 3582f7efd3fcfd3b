# SPDX-License-Identifier: BSD-3-Clause
"""What a process uses, for tests that nothing grows: descriptors, mappings, threads."""
import os
import time


def fds_of(pid):
    """Without io_urings, which the kernel closes a moment after their process has."""
    n = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            n += os.readlink(f"/proc/{pid}/fd/{fd}") != "anon_inode:[io_uring]"
        except FileNotFoundError:
            pass  # of the listing itself
    return n


def use_of(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        mappings = sum(1 for _ in maps)
    return {"descriptors": fds_of(pid), "mappings": mappings, "threads": len(os.listdir(f"/proc/{pid}/task"))}


def grown(before, now, allowed):
    return {what: now[what] - before[what] for what in now if now[what] > before[what] + allowed.get(what, 0)}


def rounds_grow(one_round, rounds, use, allowed, warm_up=10):
    """What has grown by so many rounds, after those that warm up; what is freed a moment later is waited for."""
    for _ in range(warm_up):
        one_round()
    before = use()
    for _ in range(rounds):
        one_round()
    until = time.monotonic() + 30
    while more := grown(before, use(), allowed):
        if time.monotonic() > until:
            break
        time.sleep(0.01)  # until the condition holds
    return more
