"""What a new rule starts from: its file from a template, and its entries in the registry and in two tests.

Works on the text of a checkout and imports no rule: a rule that is half written does not stop the next one.
"""

from __future__ import annotations

import re
from pathlib import Path

from kscope.model.errors import EXIT_USAGE, KscopeError

FAMILIES = {
    "MEM": ("memory", "memory"), "CMP": ("compute", "compute"), "LAT": ("latency", "memory"),
    "GRD": ("grid", "overhead"), "ASY": ("asynchronous", "overhead"),
}  # fmt: skip
"""Folder of a family and the regime that most of its rules have."""
REGISTRY, CATALOGUE, CASES = (
    Path("kscope/rules/registry.py"), Path("tests/rules/test_docs.py"), Path("tests/rules/test_on_captures.py"),
)  # fmt: skip

# What is to be written stands as TODO in the new rule's own file; tests/rules/test_docs.py refuses a rule that still
# holds one. Nothing of the template itself is unfinished.
TEMPLATE = '''"""TODO: one sentence that says what the rule is about.

## What it does

TODO: what it looks at, and when it fires.

## Why it costs time

TODO: what the hardware does meanwhile.

## Evidence

TODO: the counters and samples that it shows.

## Fix

TODO: what to change.

Before:

    TODO(before);

After:

    TODO(after, the fix);

## In SASS

TODO: what tells the two apart.

From (capture TODO):

    TODO: lines as they stand in the capture

## When it is wrong

TODO: what looks the same and is none.

## Source

TODO: guide and section, paper, or the captures that show it.
"""

from __future__ import annotations

from kscope.features.facts import {imports}
from kscope.rules.base import PASSED, {bases}, derived, percent

LEAST = 0.1  # share of the samples, below which the rule says nothing. TODO: measured or judged on what?


class {name}({base}):
    code = "{code}"
    slug = "{slug}"
    title = "TODO: the fault as a title"
    regime = "{regime}"
    {needs}

    def check(self, {arguments}) -> Outcome:
{body}
        if share < LEAST:
            return PASSED
        return self.finding(
            why=f"TODO: {{percent(share)}} of all samples wait for ...",
            fix="TODO: what to change, in a line",
            evidence=[derived("samples behind them", share, "", "share of warp samples, blamed by def-use")],{places}
            estimate=facts.estimate.relieve(share, 0.1, {scale}),
            confidence=0.5,
        )
'''
PROFILED = {
    "base": "ProfiledRule", "bases": "Outcome, ProfiledRule", "imports": "Code, Facts",
    "arguments": "facts: Facts, code: Code",
    "needs": "needs_samples = True",
    "body": """\
        members = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))  # TODO
        share = code.blamed_share(members)""",
    "places": "\n            locations=code.locations(members),",
    "scale": "facts.profile.demands_after(members, 0.1)",
}  # fmt: skip
COUNTERS = {
    "base": "CounterRule", "bases": "CounterRule, Outcome", "imports": "Facts", "arguments": "facts: Facts",
    "needs": 'collect = "--section WarpStateStats"',
    "body": '        share = facts.counters.stalls.of("long_scoreboard")  # TODO',
    "places": "",
    "scale": "{}",
}  # fmt: skip


def plan(root: Path, code: str, slug: str, *, counters: bool) -> dict[Path, str]:
    """Path -> new text of each file of the checkout at `root` that the rule needs. Raises KscopeError (usage) where
    that is no checkout, or the code or name is malformed or taken."""
    texts = {path: _read(root / path) for path in (REGISTRY, CATALOGUE, CASES)}
    folder, regime = _family(code)
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", slug):
        raise _refused(f"{slug!r} is no name of a rule", "lower-case words joined by hyphens, such as streaming-stores")
    listed = dict(re.findall(r'"([A-Z]{3}\d{3})": "([a-z0-9-]+)"', texts[CATALOGUE]))
    if code in listed:
        raise _refused(f"{code} is taken by {listed[code]}", f"the next free code is {_free(code, listed)}")
    if slug in listed.values():
        raise _refused(f"a rule is called {slug} already", "choose another name")
    module = slug.replace("-", "_")
    path = root / "kscope/rules" / folder / f"{module}.py"
    if path.exists():
        raise _refused(f"{path} exists", "remove it, or choose another name")
    parts = COUNTERS if counters else PROFILED
    name = "".join(word.capitalize() for word in slug.split("-"))
    return {
        path: TEMPLATE.format(code=code, slug=slug, name=name, regime=regime, **parts),
        root / REGISTRY: _behind_last(texts[REGISTRY], rf'    "{folder}\.\w+",\n', f'    "{folder}.{module}",\n'),
        root / CATALOGUE: _behind_last(
            texts[CATALOGUE], rf'    "{code[:3]}\d{{3}}": "[a-z0-9-]+",\n', f'    "{code}": "{slug}",\n'
        ),
        root / CASES: _case(texts[CASES], code),
    }


def todo(code: str) -> str:
    """What is left to do by hand, as lines."""
    return (
        f"next: fill in each TODO of the rule; name captures in the entry of {code} in {CASES};\n"
        "then make names, make golden, make rulebook, make test (CONTRIBUTING.md)"
    )


def _family(code: str) -> tuple[str, str]:
    if code.startswith("OVH"):
        raise _refused(
            f"{code}: rules on timelines have no template", "copy kscope/rules/overhead/gpu_idle.py (CONTRIBUTING.md)"
        )
    if not re.fullmatch(r"[A-Z]{3}\d{3}", code) or code[:3] not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise _refused(f"{code!r} is no code of a rule", f"one of {known} and three digits, such as MEM118")
    return FAMILIES[code[:3]]


def _free(code: str, listed: dict[str, str]) -> str:
    return f"{code[:3]}{max(int(c[3:]) for c in listed if c[:3] == code[:3]) + 1}"


def _behind_last(text: str, line: str, new: str) -> str:
    """The text with a line behind the last one that matches."""
    *_, last = re.finditer(line, text)
    return text[: last.end()] + new + text[last.end() :]


def _case(text: str, code: str) -> str:
    """The captures' test with an entry for the rule behind those of its family; it fails until captures are named."""
    start = text.index("CASES = {\n")
    end = text.index("\n}\n", start) + 1
    keys = list(re.finditer(r'^    "([A-Z]{3})\d{3}": On\(', text[start:end], re.MULTILINE))
    mine = [n for n, key in enumerate(keys) if key[1] == code[:3]]
    follows = mine[-1] + 1 if mine else len(keys)
    at = start + keys[follows].start() if follows < len(keys) else end
    entry = f'    "{code}": On((), ()),  # TODO: captures where it fires, and three where it promises nothing\n'
    return text[:at] + entry + text[at:]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _refused(
            f"no checkout of kscope: {path} cannot be read", "run this in one, or name it with --root"
        ) from error


def _refused(message: str, hint: str) -> KscopeError:
    return KscopeError("new-rule", message, hint, EXIT_USAGE)
