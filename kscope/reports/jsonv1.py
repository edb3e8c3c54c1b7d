"""JSON v1: the Analysis itself on one line. The schema is `kscope analyze --schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kscope.reports.escape import json_line

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis
    from kscope.reports import Options


def encode(view: msgspec.Struct) -> bytes:
    """One line of UTF-8 JSON and a newline. Non-finite numbers become null: JSON has none."""
    try:
        encoded = msgspec.json.encode(view)
    except UnicodeEncodeError:  # a file name that is not UTF-8 arrives with lone surrogates
        encoded = msgspec.json.encode(encodable(msgspec.to_builtins(view)))
    return json_line(encoded) + b"\n"


def render(analysis: Analysis, options: Options) -> str:
    return encode(analysis).decode()


def encodable(value: Any) -> Any:
    """The same builtins without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {encodable(k): encodable(v) for k, v in value.items()}
    return [encodable(v) for v in value] if isinstance(value, list | tuple) else value
