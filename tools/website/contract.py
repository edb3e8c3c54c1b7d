"""Pages on what scripts can build on: exit status, formats, and the JSON, field by field, from its schema."""

from __future__ import annotations

from typing import Any

import msgspec

from kscope.model.contract.analysis import json_schema
from kscope.model.contract.comparison import comparison_schema
from kscope.model.contract.versions import versions_schema
from kscope.worklog.trend import Trend
from tools.website.commands import plain

INDEX = """# What scripts can build on

Fields, codes, names of options and the meaning of exit statuses stay: things are added, and nothing is renamed or taken
away without a new version of the schema (`schema` in every JSON says which).

## Exit status

| status | means |
| --- | --- |
| 0 | analysed, whatever was found |
| 1 | a threshold was met: `--fail-on`, `--fail-if-slower` |
| 2 | wrong usage |
| 3 | input missing, unreadable, truncated or of an unknown kind; or a gate that could not look |
| 4 | an external tool is missing |

A fault is one line on standard error: the file, what is wrong with it, what to do. With `--format json` it is
`{"error": {"code", "message", "hint"}}` there.

## Formats

What is printed goes to standard output, everything else to standard error. `-o FILE` takes the format from the suffix,
`--format` names it. Nothing is overwritten without `--force`. A gate prints a line a violation, such as
`FAIL MEM103 transpose_plain tiles.cu:16 0x0290`.

## Names

A rule has a code (`MEM103`) and a slug (`shared-bank-conflicts`). Codes are never used again for something else.
Regimes are `compute`, `memory` and `overhead`; where nothing tells, `unknown`. Limiters are listed with their fields:
[the JSON, field by field](json.md).

## Text of reports

Names of kernels and files and lines of source in a report are text that somebody else wrote. They are quoted in every
format and never executed, opened or followed.
"""


def pages() -> dict[str, str]:
    """Path on the site -> text."""
    text = ["# The JSON, field by field", "", "Made from the schemas, which `kscope analyze --schema` and",
            "`kscope diff --schema` print.", ""]  # fmt: skip
    printed = (
        ("kscope analyze --format json", json_schema()), ("kscope diff --format json", comparison_schema()),
        ("kscope diff A B C --format json", versions_schema()), ("kscope log trend --format json", _trend()),
    )  # fmt: skip
    known: set[str] = set()
    for title, schema in printed:
        definitions = schema["$defs"]
        root = str(schema["$ref"]).rpartition("/")[2]
        text += [f"## {title}", "", f"A value of [{root}](#{root.lower()}).", ""]
        for name in sorted(definitions, key=lambda name: (name != root, name)):
            if name not in known:
                known.add(name)
                text += _type(name, definitions[name])
    return {"contract/index.md": INDEX, "contract/json.md": "\n".join(text) + "\n"}


def _trend() -> dict[str, Any]:
    return msgspec.json.schema(Trend)


def _type(name: str, schema: dict[str, Any]) -> list[str]:
    out = [f"### {name}", "", _said(schema.get("description", "")), ""]
    fields = schema.get("properties", {})
    if fields:
        out += ["| field | type | |", "| --- | --- | --- |"]
        needed = set(schema.get("required", []))
        for field, what in fields.items():
            optional = "" if field in needed else " (has a default)"
            out.append(f"| `{field}` | {_kind(what)} | {_said(what.get('description', ''))}{optional} |")
        out.append("")
    return out


def _kind(what: dict[str, Any]) -> str:
    if "$ref" in what:
        name = str(what["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in what:
        return " or ".join(_kind(one) for one in what["anyOf"])
    if "enum" in what:
        return ", ".join(f"`{value}`" for value in what["enum"])
    if what.get("type") == "array":
        inner = what.get("items") or {}
        parts = what.get("prefixItems")
        if parts:
            return f"[{', '.join(_kind(one) for one in parts)}]"
        return f"list of {_kind(inner)}" if isinstance(inner, dict) and inner else "list"
    if what.get("type") == "object":
        inner = what.get("additionalProperties")
        return f"object of {_kind(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(what.get("type", "any"))


def _said(text: str) -> str:
    return plain(" ".join(text.split())).replace("|", "&#124;")
