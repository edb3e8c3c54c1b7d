"""Every tool, asked by the SDK's own client: answers, schemas, pages, keys, and what hostile arguments get."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from kscope.mcp.catalogue import TOOLS
from kscope.mcp.pages import BUDGET, LARGEST
from kscope.mcp.tools import RUN
from tests.mcp.serving import Session, running, serving
from tests.support import patches, sass, thorough, traces
from tests.support.reports import fixture, join_reports

SLOW, FAST, STATS, FEW = "slow.ncu-rep.xz", "fast.ncu-rep.xz", "row_stats.ncu-rep.xz", "few.ncu-rep.xz"
BINARY, TRACE = "arithmetic.cubin.xz", "item_loop.json.xz"
OUTSIDE = "outside the folders of this server"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of a kernel, one kernel with all sections and with few, machine code, a timeline; beside it, what
    must not be read."""
    base = tmp_path_factory.mktemp("served")
    root, outside = base / "root", base / "outside"
    root.mkdir()
    outside.mkdir()
    for name, source in {
        SLOW: fixture("bank_conflict.slow"), FAST: fixture("bank_conflict.fast"), STATS: fixture("row_stats.thread"),
        FEW: patches.report("sections/sol.row_stats.thread/report"),
        BINARY: sass.path("arithmetic.cu", "sm_90a"), TRACE: traces.path("item_loop"),
    }.items():  # fmt: skip
        shutil.copy(source, root / name)
    shutil.copy(fixture("exp_chain.base"), outside / "secret.ncu-rep.xz")
    (root / "link.ncu-rep.xz").symlink_to(outside / "secret.ncu-rep.xz")
    (root / "linked").symlink_to(outside)
    (root / "loop.ncu-rep").symlink_to("loop.ncu-rep")
    (root / "inside.ncu-rep.xz").symlink_to(SLOW)
    (root / "empty.ncu-rep").touch()
    (root / "text.ncu-rep").write_text("no report\n")
    (root / "cut.ncu-rep.xz").write_bytes((root / SLOW).read_bytes()[:5000])
    os.mkfifo(root / "pipe.ncu-rep")
    return root


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with serving(folder) as one:
        yield one


def key_of(session: Session, path: str) -> str:
    (row,) = session.ask("diagnose", path=path)["kernels"]
    return str(row["key"])


CALLS = {
    "list_inputs": {}, "diagnose": {"path": SLOW}, "checklist": {"path": SLOW}, "code": {"path": SLOW},
    "metrics": {"path": SLOW, "contains": "bank conflicts"}, "explain": {"code": "MEM103"},
    "compare": {"before": SLOW, "after": FAST}, "napkin": {"problem": "gemm 4096 4096 4096 bf16", "measured": "400us"},
    "propose_fix": {"path": SLOW}, "check_fix": {"before": SLOW, "after": FAST},
}  # fmt: skip


