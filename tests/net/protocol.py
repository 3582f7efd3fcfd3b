# SPDX-License-Identifier: BSD-3-Clause
"""The control connection's protocol (net/wire.h), for tests that speak it well or badly."""
import hashlib
import hmac
import os
import socket
import struct

MAGIC, VERSION = b"usdmanet", 4
OFFER, REFUSAL = 1, 2
REASONS = {1: "version", 2: "key", 3: "full", 4: "malformed"}


def hello(version=VERSION, reserved=0, magic=MAGIC):
    return magic + struct.pack("<II", version, reserved) + os.urandom(16) + os.urandom(32)


def frame(kind, body, length=None):
    return struct.pack("<II", kind, len(body) if length is None else length) + body


def offer(key, role, client, server, address, client_mac=b""):
    token = os.urandom(16)
    said = role + client + server + token + struct.pack("<I", len(address)) + address + client_mac
    return hmac.new(key, said, hashlib.sha256).digest() + token + address


def receive(sock, count):
    """Less at the end of the connection."""
    got = b""
    while len(got) < count:
        try:
            piece = sock.recv(count - len(got))
        except ConnectionResetError:
            break
        if not piece:
            break
        got += piece
    return got


def to_end(sock):
    return receive(sock, 1 << 16)


def reason(said):
    """Of the refusal behind a hello; "" if there is none."""
    if len(said) < 12 or struct.unpack_from("<II", said) != (REFUSAL, 4):
        return ""
    return REASONS.get(struct.unpack_from("<I", said, 8)[0], "?")


def connect(address, port, timeout=20):
    return socket.create_connection((address, port), timeout)
