# SPDX-License-Identifier: BSD-3-Clause
"""Weights in the format safetensors, straight into device memory."""
import json
import os
import reprlib
import sys
import time

from ._file import File
from ._memory import DeviceBuffer

# Name in the file: (name of the type as numpy and ml_dtypes have it, bits).
DTYPES = {"BOOL": ("bool", 8), "U8": ("uint8", 8), "I8": ("int8", 8), "F8_E4M3": ("float8_e4m3fn", 8),
          "F8_E5M2": ("float8_e5m2", 8), "F8_E8M0": ("float8_e8m0fnu", 8), "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
          "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8), "F4": ("float4_e2m1fn", 4), "F6_E2M3": ("float6_e2m3fn", 6),
          "F6_E3M2": ("float6_e3m2fn", 6), "U16": ("uint16", 16), "I16": ("int16", 16), "F16": ("float16", 16),
          "BF16": ("bfloat16", 16), "U32": ("uint32", 32), "I32": ("int32", 32), "F32": ("float32", 32),
          "U64": ("uint64", 64), "I64": ("int64", 64), "F64": ("float64", 64), "C64": ("complex64", 64)}
MOST_HEADER = 100_000_000  # the format's own limit
SHOWN_AFTER_S = 1.0

_texts = reprlib.Repr()  # of what a file says: it may be long
_texts.maxstring = 200
_short = _texts.repr


def load_safetensors(path, device, stream=None, progress=None):
    """{name: (DeviceBuffer, dtype, shape)} of a file; the host reads its header only.

    dtype is a name, as "float16" or "bfloat16"; the bytes are those of the file, in which the elements of "float4_e2m1fn",
    "float6_e2m3fn" and "float6_e3m2fn" are packed: two in a byte, four in three. A malformed file raises ValueError.
    progress: a bar on standard error; None: if that is a terminal and the load takes longer than a second.
    """
    with open(path, "rb") as f:
        tensors = _read_header(path, f)
        with File(device, f) as file:
            return _load(path, device, file, tensors, stream, progress)


def _load(path, device, file, tensors, stream, progress):
    loaded = {name: (_buffer(device, end - begin), dtype, shape) for name, dtype, shape, begin, end in tensors}
    reads = [(loaded[name][0], begin) for name, _, _, begin, _ in tensors]
    own = device.stream() if stream is None else None
    try:
        transfer = file.batch(own or stream, reads=reads)
        _wait(own or stream, transfer, sum(memory.size for memory, _ in reads), progress)
    finally:
        if own:
            own.close()
    for (name, _, _, begin, end), moved, error in zip(tensors, transfer.moved, transfer.errors):
        if error:  # another wait may have raised the stream's
            raise OSError(error, f"tensor {_short(name)}: {os.strerror(error)}", path)
        if moved != end - begin:
            raise ValueError(f"{path}: tensor {_short(name)}: the file ended while it was read: it is changed by another program")
    return loaded


def _buffer(device, size):
    return DeviceBuffer(device, size) if size else DeviceBuffer(device, 1)[:0]


# ---- the header ---------------------------------------------------------------------------------------------------

def _read_header(path, f):
    """[(name, dtype, shape, begin, end)] in the order of the file; begin and end are offsets in it."""
    try:
        return _parse(*_header_bytes(f))
    except ValueError as e:
        raise ValueError(f"{path} is no valid safetensors file: {e}") from None


def _header_bytes(f):
    size = os.fstat(f.fileno()).st_size
    start = f.read(8)
    if len(start) < 8:
        raise ValueError(f"it has {size} bytes, and its header begins with 8 bytes of length")
    length = int.from_bytes(start, "little")
    if length > MOST_HEADER or 8 + length > size:
        raise ValueError(f"the length of its header is {length}, and it has {size} bytes (a header: {MOST_HEADER} at most)")
    text = f.read(length)
    if len(text) < length:
        raise ValueError("its header is incomplete")
    return text, 8 + length, size


def _unique(pairs):
    names = dict(pairs)
    if len(names) != len(pairs):
        seen = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"its header has {_short(twice)} twice")
    return names


def _parse(text, data, size):
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    header.pop("__metadata__", None)
    tensors = sorted((_tensor(name, entry, data, size) for name, entry in header.items()), key=lambda t: t[3:])
    _check_layout(tensors, data, size)
    return tensors


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _counts(name, entry, key):
    value = entry.get(key)
    if not isinstance(value, list) or not all(map(_is_count, value)):
        raise ValueError(f"tensor {_short(name)}: {key} is {_short(value)}, not a list of numbers from 0 on")
    return tuple(value)


def _bits_of(shape, item, most):
    """Of a tensor; exact up to most, and more than that otherwise."""
    if 0 in shape:
        return 0
    for count in shape:
        item *= count
        if item > most:
            break
    return item


def _tensor(name, entry, data, size):
    if not isinstance(entry, dict):
        raise ValueError(f"tensor {_short(name)} is {_short(entry)}, not an object")
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"tensor {_short(name)}: dtype {_short(dtype)} is unknown (it has {', '.join(DTYPES)})")
    shape, offsets = _counts(name, entry, "shape"), _counts(name, entry, "data_offsets")
    if len(offsets) != 2 or not offsets[0] <= offsets[1] <= size - data:
        raise ValueError(f"tensor {_short(name)}: data_offsets {_short(list(offsets))} are no range of the {size - data} bytes of data")
    if 8 * (offsets[1] - offsets[0]) != _bits_of(shape, DTYPES[dtype][1], 8 * size):
        raise ValueError(f"tensor {_short(name)}: {offsets[1] - offsets[0]} bytes are no {dtype} of shape {_short(list(shape))}")
    return name, DTYPES[dtype][0], shape, data + offsets[0], data + offsets[1]


def _check_layout(tensors, data, size):
    """Each byte of the data belongs to one tensor."""
    at, before = data, None
    for name, _, _, begin, end in tensors:
        if begin < at:
            raise ValueError(f"tensors {_short(before)} and {_short(name)} overlap")
        if begin > at:
            raise ValueError(f"{begin - at} bytes before tensor {_short(name)} belong to none")
        at, before = end, name
    if at != size:
        raise ValueError(f"the last {size - at} bytes belong to no tensor")


# ---- progress -----------------------------------------------------------------------------------------------------

def _wait(stream, transfer, total, progress):
    # Without standard error, as in a window's program, nothing is shown.
    if sys.stderr is not None and (progress or (progress is None and sys.stderr.isatty())):
        _show_until_done(stream, transfer, total, 0 if progress else SHOWN_AFTER_S)
    stream.synchronize()


def _show_until_done(stream, transfer, total, after_s):
    begin, shown = time.monotonic(), False
    while not stream.query():
        passed = time.monotonic() - begin
        if passed >= after_s:
            _show(sum(transfer.moved), total, passed)
            shown = True
        time.sleep(min(0.1, passed / 20))
    if shown or not after_s:
        _show(sum(transfer.moved), total, time.monotonic() - begin)
        sys.stderr.write("\n")


def _show(moved, total, passed):
    part = moved / total if total else 1
    bar = "#" * int(30 * part)
    sys.stderr.write(f"\r{part:4.0%} [{bar:30}] {moved / 1e9:.2f} of {total / 1e9:.2f} GB, {moved / 1e9 / max(passed, 1e-9):.2f} GB/s")
    sys.stderr.flush()
