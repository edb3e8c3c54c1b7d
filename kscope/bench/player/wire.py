"""Messages between judge and player: a length of four bytes and JSON, over a socket that nothing else uses."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Any

import msgspec

LONGEST = 64 << 20  # bytes of a message; arrays go through files
Message = dict[str, Any]


class Broken(Exception):
    """The other side is gone, or what came is no message."""


def send(to: socket.socket, message: Message) -> None:
    data = msgspec.json.encode(message)
    try:
        to.sendall(struct.pack("<I", len(data)) + data)
    except OSError as error:
        raise Broken(str(error)) from None


def receive(of: socket.socket) -> Message:
    """Raises Broken, TimeoutError."""
    size = struct.unpack("<I", _exactly(of, 4))[0]
    if size > LONGEST:
        raise Broken("a message that is none")
    try:
        found = msgspec.json.decode(_exactly(of, size))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Broken("a message that is none") from None
    if not isinstance(found, dict):
        raise Broken("a message that is none")
    return found


def awaited(of: socket.socket, seconds: float) -> None:
    """Until something has come, without sleep: a processor that slept takes 20 to 60 us to answer."""
    poll, until = select.poll(), time.perf_counter() + seconds
    poll.register(of, select.POLLIN)
    while not poll.poll(0) and time.perf_counter() < until:
        pass


def _exactly(of: socket.socket, count: int) -> bytes:
    pieces = []
    while count:
        try:
            piece = of.recv(min(count, 1 << 20))
        except TimeoutError:
            raise
        except OSError as error:
            raise Broken(str(error)) from None
        if not piece:
            raise Broken("ended")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
