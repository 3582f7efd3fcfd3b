#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The random collective operations of tests/integration/hccl/collectives_test.cpp, with the ranks on two machines.

collectives_test.py PROGRAM RANKS [OPERATIONS]: as many ranks on each.
"""
import os
import secrets
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from hosts import Hosts, Lacks  # noqa: E402


def main():
    program, ranks = sys.argv[1], int(sys.argv[2])
    try:
        hosts = Hosts(2)
    except Lacks as e:
        print(f"1..0 # SKIP {e}")
        return 0
    with hosts as both, tempfile.TemporaryDirectory(prefix="usdma-collectives-") as scratch:
        key = os.path.join(scratch, "key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(secrets.token_bytes(32))
        env = both[0].env(USDMA_NET="eth0", USDMA_NET_KEY_FILE=key, USDMA_TEST_HOSTS=",".join(f"{h.holder.pid}:{h.id}" for h in both),
                          USDMA_DEVICES=",".join(["sim:mem=64M:engines=1:channels=4"] * (2 * ranks)), HCCL_EXEC_TIMEOUT="120")
        if len(sys.argv) > 3:
            env["USDMA_TEST_OPERATIONS"] = sys.argv[3]
        for name in ("USDMA_TEST_SEED", "USDMA_TEST_SCALE", "USDMA_LOG"):
            if name in os.environ:
                env[name] = os.environ[name]
        return subprocess.run([program], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
