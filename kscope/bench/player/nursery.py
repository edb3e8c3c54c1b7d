"""A process that has imported a framework and forks players from itself: each is new, none waits for the import.

It never loads a candidate and never touches the GPU, whose context would not survive a fork. Asked over a socket:
`{"fork": true}` with two descriptors (the player's link, where it prints) is answered with the process's number,
`{"status": NUMBER}` with how it ended.
"""

from __future__ import annotations

import importlib
import os
import socket

from kscope.bench.player import wire


def main(number: int, modules: str) -> None:
    link = socket.socket(fileno=number)
    for name in modules.split(","):
        importlib.import_module(name)
    wire.send(link, {"ready": True})
    while True:
        try:
            asked = wire.receive(link)
            if asked.get("fork"):
                _, descriptors, _, _ = socket.recv_fds(link, 1, 2)
                _fork(link, descriptors)
            else:
                wire.send(link, {"status": _status(int(asked["status"]))})
        except wire.Broken:
            return


def _fork(link: socket.socket, descriptors: list[int]) -> None:
    number = os.fork()
    if number:
        for one in descriptors:
            os.close(one)
        wire.send(link, {"pid": number})
        return
    try:
        os.setsid()
        link.close()
        player, said = descriptors
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.close(said)
        from kscope.bench.player.worker import main as play

        play(player)
        os._exit(0)
    except BaseException:
        os._exit(70)


def _status(number: int) -> int | None:
    """As subprocess counts: None while it runs, negative for a signal."""
    try:
        found, status = os.waitpid(number, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if found else None
