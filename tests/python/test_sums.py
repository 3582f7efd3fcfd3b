# SPDX-License-Identifier: BSD-3-Clause
"""Package usdma: sha256sum(1) of a file equals the digest of the data that was read from it or written to it.

USDMA_TEST_LARGEST: bytes of the largest file. A child process mounts the file systems in its own namespace.
"""
import hashlib
import os
import random
import re
import shutil
import subprocess

import numpy
import pytest
import usdma

LARGEST = int(os.environ.get("USDMA_TEST_LARGEST", 8 << 20))
SIZES = (0, 1, 4095, 4097, (1 << 20) - 1, (3 << 20) + 513, (LARGEST >> 6) + 1, LARGEST)
BUFFER = LARGEST >> 4
KINDS = ("disk", "tmpfs", "overlay", "ext4")

MOUNTS = r"""
cd "$1" && mkdir tmpfs overlay ext4 lower upper work || exit 1
try() { kind=$1; shift; why=$("$@" 2>&1) && echo "$kind" || echo "$kind" $why; }
try tmpfs mount -t tmpfs -o "size=$2" none tmpfs
try overlay mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none overlay
image() { truncate -s "$1" image && mke2fs -q -F -t ext4 image && mount -o loop image ext4 && rm image; }
try ext4 image "$2"
echo end
read -r end
"""


@pytest.fixture(scope="module")
def mounts(tmp_path_factory):
    """{kind: (folder, reason if it is not mounted)}"""
    own = tmp_path_factory.mktemp("sums")
    if shutil.disk_usage(own).free < 3 * LARGEST:
        pytest.skip(f"less than {3 * LARGEST} bytes are free in {own}")
    (own / "disk").mkdir()
    how = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    with subprocess.Popen([*how, "sh", "-c", MOUNTS, "sh", own, str(LARGEST + LARGEST // 8 + (64 << 20))], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as p:
        found, output = {"disk": (str(own / "disk"), "")}, ""
        for line in p.stdout:
            kind, _, why = line.strip().partition(" ")
            if kind == "end":
                break
            output += line
            found[kind] = (f"/proc/{p.pid}/root{own}/{kind}", why)
        yield {kind: found.get(kind, (str(own), output or "unshare failed")) for kind in KINDS}
        p.stdin.close()


@pytest.fixture
def rng():
    seed = int(os.environ.get("USDMA_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("seed", seed)
    return random.Random(seed)


@pytest.fixture(params=KINDS)
def path(request, mounts):
    folder, why = mounts[request.param]
    if why:
        pytest.skip(f"{request.param}: {why}")
    name = os.path.join(folder, "file")
    yield name
    os.unlink(name)


@pytest.fixture(scope="module")
def resources():
    """Device, stream, device memory, host memory."""
    with usdma.Device() as dev, dev.stream() as stream, dev.device_buffer(BUFFER) as mem, dev.host_buffer(BUFFER) as host:
        yield dev, stream, mem, numpy.asarray(host)


def sha256_of(path):
    return subprocess.run(["sha256sum", path], stdout=subprocess.PIPE, check=True).stdout.split()[0].decode()


def parts_of(size, rng):
    """(offset, length, position in the buffer) of consecutive parts of random sizes of all orders of magnitude."""
    at = 0
    while at < size:
        n = min(size - at, rng.randrange(1, 2 << rng.randrange(BUFFER.bit_length() - 4, BUFFER.bit_length())), BUFFER)
        yield at, n, rng.randrange(min(BUFFER - n, 5000) + 1)
        at += n


def access_of(path, dev, rng):
    access = rng.choice(("auto", "buffered", "direct"))
    if access == "direct":
        try:
            dev.file(path, access=access).close()
        except OSError:
            return "auto"
    return access


def write(resources, path, size, rng):
    """Writes random data; its digest."""
    dev, stream, mem, host = resources
    digest, fill = hashlib.sha256(), numpy.random.default_rng(rng.randrange(1 << 32))
    with dev.file(path, "w") as made, dev.file(path, "r+", access=access_of(path, dev, rng)) as f:
        for offset, n, at in parts_of(size, rng):
            data = host[at:at + n]
            data[:] = numpy.frombuffer(fill.bytes(n), numpy.uint8)
            stream.copy(mem[at:at + n], data)
            wrote = f.write(mem[at:at + n], offset, stream=stream)
            digest.update(data)
            stream.synchronize()
            assert wrote.moved == [n]
        f.sync(stream)
        stream.synchronize()
    return digest.hexdigest()


def read(resources, path, size, rng):
    """Reads the file, and requests one byte beyond its end; the digest of the data."""
    dev, stream, mem, host = resources
    digest = hashlib.sha256()
    if rng.random() < 0.5:
        with open(path, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with dev.file(path, access=access_of(path, dev, rng)) as f:
        for offset, n, at in parts_of(size + 1, rng):
            got = f.read(mem[at:at + n], offset, stream=stream)
            data = host[at:at + n]
            stream.copy(data, mem[at:at + n])
            stream.synchronize()
            expected = min(n, size - offset)
            assert got.moved == [expected]
            digest.update(data[:expected])
    return digest.hexdigest()


def test_sums(resources, path, rng):
    for size in SIZES:
        wrote = write(resources, path, size, rng)
        assert os.path.getsize(path) == size
        assert wrote == sha256_of(path) == read(resources, path, size, rng)


def test_sparse(resources, path, rng):
    for size in SIZES:
        with open(path, "wb") as f:
            for _ in range(min(size, 30)):
                at = rng.randrange(size)
                os.pwrite(f.fileno(), rng.randbytes(min(size - at, rng.randrange(1, 100_000))), at)
            os.truncate(f.fileno(), size)
            os.fsync(f.fileno())
        assert sha256_of(path) == read(resources, path, size, rng)


def test_kinds(mounts):
    """Each folder has the expected type of file system."""
    for kind in ("tmpfs", "overlay", "ext4"):
        folder, why = mounts[kind]
        if not why:
            shown = subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, check=True).stdout.decode()
            assert re.match({"tmpfs": "tmpfs", "overlay": "overlayfs", "ext4": "ext2/ext3"}[kind], shown)
