# SPDX-License-Identifier: BSD-3-Clause
"""Package usdma: files and weights."""
import asyncio
import errno
import io
import json
import math
import os
import random
import re

import numpy
import pytest
import usdma
from usdma import _safetensors


@pytest.fixture
def seed():
    value = int(os.environ.get("USDMA_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("seed", value)
    return value


@pytest.fixture
def data(tmp_path, seed):
    content = numpy.random.default_rng(seed).integers(0, 256, 3_000_001, numpy.uint8)
    path = tmp_path / "data"
    path.write_bytes(content.tobytes())
    return path, content


def content_of(stream, mem):
    back = numpy.zeros(mem.size, numpy.uint8)
    stream.copy(back, mem)
    stream.synchronize()
    return back


# ---- File ---------------------------------------------------------------------------------------------------------

def test_read_now(dev, stream, data):
    path, content = data
    mem, host, plain = dev.device_buffer(100_000), dev.host_buffer(100_000), numpy.zeros(100_000, numpy.uint8)
    with usdma.File(dev, path) as f:
        for memory in (mem, host, plain):
            assert f.read(memory, 12_345) == 100_000
        for got in (content_of(stream, mem), numpy.asarray(host), plain):
            assert (got == content[12_345:112_345]).all()
        assert f.read(plain, content.size - 10) == 10 and (plain[:10] == content[-10:]).all()
        assert f.read(plain, content.size) == 0 and f.read(bytearray(), 0) == 0


def test_in_order(dev, stream, data, tmp_path):
    path, content = data
    mem = dev.device_buffer(content.size)
    with dev.file(path) as f, dev.file(tmp_path / "copy", "w+") as copy:
        stream.fill(mem, 0)
        read = f.read(mem, stream=stream)
        wrote = copy.write(mem, 3, stream=stream)
        copy.sync(stream)
        stream.fill(mem, 0)
        stream.synchronize()
        assert read.moved == wrote.moved == [content.size] and read.errors == [0]
        assert (tmp_path / "copy").read_bytes() == bytes(3) + content.tobytes()
        assert copy.write(b"abc") == 3
    assert (tmp_path / "copy").read_bytes()[:3] == b"abc"


def test_batch(dev, stream, data, tmp_path, seed):
    path, content = data
    at = sorted(random.Random(seed).sample(range(content.size), 300))
    parts = list(zip([0] + at, at + [content.size]))
    mem = dev.device_buffer(content.size)
    with dev.file(path) as f, dev.file(tmp_path / "copy", "w") as copy:
        read = f.batch(stream, reads=[(mem[a:b], a) for a, b in parts])
        copy.batch(stream, writes=[(mem[a:b], a) for a, b in parts])
        stream.synchronize()
    assert read.moved == [b - a for a, b in parts] and set(read.errors) == {0}
    assert (tmp_path / "copy").read_bytes() == content.tobytes()


def test_coroutines(dev, stream, data, tmp_path):
    path, content = data
    mem = dev.device_buffer(content.size)

    async def run():
        with dev.file(path) as f, dev.file(tmp_path / "copy", "w") as copy:
            assert await f.read_done(stream, mem) == content.size
            assert await copy.write_done(stream, mem[:100], 5) == 100
            await copy.sync_done(stream)
            assert (await f.batch_done(stream, reads=[(mem[:10], 10), (mem[10:20], content.size - 3)])).moved == [10, 3]

    asyncio.run(run())
    assert (tmp_path / "copy").read_bytes() == bytes(5) + content.tobytes()[:100]
    assert (content_of(stream, mem)[:13] == numpy.concatenate([content[10:20], content[-3:]])).all()


def test_descriptors(dev, data):
    path, content = data
    plain = bytearray(100)
    with open(path, "rb") as opened:
        for it in (opened, opened.fileno()):
            with usdma.File(dev, it, access="buffered") as f:
                assert f.read(plain, 7) == 100 and plain == content[7:107].tobytes()
        f = usdma.File(dev, opened)
    assert f.read(plain) == 100  # it has duplicated the descriptor
    f.close()


def test_errors(dev, stream, data, tmp_path):
    path, _ = data
    mem = dev.device_buffer(100)
    with pytest.raises(FileNotFoundError):
        usdma.File(dev, tmp_path / "none")
    with pytest.raises(FileExistsError):
        usdma.File(dev, path, "x")
    for mode in ("a", "rb", "wb", "", None, ["r"]):
        with pytest.raises(ValueError, match=r"none of r, r\+, w, w\+, x, x\+$"):
            usdma.File(dev, path, mode)
    with pytest.raises(ValueError, match="'o_direct' is none of auto, buffered, direct"):
        usdma.File(dev, path, access="o_direct")
    closed = usdma.Device("sim:mem=64M")
    closed.close()
    for name, mode in ((path, "w"), (path, "w+"), (tmp_path / "new", "w"), (tmp_path / "new", "x")):
        with pytest.raises(ValueError, match="closed"):
            usdma.File(closed, name, mode)
    assert os.path.getsize(path) == 3_000_001 and not (tmp_path / "new").exists()
    with pytest.raises(usdma.Error) as e:
        usdma.File(dev, os.open("/", os.O_RDONLY))
    assert e.value.errno == errno.EISDIR
    f = usdma.File(dev, path)
    for code, call in ((errno.EACCES, lambda: f.write(mem)), (errno.EACCES, lambda: f.write(mem, stream=stream)),
                       (errno.EOVERFLOW, lambda: f.read(mem, 1 << 63)), (errno.EFAULT, lambda: f._native.read(mem.ptr, 0, 1 << 30))):
        with pytest.raises(OSError) as e:
            call()
        assert e.value.errno == code
    with pytest.raises(ValueError, match="read-only"):
        f.read(bytes(3))
    with pytest.raises(TypeError):
        f.read(mem, -1)
    f.close()
    f.close()
    for call in (lambda: f.read(mem), lambda: f.read(mem, stream=stream), lambda: f.sync(stream)):
        with pytest.raises(OSError) as e:
            call()
        assert e.value.errno == errno.EBADF


def test_an_item_fails(dev, stream):
    source, mem = numpy.arange(50, dtype=numpy.uint8), dev.device_buffer(150)
    with dev.file("/proc/self/mem", access="buffered") as f:  # a process has nothing at address 0
        at = source.ctypes.data
        transfer = f.batch(stream, reads=[(mem[:50], at), (mem[50:100], 0), (mem[100:], at)])
        with pytest.raises(OSError) as e:
            stream.synchronize()
        assert e.value.errno == errno.EIO
        assert transfer.errors == [0, errno.EIO, 0] and transfer.moved == [50, 0, 50]
        assert (content_of(stream, mem)[100:] == source).all()
        with pytest.raises(OSError, match="item 1") as e:
            f.batch(stream, reads=[(mem, at), (mem, 1 << 63)])
        assert e.value.errno == errno.EOVERFLOW


def test_waiter_gets_the_error(dev, stream):
    """Who waits for an operation gets its error, also beside another wait."""
    mem = dev.device_buffer(50)

    async def run():
        for call in (lambda: f.read_done(stream, mem), lambda: f.write_done(stream, mem), lambda: f.batch_done(stream, [(mem, 0)])):
            waits = asyncio.create_task(call())
            await asyncio.sleep(0)
            stream.synchronize()
            with pytest.raises(OSError) as e:
                await waits
            assert e.value.errno == errno.EIO

    with dev.file("/proc/self/mem", "r+", access="buffered") as f:  # a process has nothing at address 0
        asyncio.run(run())


# ---- safetensors --------------------------------------------------------------------------------------------------

def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def tensors_of(seed):
    rng = numpy.random.default_rng(seed)
    tensors = {f"layer.{i}": rng.integers(0, 256, tuple(rng.integers(0, 40, i % 4)), numpy.uint8).view() for i in range(40)}
    tensors["wide"] = rng.random((300, 500)).astype(numpy.float32)
    tensors["half"] = rng.random((7, 9)).astype(numpy.float16)
    return tensors


NAMES = {"uint8": "U8", "float32": "F32", "float16": "F16"}


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, a in tensors.items():
        header[name] = {"dtype": NAMES[str(a.dtype)], "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.tobytes()
    path.write_bytes(file_of(header, data))


@pytest.mark.parametrize("own_stream", [True, False])
def test_load(dev, stream, tmp_path, seed, own_stream):
    tensors, path = tensors_of(seed), tmp_path / "m.safetensors"
    write_safetensors(path, tensors)
    loaded = usdma.load_safetensors(path, dev, stream=None if own_stream else stream)
    assert loaded.keys() == tensors.keys()
    for name, (mem, dtype, shape) in loaded.items():
        a = tensors[name]
        assert dtype == str(a.dtype) and shape == a.shape and mem.size == a.nbytes
        assert mem.size == 0 or content_of(stream, mem).tobytes() == a.tobytes()


# As the format's description names them, and their bits.
TYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
         "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}


def test_load_every_type(dev, stream, tmp_path, seed):
    rng, header, data = random.Random(seed), {}, b""
    for name, bits in TYPES.items():
        for shape in ([4, rng.randrange(1, 9)], [8], [0, 3], [2, 2, 2]):
            size = math.prod(shape) * bits // 8
            header[f"{name} {shape}"] = {"dtype": name, "shape": shape, "data_offsets": [len(data), len(data) + size]}
            data += rng.randbytes(size)
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_of(header, data))
    loaded = usdma.load_safetensors(path, dev)
    assert loaded.keys() == header.keys() and len({dtype for _, dtype, _ in loaded.values()}) == len(TYPES)
    for name, (mem, dtype, shape) in loaded.items():
        entry = header[name]
        begin, end = entry["data_offsets"]
        assert shape == tuple(entry["shape"]) and mem.size == end - begin and re.fullmatch("[a-z0-9_]+", dtype)
        assert mem.size == 0 or content_of(stream, mem).tobytes() == data[begin:end]


def test_package_safetensors(dev, stream, tmp_path, seed):
    """The package safetensors (Debian 13) writes a file that is loaded here, and reads a file that was written here."""
    reference = pytest.importorskip("safetensors.numpy", reason="python3-safetensors is not installed")
    tensors, path, back = tensors_of(seed), tmp_path / "m.safetensors", tmp_path / "back.safetensors"
    reference.save_file(tensors, path, {"format": "np"})
    loaded = usdma.load_safetensors(path, dev)
    assert {name: (dtype, shape, content_of(stream, mem).tobytes() if mem.size else b"") for name, (mem, dtype, shape) in loaded.items()} \
        == {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in tensors.items()}
    with open(path, "rb") as f, dev.file(back, "w") as made:
        ranges = [(loaded[name][0], at) for name, _, _, at, _ in _safetensors._read_header(path, f)]
        made.write(path.read_bytes()[:min(at for _, at in ranges)])
        for mem, at in ranges:
            made.write(mem, at)
    read = reference.load_file(back)
    assert read.keys() == tensors.keys() and all((read[n] == a).all() and read[n].shape == a.shape for n, a in tensors.items())


def test_load_nothing(dev, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_of(b"{}   "))
    assert usdma.load_safetensors(path, dev) == {}


def one(**changes):
    return {"a": {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8], **changes}}


BROKEN = {
    "no length": (b"\1\2", "2 bytes"),
    "long": (file_of(one(), bytes(8), 1 << 40), "length of its header"),
    "longer than the file": (file_of(one(), b"", 10_000), "length of its header"),
    "no JSON": (file_of(b"{nonsense"), "m.safetensors is no valid"),
    "no UTF-8": (file_of(b'{"\xff": 1}'), "utf-8"),
    "deep": (file_of(b'{"a":' + b"[" * 200_000), "nested"),
    "a list": (file_of([1]), "no JSON object"),
    "twice": (file_of(b'{"a": 1, "a": 1}'), "'a' twice"),
    "no object": (file_of({"a": 3}), "not an object"),
    "dtype": (file_of(one(dtype="F12"), bytes(8)), "'F12' is unknown"),
    "dtype list": (file_of(one(dtype=["F16"]), bytes(8)), "is unknown"),
    "no shape": (file_of({"a": {"dtype": "F16", "data_offsets": [0, 8]}}, bytes(8)), "shape is None"),
    "negative": (file_of(one(shape=[-2, -2]), bytes(8)), "shape"),
    "true": (file_of(one(shape=[True, 4]), bytes(8)), "shape"),
    "fraction": (file_of(one(shape=[2.0, 2]), bytes(8)), "shape"),
    "many": (file_of(one(shape=[1 << 40] * 100_000), bytes(8)), "8 bytes are no F16"),
    "digits": (file_of(one(shape=[int("9" * 4300)] * 100), bytes(8)), "8 bytes are no F16"),
    "digits of an offset": (file_of(one(data_offsets=[0, int("9" * 4300)]), bytes(8)), "no range"),
    "too many digits": (file_of(b'{"a": ' + b"9" * 5000 + b"}"), "digits|not an object"),
    "a long name": (file_of({"a" * 10_000: one(shape=[2, 3])["a"]}, bytes(8)), "8 bytes are no F16"),
    "a long dtype": (file_of(one(dtype="F" * 10_000), bytes(8)), "is unknown"),
    "a long list": (file_of({"a": ["F"] * 10_000}), "not an object"),
    "a long shape": (file_of(one(shape=["F"] * 10_000), bytes(8)), "not a list of numbers"),
    "long names overlap": (file_of({c * 10_000: {"dtype": "U8", "shape": [2], "data_offsets": [i, i + 2]} for i, c in enumerate("ab")}, bytes(3)), "overlap"),
    "twice of many": (file_of(b"{" + b"".join(b'"%d": 1,' % i for i in range(100_000)) + b'"99999": 1}'), "'99999' twice"),
    "a long name twice": (file_of(b'{"%b": 1, "%b": 1}' % (b"a" * 10_000, b"a" * 10_000)), "twice"),
    "size": (file_of(one(shape=[2, 3]), bytes(8)), "8 bytes are no F16"),
    "half a byte": (file_of(one(dtype="F4", shape=[3, 5]), bytes(8)), "8 bytes are no F4"),
    "a part of a byte": (file_of(one(dtype="F6_E2M3", shape=[11]), bytes(8)), "8 bytes are no F6"),
    "two elements in a byte": (file_of(one(dtype="F4", shape=[8]), bytes(8)), "8 bytes are no F4"),
    "huge": (file_of(one(shape=[1 << 40, 1 << 40]), bytes(8)), "8 bytes are no F16"),
    "three offsets": (file_of(one(data_offsets=[0, 4, 8]), bytes(8)), "no range"),
    "backwards": (file_of(one(data_offsets=[8, 0]), bytes(8)), "no range"),
    "behind the end": (file_of(one(data_offsets=[1, 9]), bytes(8)), "no range"),
    "overlap": (file_of({**one(), "b": {"dtype": "U8", "shape": [5], "data_offsets": [4, 9]}}, bytes(9)), "'a' and 'b' overlap"),
    "a hole": (file_of(one(data_offsets=[1, 9]), bytes(9)), "belong to none"),
    "bytes behind": (file_of(one(), bytes(9)), "last 1 bytes"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken(dev, tmp_path, what):
    content, text = BROKEN[what]
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=text) as e:
        usdma.load_safetensors(path, dev)
    assert len(str(e.value)) < 1000


def test_shapes_without_an_end():
    assert _safetensors._bits_of((1 << 40,) * 100_000, 2, 100).bit_length() < 100
    assert _safetensors._bits_of((1 << 40, 0, 1 << 40), 2, 100) == 0
    assert _safetensors._bits_of((), 2, 100) == 2 and _safetensors._bits_of((5, 10), 2, 100) == 100


def test_a_tensor_fails(dev, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_of(one(), bytes(8)))
    monkeypatch.setattr(usdma.Transfer, "errors", property(lambda _: [errno.EIO]))
    with pytest.raises(OSError, match="tensor 'a'") as e:
        usdma.load_safetensors(path, dev)
    assert e.value.errno == errno.EIO and e.value.filename == path


def test_any_broken_byte(dev, tmp_path, seed):
    """A changed header is refused, or describes another valid file: nothing else."""
    path, rng = tmp_path / "m.safetensors", random.Random(seed)
    write_safetensors(path, {"x": numpy.arange(6, dtype=numpy.uint8).reshape(2, 3), "y": numpy.zeros(4, numpy.float16)})
    good = path.read_bytes()
    for _ in range(300):
        bad = bytearray(good)
        bad[rng.randrange(len(good) - 14)] = rng.randrange(256)
        path.write_bytes(bad)
        try:
            usdma.load_safetensors(path, dev)
        except ValueError:
            pass


def test_truncated_while_read(dev, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_of(one(), bytes(8)))
    read_header = _safetensors._read_header

    def shorten(name, f):
        tensors = read_header(name, f)
        os.truncate(name, os.path.getsize(name) - 1)
        return tensors

    monkeypatch.setattr(_safetensors, "_read_header", shorten)
    with pytest.raises(ValueError, match="ended while it was read"):
        usdma.load_safetensors(path, dev)


@pytest.mark.parametrize("progress", [None, True])
def test_no_standard_error(dev, tmp_path, seed, monkeypatch, progress):
    path, tensors = tmp_path / "m.safetensors", tensors_of(seed)
    write_safetensors(path, tensors)
    monkeypatch.setattr("sys.stderr", None)
    assert usdma.load_safetensors(path, dev, progress=progress).keys() == tensors.keys()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress(dev, tmp_path, seed, monkeypatch):
    path = tmp_path / "m.safetensors"
    write_safetensors(path, tensors_of(seed))
    for out, progress, after_s, shows in ((io.StringIO(), True, 1e9, True), (io.StringIO(), None, 0, False), (Terminal(), None, 0, True),
                                          (Terminal(), None, 1e9, False), (Terminal(), False, 0, False)):
        monkeypatch.setattr(_safetensors, "SHOWN_AFTER_S", after_s)
        monkeypatch.setattr("sys.stderr", out)
        usdma.load_safetensors(path, dev, progress=progress)
        assert out.getvalue().endswith("GB/s\n") and "100% [##" in out.getvalue() if shows else out.getvalue() == ""
