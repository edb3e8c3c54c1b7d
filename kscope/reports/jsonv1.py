"""JSON v1: the Analysis itself on one line. The schema is `kscope analyze --schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kscope.model.analysis import to_json

if TYPE_CHECKING:
    from kscope.model.analysis import Analysis
    from kscope.reports import Options


def encode(analysis: Analysis) -> bytes:
    """One line of UTF-8 JSON and a newline."""
    try:
        return to_json(analysis) + b"\n"
    except UnicodeEncodeError:  # a file name that is not UTF-8 arrives with lone surrogates
        return msgspec.json.encode(encodable(msgspec.to_builtins(analysis))) + b"\n"


def render(analysis: Analysis, options: Options) -> str:
    return encode(analysis).decode()


def encodable(value: Any) -> Any:
    """The same builtins without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {encodable(k): encodable(v) for k, v in value.items()}
    return [encodable(v) for v in value] if isinstance(value, list | tuple) else value