def test_tools_say_what_they_take_and_answer(session: Session) -> None:
    tools = session.wait(session.client.list_tools()).tools
    assert 7 <= len(tools) <= 10 and [t.name for t in tools] == [t.name for t in TOOLS]
    assert set(RUN) == set(CALLS) == {t.name for t in TOOLS}
    for tool in tools:
        assert tool.annotations is not None and tool.annotations.read_only_hint is True
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None and schema["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(schema)
        assert tool.input_schema["additionalProperties"] is False


@pytest.mark.parametrize("name", CALLS)
def test_every_answer_is_of_its_schema(name: str, session: Session) -> None:
    arguments = dict(CALLS[name])
    if name in ("checklist", "code", "metrics"):
        arguments["key"] = key_of(session, SLOW)
    schema = next(t for t in session.wait(session.client.list_tools()).tools if t.name == name).output_schema
    result = session.call(name, **arguments)
    assert not result.is_error
    jsonschema.Draft202012Validator(schema).validate(result.structured_content)
    text = result.content[0].text  # type: ignore[union-attr]
    assert json.loads(text) == result.structured_content and len(text) <= LARGEST


def test_what_an_agent_needs_is_there(session: Session) -> None:
    row = session.ask("diagnose", path=SLOW)["kernels"][0]
    assert row["next"]["do"] == "go_on" and row["next"]["code"] == "MEM103"
    assert row["findings"][0]["key"].startswith("MEM103@0x")
    whole = session.ask("diagnose", path=SLOW, key=row["key"])
    assert whole["kernels"] == [] and whole["kernel"]["finding_keys"][0] == row["findings"][0]["key"]
    assert whole["kernel"]["kernel"]["findings"][0]["evidence"] and whole["total"] == 1
    place = row["findings"][0]["key"].partition("@")[2]
    rows = session.ask("code", path=SLOW, key=row["key"], around=place, limit=8)["rows"]
    (here,) = [r for r in rows if r["row"] == place]
    assert "MEM103" in here["findings"] and "LDS" in here["sass"] and "threadIdx" in here["source"]
    hottest = session.ask("code", path=SLOW, key=row["key"], hottest=True, limit=3)["rows"]
    assert len(hottest) == 3 and sum(r["share"] for r in hottest) > 0.3
    (pair,) = session.ask("compare", before=SLOW, after=FAST)["pairs"]
    assert "MEM103" in pair["fixed"] and pair["promises"][0]["outcome"] == "inside"
    assert session.ask("metrics", path=SLOW, key=row["key"], contains="dram__bytes_read.sum")["total"] >= 1


def test_changes_are_proposed_and_looked_for(session: Session) -> None:
    key = key_of(session, SLOW)
    found = session.ask("propose_fix", path=SLOW, key=key, code="MEM103")
    first = found["rows"][0]
    assert first["kernel"] == key and first["code"] == "MEM103" and first["refused"] == ""
    assert first["lines"] and all(line[:1] in "+-@" for line in first["lines"]) and first["price"]["speedup"] > 1.5
    assert any(line[:3] in ("+  ", "-  ") for line in first["lines"]), "indented, as it is to be pasted"
    (row,) = first["proof"][:1]
    assert row["after"] < row["before"] and {c["state"] for c in first["conditions"]} <= {"proved", "assumed", "check"}
    (checked,) = session.ask("check_fix", before=SLOW, after=FAST, code="MEM103")["rows"]
    assert checked["has"] == "yes" and checked["kept"] is True and checked["delivered"] > 1.5
    (same,) = session.ask("check_fix", before=SLOW, after=SLOW, code="MEM103")["rows"]
    assert same["has"] == "no"
    none = session.ask("propose_fix", path=FAST)
    assert none["rows"] == [] and "no finding here" in none["absent"][0]["what"]
    assert session.ask("propose_fix", path=BINARY, key="split_divide")["total"] >= 0
    assert "no function" in session.refused("propose_fix", path=BINARY, key="nobody")


LOG = "log/worklog.db"


@pytest.fixture(scope="module")
def kept(folder: Path) -> Path:
    """A worklog below the folders: the slow version, then the fast one."""
    from kscope.worklog.adding import Given, add
    from kscope.worklog.store import Worklog

    log = Worklog(folder / LOG)
    first = add(log, folder / SLOW, Given(message="as it was"), None)
    add(log, folder / FAST, Given(message="padded"), first)
    return folder / LOG


def test_what_can_be_tried(session: Session, kept: Path) -> None:
    key = key_of(session, SLOW)
    first = session.ask("checklist", path=SLOW, key=key)
    by_state: dict[str, list[dict[str, object]]] = {}
    for row in first["rows"]:
        by_state.setdefault(row["state"], []).append(row)
    (shared,) = [r for r in by_state["applicable"] if r["gain"] and r["gain"]["code"] == "MEM103"]
    assert shared["gain"]["speedup"] > 2 and first["limiter"] == session.ask("diagnose", path=SLOW, key=key)["kernel"][
        "kernel"]["verdict"]["limiter"]  # fmt: skip
    assert by_state["not yet"] and all(row["why"] for row in first["rows"])
    assert first["version"] is None and "worklog" in first["absent"][0]["what"]
    assert first["rows"] == [*by_state["applicable"], *(r for r in first["rows"] if r["state"] != "applicable")]
    # of the version after it, with what the worklog knows
    before = sorted(path.name for path in kept.parent.iterdir())
    after = session.ask("checklist", path=FAST, key=key_of(session, FAST), worklog=LOG)
    assert after["version"] == 2 and after["absent"] == []
    tried = {r["opportunity"]: r for r in after["rows"] if r["tried"]}
    assert tried[shared["opportunity"]]["tried"][0]["version"] == 2
    assert tried[shared["opportunity"]]["tried"][0]["speedup"] > 1.5
    assert sorted(path.name for path in kept.parent.iterdir()) == before, "nothing is written beside it"
    assert session.ask("checklist", path=STATS, key=key_of(session, STATS), worklog=LOG)["version"] is None


@pytest.mark.parametrize(
    ("worklog", "why"),
    [("../outside/w.db", OUTSIDE), ("/etc/passwd", OUTSIDE), ("text.ncu-rep", "not a database"), (SLOW, ""),
     ("no.db", "no such file"), ("pipe.ncu-rep", "a pipe"), ("empty.ncu-rep", "")],
)  # fmt: skip
def test_worklogs(worklog: str, why: str, session: Session) -> None:
    assert why in session.refused("checklist", path=SLOW, key=key_of(session, SLOW), worklog=worklog)


def test_machine_code_and_timelines(session: Session) -> None:
    found = session.ask("diagnose", path=BINARY, name="split_divide")
    (function,) = found["functions"]
    assert function["findings"][0]["code"] == "CMP205" and "nobody ran" in found["absent"][0]["what"]
    listing = session.ask("code", path=BINARY, key=function["key"], limit=5)
    assert listing["rows"][0]["share"] is None and "ncu --set full" in listing["absent"][0]["what"]
    (timeline,) = session.ask("diagnose", path=TRACE)["timelines"]
    assert timeline["verdict"]["regime"] == "overhead"
    assert "counters of single kernels" in session.ask("diagnose", path=TRACE)["absent"][-1]["what"]
    assert "no metrics" in session.refused("metrics", path=TRACE, key="x")


def test_keys_hold_in_another_capture_of_the_same_code(session: Session) -> None:
    full, few = session.ask("diagnose", path=STATS), session.ask("diagnose", path=FEW)
    key = full["kernels"][0]["key"]
    assert few["kernels"][0]["key"] == key and session.ask("diagnose", path=FEW, key=key)["kernel"]["key"] == key
    part = session.ask("diagnose", path=FEW, key=key.partition("@")[0])
    assert part["kernel"]["key"] == key, "the name alone, where it is one"


def test_what_was_not_collected_is_said(session: Session) -> None:
    few = session.ask("diagnose", path=FEW)
    assert few["absent"] and all("--se" in one["what"] for one in few["absent"])
    none = session.ask("metrics", path=SLOW, key=key_of(session, SLOW), contains="no such metric")
    assert none["rows"] == [] and "not collected" in none["absent"][0]["what"]
    assert "no machine code" in session.refused("code", path=FEW, key=key_of(session, FEW))


def test_pages_together_are_the_whole(session: Session) -> None:
    key = key_of(session, SLOW)
    whole = session.ask("code", path=SLOW, key=key, limit=200)
    rows, offset, pages = [], 0, 0
    while offset is not None:
        page = session.ask("code", path=SLOW, key=key, offset=offset, limit=17)
        rows, offset, pages = rows + page["rows"], page["next_offset"], pages + 1
    assert pages > 2 and len(rows) == whole["total"] and rows[: len(whole["rows"])] == whole["rows"]
    behind = session.ask("code", path=SLOW, key=key, offset=10**8)
    assert behind["rows"] == [] and behind["next_offset"] is None and behind["total"] == whole["total"]


def test_resources_are_the_rules_and_the_skill(session: Session) -> None:
    found = session.wait(session.client.list_resources()).resources
    assert "kscope://skill" in {str(r.uri) for r in found} and len(found) > 40
    for uri, words in (("kscope://rules/MEM103", "bank"), ("kscope://skill", "When to stop")):
        (content,) = session.wait(session.client.read_resource(uri)).contents
        assert words in content.text  # type: ignore[union-attr]
    for uri in ("kscope://rules/NOPE", "kscope://rules/../../etc/passwd", "file:///etc/passwd"):
        with pytest.raises(Exception, match=r"no resource|no rule"):
            session.wait(session.client.read_resource(uri))


def test_only_what_may_be_read_is_listed(session: Session) -> None:
    names = {Path(row["path"]).name for row in session.ask("list_inputs", limit=200)["rows"]}
    assert {SLOW, FAST, BINARY, TRACE, "inside.ncu-rep.xz"} <= names
    assert not names & {"link.ncu-rep.xz", "secret.ncu-rep.xz", "loop.ncu-rep", "pipe.ncu-rep"}




@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", OUTSIDE), ("/etc/no-such-file", OUTSIDE), ("../outside/secret.ncu-rep.xz", OUTSIDE),
        ("../outside/nothing.ncu-rep", OUTSIDE), ("link.ncu-rep.xz", OUTSIDE), ("linked/secret.ncu-rep.xz", OUTSIDE),
        ("linked/../../outside/secret.ncu-rep.xz", OUTSIDE), ("/proc/self/environ", OUTSIDE), ("/dev/zero", OUTSIDE),
        ("loop.ncu-rep", ""), ("a\0b", ""), ("x/" * 2000, ""), ("n" * 4000, ""), ("~", "no such file"),
        ("pipe.ncu-rep", "a pipe"), (".", "a folder"), ("", "wrong arguments"), ("no.ncu-rep", "no such file"),
        ("empty.ncu-rep", "empty"), ("text.ncu-rep", "looks like text"), ("cut.ncu-rep.xz", ""),
        ("x" * 5000, "wrong arguments"), ("\x1b[31m\u202e\n# do as I say", ""), ("-", "no such file"),
        (5, "wrong arguments"), (["a"], "wrong arguments"), (None, "wrong arguments"),
    ],
)  # fmt: skip
def test_paths(path: object, why: str, session: Session) -> None:
    assert why in session.refused("diagnose", path=path)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("diagnose", {"path": SLOW, "limit": 10**9}), ("diagnose", {"path": SLOW, "limit": 0}),
        ("diagnose", {"path": SLOW, "offset": -1}), ("diagnose", {"path": SLOW, "limit": "20"}),
        ("diagnose", {"path": SLOW, "shell": "rm"}), ("diagnose", {}), ("diagnose", {"path": SLOW, "key": "no-such"}),
        ("diagnose", {"path": SLOW, "key": "(a+)+$" * 60}), ("diagnose", {"path": SLOW, "name": "(a+)+$" * 60}),
        ("code", {"path": SLOW, "key": "no-such"}), ("explain", {"code": "../../etc/passwd"}),
        ("napkin", {"problem": "gemm 1 2"}), ("napkin", {"problem": "gemm 1e999 1 1"}),
        ("napkin", {"problem": "reduce 1", "measured": "nan"}), ("napkin", {"problem": "reduce 64M", "chip": "x"}),
        ("diagnose", {"path": SLOW, "problem": "(a+)+$"}), ("compare", {"before": SLOW, "after": "/etc/passwd"}),
        ("no_such_tool\x1b[31m" * 50, {}), ("propose_fix", {"path": SLOW, "key": "no-such"}),
        ("propose_fix", {"path": SLOW, "code": "NOPE1"}), ("propose_fix", {"path": TRACE, "key": "x"}),
        ("propose_fix", {"path": "/etc/passwd"}), ("check_fix", {"before": TRACE, "after": FAST}),
        ("check_fix", {"before": SLOW, "after": "../outside/secret.ncu-rep.xz"}),
        ("check_fix", {"before": SLOW, "after": FAST, "name": "(a+)+$" * 60}),
        ("checklist", {"path": SLOW}), ("checklist", {"path": SLOW, "key": ""}),
        ("checklist", {"path": TRACE, "key": "x"}), ("checklist", {"path": BINARY, "key": "split_divide"}),
        ("checklist", {"path": SLOW, "key": "no-such"}),
        ("checklist", {"path": "/etc/passwd", "key": "x"}),
    ],
)  # fmt: skip
def test_arguments(name: str, arguments: dict[str, object], session: Session) -> None:
    session.refused(name, **arguments)


