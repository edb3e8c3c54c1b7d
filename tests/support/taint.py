"""Follows untrusted text through the reporters' source: which field of the view reaches a report unquoted, and where.

A value is the set of places in the source where a field was read that has not been quoted since. Fields are those of
the view (kscope.model): every one that holds text is untrusted unless it is listed here, so a new field is. Functions
of the reporters are followed by name through their arguments, until nothing changes; what is not known passes on all
that goes into it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, structs

from kscope.model.contract import (
    analysis,
    bounded,
    comparison,
    findings,
    fixes,
    job,
    joined,
    next_step,
    programs,
    sass_diff,
    specialization,
    timeline_analysis,
    timeline_figures,
)

_NUMBER = re.compile(r"f'.*[dfgxX%]'").fullmatch
Found = frozenset[str]
NOTHING: Found = frozenset()

OURS = {
    "after", "approach", "before", "cc", "chip", "code", "codes", "confidence", "errors", "findings", "first", "fixed",
    "gone", "kind", "kscope", "limiter", "matched_by", "new", "outcome", "overlaps", "passed", "per", "pulls", "regime",
    "remaining", "rule", "schema", "severity", "shared_with", "tier", "type", "unknown",
}  # fmt: skip
"""Identifiers that kscope itself makes, of a grammar that says nothing: codes, slugs, enumerations, chips of
arch/chips.toml. before, after: figures of a Change; those of a SassLine reach the terminal alone, where Page.line is
the guard."""

SENTENCES = {
    "abstained", "against", "body", "bounded_by", "capped_by", "cause", "chip_from", "collect", "contrast", "costs",
    "direction", "explanations", "fix", "headline",
    "holds", "limits", "next", "not_advice", "note", "notes", "order", "pipe", "precision",
    "refused", "role", "says", "sentence",
    "step", "text", "title", "unit", "verdict", "waits_for", "what", "why", "window", "words",
}  # fmt: skip
"""Words of kscope's own that may hold quoted names (kscope.model.quoted). `title` of a finding: NVIDIA's are names."""

WHOLE = {"code", "fence", "span", "quoted", "html_text", "message", "embed", "reason"}
"""Functions that make any text safe: of kscope.reports.escape and kscope.model.quoted; `span` is a bounded `code`,
`embed` deflates, `reason` takes known words from a table and quotes others."""
OF_SENTENCES = {"prose", "said"}
HARMLESS = {"len", "sum", "min", "max", "round", "any", "all", "int", "float", "bool", "isinstance", "abs", "range"}
"""Builtins whose result is a number; min and max over strings would pass, and no reporter does that."""


def fields() -> tuple[set[str], set[str]]:
    """Names of the fields of the view that hold text, and of all."""
    text: set[str] = set()
    every: set[str] = set()
    for module in (
        analysis, bounded, comparison, findings, fixes, job, joined, next_step, programs, sass_diff, specialization,
        timeline_analysis, timeline_figures,
    ):  # fmt: skip
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, Struct):
                every |= {f.name for f in structs.fields(one)}
                text |= {f.name for f in structs.fields(one) if re.search(r"\bstr\b", str(f.type))}
    return text, every


class _Function(Struct):
    node: ast.FunctionDef
    file: str
    returns: Found = NOTHING
    parameters: dict[str, Found] = {}
    closure: dict[str, Found] = {}


class Reporters:
    """The functions of some source files, and what they return."""

    def __init__(self, root: Path, files: Iterable[Path], sources: dict[str, str] | None = None) -> None:
        """`root`: the folder of kscope.reports, from which files are named; `sources`: other text for some of them."""
        text, every = fields()
        self.fields, self.others = text - OURS, every - text | OURS
        self.functions: dict[str, list[_Function]] = {}
        self.imported: dict[tuple[str, str], tuple[str, str]] = {}
        for path in files:
            file = path.relative_to(root).as_posix()
            source = (sources or {}).get(file) or path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef):
                    self.functions.setdefault(node.name, []).append(_Function(node, file))
                elif isinstance(node, ast.ImportFrom) and node.module:
                    for one in node.names:
                        origin = f"{node.module.removeprefix('kscope.reports.').replace('.', '/')}.py", one.name
                        self.imported[file, one.asname or one.name] = origin
        changed = True
        while changed:
            changed = sum(self._again(f) for group in self.functions.values() for f in group) > 0

    def _again(self, function: _Function) -> bool:
        names = {a.arg: function.parameters.get(a.arg, NOTHING) for a in _arguments(function.node)}
        body = _Body(self, function.file, {**function.closure, **names})
        found = NOTHING if _is_number(function.node.returns) else body.run(function.node.body)
        changed = found != function.returns or body.called
        function.returns = found
        return changed

    def reached(self, file: str, name: str) -> Found:
        """Fields that the function returns unquoted: `markdown/kernel.py:80 kernel.workload`."""
        return next(f.returns for f in self.functions[name] if f.file == file)


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


class _Body:
    """One walk over a function's statements, twice for what loops carry."""

    def __init__(self, every: Reporters, file: str, names: dict[str, Found]) -> None:
        self.every, self.file, self.names, self.out, self.called = every, file, names, NOTHING, False

    def run(self, body: list[ast.stmt]) -> Found:
        for _ in range(2):
            for statement in body:
                self._statement(statement)
        return self.out

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):  # followed as a function of its own
            inner = next(f for f in self.every.functions[node.name] if f.node is node)
            seen = {n: v | inner.closure.get(n, NOTHING) for n, v in self.names.items()}
            if any(v != inner.closure.get(n) for n, v in seen.items()):
                inner.closure, self.called = {**inner.closure, **seen}, True
            return
        if isinstance(node, ast.Return | ast.Expr) and node.value is not None:
            value = self.value(node.value)
            if isinstance(node, ast.Return) or isinstance(node.value, ast.Yield | ast.YieldFrom):
                self.out |= value
            elif isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
                self._bind(node.value.func.value, value, add=True)  # out.append(x)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._assign(target, node.value, add=isinstance(node, ast.AugAssign))
        else:
            self._compound(node)

    def _compound(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self._each(node.target, node.iter)
        for field in ("test", "subject"):
            if isinstance(test := getattr(node, field, None), ast.expr):
                self.value(test)  # for `:=`
        for group in ("body", "orelse", "finalbody"):
            for inner in getattr(node, group, []):
                self._statement(inner)

    def _assign(self, target: ast.expr, value: ast.expr, *, add: bool) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, part in zip(target.elts, value.elts, strict=True):
                self._assign(one, part, add=add)
        else:
            self._bind(target, self.value(value), add=add)

    def _bind(self, target: ast.expr, value: Found, *, add: bool = False) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self.names[node.id] = value | (self.names.get(node.id, NOTHING) if add else NOTHING)

    def _each(self, target: ast.expr, over: ast.expr) -> None:
        """The names of a loop: those of enumerate and zip one by one."""
        call = over.func.id if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) else ""
        if call not in ("enumerate", "zip") or not isinstance(target, ast.Tuple):
            self._bind(target, self.value(over))
            return
        assert isinstance(over, ast.Call)
        sources = over.args if call == "zip" else [ast.Constant(0), over.args[0]]
        for one, source in zip(target.elts, sources, strict=True):
            self._bind(one, self.value(source))

    def value(self, node: ast.expr | None) -> Found:
        if node is None or isinstance(node, ast.Constant | ast.Compare | ast.Lambda):
            for inner in ast.walk(node) if node is not None else ():
                if isinstance(inner, ast.NamedExpr):
                    self._bind(inner.target, self.value(inner.value))
            return NOTHING
        if isinstance(node, ast.Name):
            return self.names.get(node.id, NOTHING)
        if isinstance(node, ast.NamedExpr):
            self._bind(node.target, found := self.value(node.value))
            return found
        if isinstance(node, ast.Attribute):
            return self._field(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        spec = node.format_spec if isinstance(node, ast.FormattedValue) else None
        if spec is not None and _NUMBER(ast.unparse(spec)):
            return NOTHING  # text in such a place raises ValueError
        if isinstance(node, ast.IfExp):
            self.value(node.test)
            return self.value(node.body) | self.value(node.orelse)
        if isinstance(node, ast.Subscript):
            return self.value(node.value)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
            return self._comprehension(node)
        return self._union(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))

    def _union(self, nodes: Iterable[ast.expr]) -> Found:
        return frozenset().union(*(self.value(n) for n in nodes))

    def _field(self, node: ast.Attribute) -> Found:
        if node.attr not in self.every.fields:
            return NOTHING if node.attr in self.every.others else self.value(node.value)
        return frozenset({f"{self.file}:{node.lineno} {ast.unparse(node)}"})

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> Found:
        before = dict(self.names)
        for one in node.generators:
            self._each(one.target, one.iter)
            for test in one.ifs:
                self.value(test)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        found = self._union(parts)
        self.names = before
        return found

    def _call(self, node: ast.Call) -> Found:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [*node.args, *(k.value for k in node.keywords)]
        values = [self.value(a.value if isinstance(a, ast.Starred) else a) for a in given]
        receiver = self.value(node.func.value) if isinstance(node.func, ast.Attribute) else NOTHING
        passed = frozenset().union(receiver, *values)
        if name == "map" and node.args and isinstance(node.args[0], ast.Name):
            name = node.args[0].id  # map(code, names)
        if name in WHOLE or name in HARMLESS or (name == "escape" and isinstance(node.func, ast.Attribute)):
            return NOTHING
        if name in OF_SENTENCES:
            return frozenset(one for one in passed if not _is_sentence(one))
        found = NOTHING
        if not (meant := self._meant(name, node.func)):
            return passed
        for function in meant:
            for argument, value in self._matched(function, node):
                known = function.parameters.get(argument, NOTHING)
                if not value <= known:
                    function.parameters = {**function.parameters, argument: known | value}
                    self.called = True
            found |= function.returns
        return found

    def _meant(self, name: str, called: ast.expr) -> list[_Function]:
        """Functions that a call may mean: of the module named, of the own file, of the file imported from; a method
        of any class."""
        if isinstance(called, ast.Attribute):
            every = self.every.functions.get(name, [])
            module = self._module(called.value.id) if isinstance(called.value, ast.Name) else ""
            return [f for f in every if f.file == module] or [f for f in every if _is_method(f.node)]
        if own := [f for f in self.every.functions.get(name, []) if f.file == self.file]:
            return own
        file, name = self.every.imported.get((self.file, name), ("", name))
        return [f for f in self.every.functions.get(name, []) if f.file == file]

    def _module(self, name: str) -> str:
        """The file of a module that was imported by name: `from kscope.reports.llm import timeline as recording`."""
        package, module = self.every.imported.get((self.file, name), ("", ""))
        folder = package.removesuffix(".py") if package not in ("kscope/reports.py", "") else ""
        return f"{folder}/{module}.py".lstrip("/")

    def _matched(self, function: _Function, node: ast.Call) -> Iterator[tuple[str, Found]]:
        arguments = _arguments(function.node)
        numbers = {a.arg for a in arguments if _is_number(a.annotation)}
        names = [a.arg for a in arguments if a.arg != "self"]
        for argument, one in zip(names, node.args, strict=False):
            if argument not in numbers:
                yield argument, self.value(one)
        for keyword in node.keywords:
            if keyword.arg in names and keyword.arg not in numbers:
                yield keyword.arg, self.value(keyword.value)


def _is_number(annotation: ast.expr | None) -> bool:
    """mypy sees to it that what is annotated so is none other."""
    words = set(re.findall(r"\w+", ast.unparse(annotation))) if annotation is not None else set()
    return bool(words) and words <= {"int", "float", "bool", "None", "Sequence", "list", "tuple"}


def _is_method(node: ast.FunctionDef) -> bool:
    return [a.arg for a in _arguments(node)][:1] == ["self"]


def _is_sentence(place: str) -> bool:
    """`markdown/suggestions.py:80 finding.why`, not NVIDIA's title or message, whatever the variable is called."""
    if place.endswith("verdict.reason"):  # a Stall's reason is a name
        return True
    return place.rpartition(".")[2] in SENTENCES and not place.endswith((" n.title", " item.title"))
