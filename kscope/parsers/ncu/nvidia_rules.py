"""What Nsight Compute's own rules found, as plain values: messages, estimates, tables (2024 on)."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LINK = re.compile(r"@(url|section|source|sass):([^@]*)@")
"""A link inside a text: `@url:words:address@`, all others with their words behind the last colon (documentation of
`IRuleResult.result_tables`)."""
ROWS = 20  # of a table: rules list what is most frequent first

Table = tuple[str, list[str], list[list[str]]]


def rules(action: Any) -> list[tuple[str, str, str, float | None, str, list[Table]]]:
    """(rule, title, message, estimated speed-up in percent, global | local, tables)."""
    out = []
    for r in action.rule_results_as_dicts():
        message = r.get("rule_message") or {}
        speedup = r.get("speedup_estimation") or {}
        text = plain(message.get("message", ""))
        tables = [found for t in r.get("result_tables") or () if (found := table(t)) is not None]
        if text or speedup or tables:
            kind = {1: "local", 2: "global"}.get(int(speedup.get("type", 0)), "")  # ncu_report.SpeedupType
            pct = float(speedup["speedup"]) if speedup else None
            title = message.get("title", "") or r.get("name", "")
            out.append((r["rule_identifier"], title, text, pct, kind, tables))
    return out


def table(found: dict[str, Any]) -> Table | None:
    """(title, headers, rows): the reader hands columns on. None for one without cells, or whose columns differ in
    length."""
    headers, columns = found.get("headers") or [], found.get("data") or []
    length = len(columns[0]) if columns else 0
    if not length or len(columns) != len(headers) or any(len(c) != length for c in columns):
        return None
    rows = [[_cell(column[i]) for column in columns] for i in range(min(ROWS, length))]
    return str(found.get("title", "")), [plain(str(h)) for h in headers], rows


def plain(text: str) -> str:
    """The text with the words of its links in their place."""
    return LINK.sub(lambda m: m[2].split(":")[0] if m[1] == "url" else m[2].rsplit(":", 1)[-1], text)


def _cell(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else plain(str(value))
