"""Arrays handed over: their bytes into the file `out`, one after another, and a row about each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any


def written(side: Any, folder: str, calls: Sequence[Sequence[Any]]) -> list[list[dict[str, Any]]]:
    """Rows by call. type: the class of what is no plain array; dtype `none` where it is no array at all."""
    rows: list[list[dict[str, Any]]] = []
    offset = 0
    with open(os.path.join(folder, "out"), "r+b", buffering=0) as file:
        for arrays in calls:
            row = []
            for one in arrays:
                raw, name = side.raw(one)
                if raw.dtype.hasobject:
                    row.append({"shape": [], "dtype": "none", "offset": 0, "bytes": 0, "type": type(one).__name__})
                    continue
                _all(file, raw)
                odd = "" if side.plain(one) else f"{type(one).__module__}.{type(one).__name__}"
                row.append(
                    {"shape": list(raw.shape), "dtype": name, "offset": offset, "bytes": raw.nbytes, "type": odd}
                )
                offset += raw.nbytes
            rows.append(row)
    return rows


def _all(file: Any, raw: Any) -> None:
    """Every byte: an unbuffered file takes at most 2 GiB at once."""
    left = raw.reshape(-1).view("u1").data if raw.size else b""
    while len(left):
        left = left[file.write(left) :]


def called(plan: Sequence[tuple[Callable[[], Any], bool]], copy: Callable[[Any], Any] | None) -> list[Any]:
    """What the calls returned that are held; copied at once where the next call overwrites it."""
    kept = []
    if copy is not None:
        for call, held in plan:
            out = [copy(one) for one in flat(call())]
            if held:
                kept.append(out)
        return kept
    for call, held in plan:
        out = call()
        if held:
            kept.append(out)
    return kept


def flat(out: Any) -> list[Any]:
    if isinstance(out, tuple | list):
        return [one for part in out for one in flat(part)]
    if isinstance(out, dict):
        return [one for part in out.values() for one in flat(part)]
    return [out]
