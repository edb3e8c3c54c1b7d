"""The house: what imports what, and how large its parts are, read from the source. Imports inside functions and those
for the type checker alone count like all others: a circle that they hide is a circle.

A room is a package. The modules beside the packages of kscope itself (`_version` below everything, the package's front
above) are rooms of their own. Nothing is excepted. Which of two rooms may look at the
other is said once, by the contracts in pyproject.toml, which import-linter holds too."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES, LINES, FUNCTION, COMPLEXITY = 20, 300, 60, 20


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


@cache
def graph() -> dict[str, set[str]]:
    return imports(modules())


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


def orders() -> dict[str, list[list[str]]]:
    """Container -> its rooms, floor by floor, the highest first; names with their package."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    out = {}
    for contract in contracts:
        if contract["type"] == "layers":
            container = (contract.get("containers") or [""])[0]
            before = f"{container}." if container else ""
            floors = [[before + name.strip() for name in floor.split("|")] for floor in contract["layers"]]
            out[container or contract["name"]] = floors
    return out


def upward(graph: Mapping[str, Iterable[str]], floors: list[list[str]]) -> list[tuple[str, str]]:
    """Imports of what lies higher, or beside on the same floor."""
    height = {name: -number for number, floor in enumerate(floors) for name in floor}

    def of(module: str) -> str | None:
        return next((name for name in height if module == name or module.startswith(f"{name}.")), None)

    found = []
    for module, others in graph.items():
        here = of(module)
        for other in others:
            there = of(other)
            if here is not None and there is not None and here != there and height[there] >= height[here]:
                found.append((module, other))
    return sorted(found)


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


def test_no_module_imports_itself_by_others() -> None:
    assert circles(graph()) == []


def test_no_room_imports_itself_by_others() -> None:
    known = modules()
    rooms: dict[str, set[str]] = {}
    for name, others in graph().items():
        here = room(name, known)
        rooms.setdefault(here, set()).update({room(one, known) for one in others} - {here})
    assert circles(rooms) == []


def test_no_import_points_up() -> None:
    assert {name: found for name, floors in orders().items() if (found := upward(graph(), floors))} == {}


def test_every_room_has_a_floor() -> None:
    known = modules()
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    ordered = orders()
    missing = []
    for name in sorted(packages - {"kscope.rules"}):  # rules are independent of each other
        rooms = {one for one in packages if one.rpartition(".")[0] == name}
        if len(rooms) > 1:
            missing += sorted(rooms - {one for floor in ordered.get(name, []) for one in floor})
    assert missing == []


def test_no_room_is_crowded() -> None:
    known = modules()
    count: dict[str, int] = {}
    for name, path in known.items():
        if path.name != "__init__.py":
            count[room(name, known)] = count.get(room(name, known), 0) + 1
    assert {name: n for name, n in count.items() if n > MODULES} == {}


def test_modules_are_short() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert {name: n for name, n in lengths.items() if n > LINES} == {}


def test_functions_are_short() -> None:
    lengths = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node in functions()}
    assert {name: n for name, n in lengths.items() if n > FUNCTION} == {}


def test_functions_are_simple() -> None:
    assert {name: n for name, node in functions() if (n := complexity(node)) > COMPLEXITY} == {}, "to be taken apart"


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


def test_upward_imports_are_seen() -> None:
    graph = {"a.x": {"b.y", "c.z"}, "b.y": {"a.x"}, "c.z": {"d.w"}, "d.w": set()}
    assert upward(graph, [["a"], ["b"], ["c", "d"]]) == [("b.y", "a.x"), ("c.z", "d.w")]


def test_circles_are_seen() -> None:
    assert circles({"a": "b", "b": "c", "c": "a", "d": "a"}) == [["a", "b", "c"]]
    assert circles({"a": "bc", "b": "c", "c": ""}) == []


def test_no_name_is_left_that_nothing_uses() -> None:
    """Functions and constants of modules, by name alone: who is named anywhere else, in code or in a short string such
    as a table of makers, is used. Rules are found by their folder."""
    used: set[str] = set()
    files = [*modules().values(), *(p for room in ("tests", "tools") for p in (ROOT / room).rglob("*.py"))]
    for node in (node for path in files for node in ast.walk(tree(path))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            used |= {one.name for one in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            used |= set(re.findall(r"\w+", node.value))
    left = [f"{name}.{one}" for name, path in modules().items() if not name.startswith("kscope.rules.")
            for one in _made(tree(path)) if one not in used and not one.startswith("__")]  # fmt: skip
    assert not left, left


def _made(module: ast.Module) -> Iterator[str]:
    """Names at the top of a module; not those that a decorator registers, nor parts of what is unpacked."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list:
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
