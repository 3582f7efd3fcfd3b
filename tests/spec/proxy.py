# SPDX-License-Identifier: BSD-3-Clause
"""usdma-sim on a socket, and a proxy before it that checks the messages of both sides, and may modify them."""

import os
import select
import socket
import subprocess
import tempfile
import threading

import wire as w
from auditor import Auditor

READY_SECONDS, TIMEOUT = 30, 60


class Server:
    """One usdma-sim."""

    def __init__(self, program, *options):
        self.folder = tempfile.mkdtemp(prefix="usdma-spec-")
        self.path = os.path.join(self.folder, "device")
        ready, ready_sender = os.pipe()
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen([program, "--verbose", "--socket", self.path, "--ready-fd", str(ready_sender), *options],
                                            pass_fds=[ready_sender], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(ready_sender)
        if not select.select([ready], [], [], READY_SECONDS)[0] or not os.read(ready, 64):
            raise RuntimeError(f"usdma-sim did not start: {self.log_text()}")
        os.close(ready)

    def log_text(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def connect(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(TIMEOUT)
        sock.connect(self.path)
        return w.Link(sock)

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(TIMEOUT) == 0
        except subprocess.TimeoutExpired:
            self.process.kill()
            return False
        finally:
            for name in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, name))
            os.rmdir(self.folder)


class Proxy:
    """Between clients and a server.  change(side, message) may modify a message after it was sent and before it is checked."""

    def __init__(self, server, change=None):
        self.server, self.change = server, change or (lambda side, m: None)
        self.auditor, self._lock = Auditor(), threading.Lock()
        self.count = 0
        self.folder = tempfile.mkdtemp(prefix="usdma-proxy-")
        self.path = os.path.join(self.folder, "device")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(4)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                client = w.Link(self._listener.accept()[0])
            except OSError:
                return
            with self._lock:
                wrong, seen = self.auditor.wrong, self.auditor.seen
                self.auditor = Auditor()  # each client has its own state; the findings are retained
                self.auditor.wrong, self.auditor.seen = wrong, seen
            server = self.server.connect()
            server.sock.settimeout(None)
            pair = [threading.Thread(target=self._forward, args=a)
                    for a in (("client", client, server, self.auditor), ("server", server, client, self.auditor))]
            for t in pair:
                t.start()
            for t in pair:
                t.join()
            client.close()
            server.close()

    def _forward(self, side, source, to, auditor):
        try:
            while True:
                m = source.receive()
                if m is None:
                    break
                fds = list(m.fds)
                self.change(side, m)
                with self._lock:
                    auditor.check_message(side, m)
                    self.count += 1
                to.send(m)
                for fd in fds:
                    os.close(fd)
        except OSError:
            pass
        for link in (source, to):
            try:
                link.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for t in self._threads:
            t.join(TIMEOUT)
        os.unlink(self.path)
        os.rmdir(self.folder)


class Points:
    """Prints TAP points."""

    count = failed = 0

    def add(self, ok, name, detail=""):
        Points.count += 1
        Points.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {Points.count} - {name}", flush=True)
        if not ok:
            print("".join(f"# {line}\n" for line in str(detail).splitlines()[-40:]), end="", flush=True)
        return ok

    def end(self):
        print(f"1..{Points.count}")
        return 1 if Points.failed or not Points.count else 0