@pytest.mark.parametrize("around", ["zz", "0x" + "f" * 18, "-5", ""])
def test_rows(around: str, session: Session) -> None:
    key = key_of(session, SLOW)
    if around:
        session.refused("code", path=SLOW, key=key, around=around)
    else:
        assert session.ask("code", path=SLOW, key=key, around=around)["rows"]


def test_a_hundred_calls_at_once(session: Session) -> None:
    """Answers do not get mixed up, and a call that is given up leaves the others theirs."""
    key = key_of(session, SLOW)
    rows = session.ask("code", path=SLOW, key=key, limit=100)["rows"]

    async def one(n: int) -> bool:
        if n % 4 == 0:
            result = await session.client.call_tool("explain", {"code": ("MEM101", "MEM103")[n // 4 % 2]})
            return bool(result.structured_content["code"] == ("MEM101", "MEM103")[n // 4 % 2])
        if n % 4 == 1:
            return bool((await session.client.call_tool("diagnose", {"path": f"/etc/{n}"})).is_error)
        if n % 4 == 2:
            result = await session.client.call_tool("code", {"path": SLOW, "key": key, "offset": n % 20, "limit": 1})
            return bool(result.structured_content["rows"] == [rows[n % 20]])
        with pytest.raises(Exception, match=r"[Tt]imed out|timeout"):
            await session.client.call_tool("metrics", {"path": SLOW, "key": key}, read_timeout_seconds=0.001)
        return True

    async def every() -> list[bool]:
        return await asyncio.gather(*(one(n) for n in range(100)))

    assert all(session.wait(every()))
    assert session.ask("explain", code="MEM103")["code"] == "MEM103"


@thorough.only
def test_a_large_report_stays_within_its_caps(folder: Path, report: Callable[[str], Path]) -> None:
    """Forty kernels, and one page of them."""
    cases = ("bank_conflict.slow", "exp_chain.base", "launch_bound.tiny", "spill.fast")
    many = [report(cases[i % 4]) for i in range(40)]
    (folder.parent / "large").mkdir()
    size = join_reports(many, folder.parent / "large" / "many.ncu-rep")
    assert size > 10 << 20
    with serving(folder.parent / "large") as session:
        result = session.call("diagnose", path="many.ncu-rep", limit=200)
        assert not result.is_error and len(result.content[0].text) < BUDGET + 20_000  # type: ignore[union-attr]
        found = result.structured_content
        assert found["total"] == 4 and {k["launches"] for k in found["kernels"]} == {10}, "identical launches are one"


@pytest.mark.slow
@thorough.only
def test_a_report_of_140_mb_stays_within_its_caps(folder: Path) -> None:
    """Every tool that reads it, asked for as much as it gives."""
    from tests.support.reports import plain

    names = ("spill.slow", "bank_conflict.slow", "local_array.slow", "uncoalesced.slow")  # of one program
    size = sum(len(plain(name)) for name in names)
    many = [fixture(names[i % len(names)]) for i in range(len(names) * -(-140_000_000 // size))]
    (folder.parent / "huge").mkdir()
    assert join_reports(many, folder.parent / "huge" / "huge.ncu-rep") >= 140_000_000
    with serving(folder.parent / "huge") as session:
        found = session.ask("diagnose", path="huge.ncu-rep", limit=200)
        assert found["total"] == len(names) and sum(k["launches"] for k in found["kernels"]) == len(many)
        keys = [row["key"] for row in found["kernels"]]
        for key, tool in zip(keys, ("diagnose", "code", "metrics", "propose_fix"), strict=True):  # each reads it all
            most = {} if tool == "diagnose" else {"limit": 200}
            result = session.call(tool, path="huge.ncu-rep", key=key, **most)
            assert not result.is_error, result.content
            assert len(result.content[0].text.encode()) <= LARGEST  # type: ignore[union-attr]


def test_print_config_starts_a_server(folder: Path) -> None:
    from tests.cli.running import kscope

    done = kscope("mcp", folder, "--print-config")
    assert done.returncode == 0, done.stderr
    entry = json.loads(done.stdout)["mcpServers"]["kscope"]
    with running([entry["command"], *entry["args"]]) as session:
        assert session.ask("explain", code="MEM103")["rule"] == "shared-bank-conflicts"
