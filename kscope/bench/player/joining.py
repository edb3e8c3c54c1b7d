"""A player that a tool has started (Nsight Compute), which passes no descriptors on: it comes to a socket's path."""

from __future__ import annotations

import socket

from kscope.bench.player.worker import Player


def connect(path: str) -> None:
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    Player(link).serve()
