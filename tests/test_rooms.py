"""The house: what imports what, and how large its parts are, read from the source. Imports inside functions and those
for the type checker alone count like all others: a circle that they hide is a circle.

A room is a package. The modules beside the packages of kscope itself (`_version` below everything, the package's front
above) are rooms of their own. What is left to mend is listed with its reason, and a list that has become too long fails
as well: what was mended must leave it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES, LINES, FUNCTION, COMPLEXITY = 20, 300, 60, 20

CIRCLES: dict[str, str] = {}
CROWDED: dict[str, str] = {}
LONG = {
    "kscope/features/lanes/values.py": "two lines above: one machine, its registers and its memory",
    "kscope/parsers/ncu/worker.py": "some lines above: both ends of one protocol",
    "kscope/parsers/timeline/sqlite_pages.py": "one format, read in one place",
}
LENGTHY = {
    "kscope/cli/diagnose/analyze.py:analyze": "the options and the help of a command",
    "kscope/cli/machine/run.py:run": "the options and the help of a command",
    "kscope/cli/diagnose/sass.py:sass": "the options and the help of a command",
}


TANGLED: dict[str, dict[str, int]] = {
    "text of operands parsed again: with operands as values": {
        "features/lanes/affine.py:_evaluate": 26,
        "features/patterns/math_functions.py:_power": 29,
        "features/patterns/tile_copies.py:_asynchronous": 23,
        "features/sass/branches.py:_base": 23,
        "features/sass/branches.py:targets_of": 24,
        "features/views/annotations.py:_branch": 24,
        "isa/operand_shapes.py:_arithmetic": 26,
        "parsers/sass/instructions.py:_destinations": 24,
        "parsers/sass/listing.py:parse_listing": 22,
    },
    "a view filled field by field, most of them optional": {
        "engine/comparing/compare.py:_pair": 28,
        "engine/comparing/compare_timelines.py:compare_timelines": 34,
        "engine/timelines/job.py:judge": 24,
        "engine/timelines/recordings.py:_job": 24,
        "engine/code/sassdiff.py:sass_diff": 27,
        "features/specialized/recorded_roles.py:_role": 24,
        "features/views/charts.py:pm": 24,
        "features/views/source.py:listing_detail": 28,
    },
    "the options of a command": {"cli/machine/run.py:run": 21, "cli/diagnose/sass.py:sass": 22},
}
"""Why -> function -> its complexity, which must not grow."""


def modules() -> dict[str, Path]:
    out = {}
    for path in sorted((ROOT / "kscope").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(known: Mapping[str, Path]) -> dict[str, set[str]]:
    """Module -> modules of kscope that it names in any import."""
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                graph[name] |= {one.name for one in node.names if one.name in known}
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert not node.level, f"{path}: imports are absolute"
                for one in node.names:
                    inner = f"{node.module}.{one.name}"
                    graph[name] |= {inner if inner in known else node.module} & known.keys()
        graph[name].discard(name)
    return graph


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one node (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            part = sorted(stack[at:])
            del stack[at:]
            if len(part) > 1:
                found.append(part)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def room(name: str, known: Mapping[str, Path]) -> str:
    """The package of a module; of those beside kscope's packages, the module."""
    if known[name].name == "__init__.py" or name.count(".") == 1:
        return name
    return name.rpartition(".")[0]


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """`kscope/cli/machine/run.py:run` and its node, nested ones too."""
    for path in modules().values():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT).as_posix()}:{node.name}", node


def complexity(node: ast.AST) -> int:
    """Ways through a function: 1, and 1 for each branch, loop, handler, condition of a comprehension, `and` and `or`
    (McCabe's number of conditions, 1976; ruff's C901 counts statements alone). A function inside counts for itself."""
    count = 1
    todo: list[ast.AST] = list(ast.iter_child_nodes(node))
    while todo:
        one = todo.pop()
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(one, ast.If | ast.IfExp | ast.For | ast.While | ast.ExceptHandler | ast.match_case):
            count += 1
        elif isinstance(one, ast.BoolOp):
            count += len(one.values) - 1
        elif isinstance(one, ast.comprehension):
            count += 1 + len(one.ifs)
        todo += ast.iter_child_nodes(one)
    return count


def same(found: Iterable[str], listed: Iterable[str]) -> None:
    seen, known = set(found), set(listed)
    new, gone = seen - known, known - seen
    assert not new, "to be mended"
    assert not gone, "mended: take it off the list"


def test_no_module_imports_itself_by_others() -> None:
    same((" ".join(part) for part in circles(imports(modules()))), CIRCLES)


def test_no_room_imports_itself_by_others() -> None:
    known = modules()
    rooms: dict[str, set[str]] = {}
    for name, others in imports(known).items():
        here = room(name, known)
        rooms.setdefault(here, set()).update({room(one, known) for one in others} - {here})
    assert circles(rooms) == []


def test_no_room_is_crowded() -> None:
    known = modules()
    count: dict[str, int] = {}
    for name, path in known.items():
        if path.name != "__init__.py":
            count[room(name, known)] = count.get(room(name, known), 0) + 1
    same((name for name, n in count.items() if n > MODULES), CROWDED)


def test_modules_are_short() -> None:
    lengths = {p.relative_to(ROOT).as_posix(): len(p.read_text("utf-8").splitlines()) for p in modules().values()}
    same((name for name, n in lengths.items() if n > LINES), LONG)


def test_functions_are_short() -> None:
    same((name for name, node in functions() if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION), LENGTHY)


def test_functions_are_simple() -> None:
    found = {name: n for name, node in functions() if (n := complexity(node)) > COMPLEXITY}
    listed = {f"kscope/{name}": n for part in TANGLED.values() for name, n in part.items()}
    assert {name: n for name, n in found.items() if n > listed.get(name, 0)} == {}, "to be taken apart"
    assert listed.keys() <= found.keys(), "taken apart: take it off the list"


@pytest.mark.parametrize(
    ("source", "ways"),
    [
        ("def f(): pass", 1),
        ("def f(a):\n if a: pass\n elif b: pass\n else: pass", 3),
        ("def f(a): return a and b or c", 3),
        ("def f(a): return [x for x in a if x if y]", 4),
        ("def f():\n for a in b:\n  while c: pass\n try: pass\n except E: pass\n except F: pass", 5),
        ("def f(a):\n def g():\n  if a: pass\n return g", 1),
        ("def f(a):\n match a:\n  case 1: pass\n  case _: pass", 3),
    ],
)
def test_complexity_counts_conditions(source: str, ways: int) -> None:
    assert complexity(ast.parse(source).body[0]) == ways


def test_circles_are_seen() -> None:
    assert circles({"a": "b", "b": "c", "c": "a", "d": "a"}) == [["a", "b", "c"]]
    assert circles({"a": "bc", "b": "c", "c": ""}) == []
