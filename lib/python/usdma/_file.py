# SPDX-License-Identifier: BSD-3-Clause
"""Files that are read into, and written from, device and host memory."""
import os
import stat

from . import _native
from ._closing import Closing
from ._memory import buffer_range
from ._words import word

ACCESS = {"auto": 0, "buffered": 1, "direct": 2}
MODES = {"r": os.O_RDONLY, "r+": os.O_RDWR, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
         "w+": os.O_RDWR | os.O_CREAT | os.O_TRUNC, "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
         "x+": os.O_RDWR | os.O_CREAT | os.O_EXCL}


class Transfer:
    """Reads and writes that were queued in a stream. What it says is final once the stream was waited for."""

    def __init__(self, native):
        self._native = native

    @property
    def moved(self):
        """Bytes of each; less than its length at the end of a file. 0 until it has ended."""
        return self._native.moved()

    @property
    def errors(self):
        """The errno of each; 0: none."""
        return [-e for e in self._native.errors()]

    def _raise_error(self):
        """The first one; the stream's may have been raised by another wait."""
        for code in filter(None, self.errors):
            raise _native.Error(code, os.strerror(code))


def _open(file, flags):
    """Its descriptor, and whether it was made. O_TRUNC is left to the caller."""
    flags = flags & ~os.O_TRUNC | os.O_CLOEXEC
    if flags & os.O_CREAT:
        try:
            return os.open(file, flags | os.O_EXCL, 0o666), True
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
    return os.open(file, flags, 0o666), False


def _remove(file, fd):
    """Unless another file has its name meanwhile."""
    try:
        if os.path.samestat(os.lstat(file), os.fstat(fd)):
            os.unlink(file)
    except OSError:
        pass


class File(Closing):
    """A file: a path, or an open file or descriptor, which stays the caller's.

    Memory is a DeviceBuffer, a HostBuffer, or any object with the buffer protocol. Without a stream a call returns
    when the bytes were moved, with their number; with one it returns a Transfer at once, and the stream's wait
    raises the error.
    """

    def __init__(self, device, file, mode="r", access="auto"):
        """mode, of a path: "r", "r+", "w", "w+", "x" or "x+", as of open(), of bytes always; access: "auto", "buffered" or "direct"."""
        flags = word("access", access, ACCESS)
        if isinstance(file, (str, bytes, os.PathLike)):
            how = word("mode", mode, MODES)
            fd, made = _open(file, how)
            try:
                self._native = _native.File(device._native, fd, flags)
                if how & os.O_TRUNC and stat.S_ISREG(os.fstat(fd).st_mode):
                    os.ftruncate(fd, 0)
            except BaseException:
                if made:
                    _remove(file, fd)
                raise
            finally:
                os.close(fd)
        else:
            self._native = _native.File(device._native, file if isinstance(file, int) else file.fileno(), flags)

    def read(self, dst, offset=0, stream=None, timeout_ms=-1):
        """Fills dst with the file's bytes from offset on."""
        if stream is not None:
            return self.batch(stream, reads=[(dst, offset)])
        at, size, keep = buffer_range(dst, True)
        try:
            return self._native.read(at, offset, size, timeout_ms)
        finally:
            del keep

    def write(self, src, offset=0, stream=None, timeout_ms=-1):
        """Writes src to the file at offset."""
        if stream is not None:
            return self.batch(stream, writes=[(src, offset)])
        at, size, keep = buffer_range(src, False)
        try:
            return self._native.write(at, offset, size, timeout_ms)
        finally:
            del keep

    def batch(self, stream, reads=(), writes=()):
        """Many at one position of the stream, in no order: lists of (memory, offset). The Transfer has the reads first."""
        ranges = [(False, buffer_range(memory, True), offset) for memory, offset in reads]
        ranges += [(True, buffer_range(memory, False), offset) for memory, offset in writes]
        items = [(self._native, writing, at, offset, size) for writing, (at, size, _), offset in ranges]
        return Transfer(_native.FileBatch.submit(stream._native, items, tuple(keep for _, (_, _, keep), _ in ranges)))

    def sync(self, stream):
        """In the stream's order: the disk stores what was written before, or the stream has the error."""
        self._native.sync(stream._native)

    async def read_done(self, stream, dst, offset=0):
        return (await self.batch_done(stream, reads=[(dst, offset)])).moved[0]

    async def write_done(self, stream, src, offset=0):
        return (await self.batch_done(stream, writes=[(src, offset)])).moved[0]

    async def batch_done(self, stream, reads=(), writes=()):
        transfer = self.batch(stream, reads, writes)
        await stream.done()
        transfer._raise_error()
        return transfer

    async def sync_done(self, stream):
        self.sync(stream)
        await stream.done()

    def close(self):
        """Operations in progress complete; later ones raise EBADF."""
        self._native.close()
