"""The types of the HTML report's data, from the structs that it is the JSON of: reports/frontend/src/schema.ts.

    python tools/frontend_types.py [--check]

`--check` writes nothing and exits 1 where the file differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import inspect

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.model.contract.analysis import Analysis  # noqa: E402
from kscope.model.contract.comparison import Comparison  # noqa: E402
from kscope.model.contract.detail import Detail  # noqa: E402
from kscope.model.contract.sass_diff import SassComparison  # noqa: E402

TARGET = ROOT / "reports" / "frontend" / "src" / "schema.ts"
ROOTS = (Analysis, Comparison, Detail, SassComparison)
HEAD = "// Made by tools/frontend_types.py from kscope.model (`make frontend`): not to be edited.\n"
WIDTH = 120


def source() -> str:
    """The text of schema.ts: an interface for every struct that the data can hold, by name."""
    structs: dict[type, inspect.StructType] = {}
    for kind in inspect.multi_type_info(ROOTS):
        _collect(kind, structs)
    count = Counter(cls.__name__ for cls in structs)
    names = {cls: _name(cls, count[cls.__name__] > 1) for cls in structs}
    return HEAD + "".join(f"\n{text}" for text in sorted(_interface(kind, names) for kind in structs.values()))


def _collect(kind: inspect.Type, structs: dict[type, inspect.StructType]) -> None:
    if isinstance(kind, inspect.StructType):
        if kind.cls in structs:
            return
        structs[kind.cls] = kind
    for part in _parts(kind):
        _collect(part, structs)


def _parts(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        yield from (field.type for field in kind.fields)
    elif isinstance(kind, inspect.UnionType):
        yield from kind.types
    elif isinstance(kind, inspect.TupleType):
        yield from kind.item_types
    elif isinstance(kind, inspect.DictType):
        yield from (kind.key_type, kind.value_type)
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
        yield kind.item_type
    elif isinstance(kind, inspect.Metadata):
        yield kind.type


def _name(cls: type, shared: bool) -> str:
    """The class's name, behind that of its module where two modules have one of that name."""
    module = cls.__module__.rpartition(".")[2]
    return ("".join(part.capitalize() for part in module.split("_")) if shared else "") + cls.__name__


def _interface(kind: inspect.StructType, names: dict[type, str]) -> str:
    """Fields that the encoder leaves out where they have their default are optional, and never null for it."""
    sparse = kind.cls.__struct_config__.omit_defaults
    fields = []
    for field in kind.fields:
        left_out = sparse and not field.required
        text = _type(field.type, names)
        if left_out and field.default is None:
            text = text.replace(" | null", "")
        fields.append(f"{field.encode_name}{'?' if left_out else ''}: {text};")
    lines = [""]
    for one in fields:
        if len(lines[-1]) + len(one) + 3 > WIDTH:
            lines.append("")
        lines[-1] += f" {one}"
    body = "".join(f" {line}\n" for line in lines)
    return f"export interface {names[kind.cls]} {{\n{body}}}\n"


def _type(kind: inspect.Type, names: dict[type, str]) -> str:
    match kind:
        case inspect.Metadata():
            return _type(kind.type, names)
        case inspect.StructType():
            return names[kind.cls]
        case inspect.UnionType():
            parts = [_type(one, names) for one in kind.types]
            return " | ".join(sorted(dict.fromkeys(parts), key=lambda text: text == "null"))
        case inspect.LiteralType():
            return " | ".join(f'"{value}"' for value in kind.values)
        case inspect.DictType():
            return f"Record<{_type(kind.key_type, names)}, {_type(kind.value_type, names)}>"
        case inspect.TupleType():
            return f"[{', '.join(_type(one, names) for one in kind.item_types)}]"
        case inspect.ListType() | inspect.VarTupleType():
            item = _type(kind.item_type, names)
            return f"({item})[]" if " | " in item else f"{item}[]"
    plain = {inspect.IntType: "number", inspect.FloatType: "number", inspect.StrType: "string",
             inspect.BoolType: "boolean", inspect.NoneType: "null"}  # fmt: skip
    return plain[type(kind)]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(f"usage: {Path(__file__).name} [--check]", file=sys.stderr)
        return 2
    text = source()
    stale = not TARGET.is_file() or TARGET.read_text("utf-8") != text
    if stale and not arguments:
        TARGET.write_text(text, encoding="utf-8")
    if stale:
        print(f"{TARGET.relative_to(ROOT)} {'differs' if arguments else 'rewritten'}", file=sys.stderr)
    return int(stale and bool(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
