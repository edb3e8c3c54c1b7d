"""`kscope log` and `kscope checklist` as commands: what they print, what they refuse, where they keep things."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kscope.worklog.store import Worklog
from tests.cli.running import CONFLICTS, FIXTURES, TRIAD, Done, kscope
from tests.support import reports
from tests.worklog.samples import after, entry

PADDED = reports.fixture("bank_conflict.fast")
TRACE = FIXTURES.parent / "traces" / "launch_bound.json.xz"
SEVERAL = reports.fixture("multi_kernels")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that is the top of a repository, as far as kscope looks."""
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    return folder


def call(home: Path, *args: str | Path) -> Done:
    return kscope(*args, cwd=home, env={"KSCOPE_STATE_DIR": str(home.parent / "state")})


def good(home: Path, *args: str | Path) -> str:
    done = call(home, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def data(home: Path, *args: str | Path) -> Any:
    return json.loads(good(home, *args, "--format", "json"))


def test_an_afternoon(home: Path) -> None:
    first = data(home, "log", "add", CONFLICTS, "-m", "a plain tile", "--flags", "-O3")
    assert (first["number"], first["message"], first["parent"]) == (1, "a plain tile", None)
    assert first["tools"]["flags"] == "-O3"
    second = data(home, "log", "add", PADDED, "-m", "a padded row")
    assert second["step"]["speedup"] > 2 and second["parent"] == first["uid"]
    assert [a["opportunity"] for a in second["attempts"]] == ["bank-conflicts"]
    slower = data(home, "log", "add", CONFLICTS, "-m", "back again")
    assert slower["status"] == "set aside" and slower["why"].startswith("slower than version 2: ")
    assert slower["why"].endswith("times the rounds of shared memory") and slower["step"]["against"]
    (home / "deeper").mkdir()
    out = good(home / "deeper", "log")  # show, from anywhere below
    assert "3 versions, 1 set aside" in out and "MEM103 promised" in out
    assert sorted(p.name for p in (home / ".kscope").iterdir()) == [".gitignore", "objects", "worklog.db"]
    assert len(list((home / ".kscope" / "objects").rglob("*.ncu-rep.zst"))) == 2  # by content


def test_spread_of_several_launches(home: Path) -> None:
    one = data(home, "log", "add", SEVERAL, "--kernel", "bias_relu")
    assert one["spread"]["count"] == 10
    assert one["spread"]["min_us"] <= one["time_us"] <= one["spread"]["max_us"]
    assert "in 10 launches" in good(home, "log", "show", "1")


def test_several_kernels_are_asked_about(home: Path) -> None:
    done = call(home, "log", "add", SEVERAL)
    assert done.returncode == 2
    assert "holds 5 kernels" in done.stderr and "--kernel REGEX chooses one" in done.stderr
    good(home, "log", "add", SEVERAL, "--kernel", "softmax")
    again = data(home, "log", "add", SEVERAL)  # the parent's name chooses
    assert again["kernel"].startswith("softmax_rows")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("log", "add", "nothing.ncu-rep"), 3, "nothing.ncu-rep: no such file"),
        (("log", "add", str(TRIAD), "--parent", "7"), 3, "no worklog"),
        (("log", "add", str(TRIAD), "--kernel", "nowhere"), 2, "no kernel matches 'nowhere'"),
        (("log", "add", str(TRIAD), "--kernel", "("), 2, "is no regular expression"),
        (("log", "add", str(TRIAD), "--try", "magic"), 2, "no opportunity 'magic'"),
        (("log", "add", str(TRIAD), "--keep", "--set-aside", "x"), 2, "exclude each other"),
        (("log", "add", str(TRACE)), 2, "not one report of Nsight Compute"),
        (("log", "show"), 3, "no worklog; kscope log add REPORT starts one"),
        (("log", "annotate", "1", "-m", "x"), 3, "no worklog"),
        (("log", "annotate", "1"), 2, "Nothing to say"),
        (("log", "export", "-o", "log.docx"), 2, "Cannot tell the format"),
        (("log", "export", "--format", "parquet"), 2, "needs -o FILE"),
        (("log", "plot", "-o", "ladder.txt"), 2, "no picture that kscope draws"),
        (("log", "import"), 2, "Name a FOLDER, or --git-notes"),
        (("log", "import", "nowhere"), 3, "nowhere: no such file"),
        (("log", "merge", "other.db"), 3, "other.db: no worklog"),
        (("log", "calibrate", "other.db"), 3, "other.db: no worklog"),
        (("checklist",), 3, "no worklog"),
        (("checklist", "--set-aside", "magic"), 3, "no worklog"),
        (("checklist", str(TRIAD), "--set-aside", "tma"), 2, "kscope log add REPORT first"),
    ],
)
def test_what_is_refused(home: Path, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = call(home, *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1 or status == 2  # usage shows the usage
    assert not (home / ".kscope").exists()  # nothing is made by what fails


def test_numbers_that_are_none(home: Path) -> None:
    Worklog(home / ".kscope" / "worklog.db").add(entry())
    for arguments in (("log", "show", "7"), ("log", "add", str(TRIAD), "--parent", "7"), ("log", "diff", "1", "7"),
                      ("checklist", "--version", "7")):  # fmt: skip
        done = call(home, *arguments)
        assert done.returncode == 2
        assert "no entry 7; there are 1 to 1" in done.stderr


def test_annotate_and_words_that_come_last(home: Path) -> None:
    log = Worklog(home / ".kscope" / "worklog.db")
    log.add(entry(message="swizle"))
    good(home, "log", "annotate", "1", "-m", "swizzle", "--note", "rows only", "--set-aside", "wrong results")
    (one,) = data(home, "log", "export")["entries"]
    assert (one["message"], one["notes"], one["status"], one["why"]) == (
        "swizzle", ["rows only"], "set aside", "wrong results",
    )  # fmt: skip
    good(home, "log", "annotate", "1", "--keep", "the test was wrong")
    assert data(home, "log", "show", "1")["entries"][0]["status"] == "kept"


def test_import_is_in_the_order_of_time_and_once(home: Path) -> None:
    folder = home / "reports"
    folder.mkdir()
    for place, (name, source) in enumerate([("b.slow", CONFLICTS), ("a.fast", PADDED)]):
        path = folder / f"{name}.ncu-rep.xz"
        shutil.copyfile(source, path)
        os.utime(path, (1_700_000_000 + place, 1_700_000_000 + place))
    (folder / "broken.ncu-rep").write_bytes(CONFLICTS.read_bytes()[:1000])
    done = call(home, "log", "import", folder)
    assert done.returncode == 0
    assert done.stdout == "2 versions added\n"
    assert "skipped" in done.stderr and "broken.ncu-rep" in done.stderr
    entries = data(home, "log", "export")["entries"]
    assert [(e["message"], e["added"][:10]) for e in entries] == [("b.slow", "2023-11-14"), ("a.fast", "2023-11-14")]
    assert entries[1]["parent"] == entries[0]["uid"]
    assert call(home, "log", "import", folder).stdout == "0 versions added\n"
    assert len(data(home, "log", "export")["entries"]) == 2


@pytest.fixture
def ladder(home: Path) -> Path:
    log = Worklog(home / ".kscope" / "worklog.db")
    first = log.add(entry(message="start"))
    second = log.add(after(first, 60.0, message="tiles", pct_of_roof=17.0))
    log.add(after(second, 80.0, message="a dead end", status="set aside", why="slower", pct_of_roof=12.0))
    log.add(after(second, 30.0, message="vectors", pct_of_roof=33.0))
    return home


def test_show_and_plot(ladder: Path) -> None:
    out = good(ladder, "log", "show")
    rows = [line.split() for line in out.splitlines()]
    assert [row[:2] for row in rows if row[:1] and row[0] in "x*1234" and "versions," not in row] == [
        ["1", "100.0"], ["2", "60.0"], ["x", "3"], ["*", "4"],
    ]  # fmt: skip
    drawn = good(ladder, "log", "plot").splitlines()
    bars = [line.count("█") + line.count("▌") / 2 for line in drawn if "|" in line]
    assert len(bars) == 4 and bars[0] < bars[2] < bars[1] < bars[3]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_plot_as_a_picture(ladder: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    call(ladder, "log", "plot", "-o", f"ladder.{suffix}")
    picture = (ladder / f"ladder.{suffix}").read_bytes()
    assert picture.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    assert call(ladder, "log", "plot", "-o", f"ladder.{suffix}").returncode == 2  # --force overwrites


def test_rows_for_a_spreadsheet(ladder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(good(ladder, "log", "export", "--format", "csv"))))
    assert [(r["version"], r["parent"], r["status"], r["time_us"]) for r in rows] == [
        ("1", "", "kept", "100.0"), ("2", "1", "kept", "60.0"), ("3", "2", "set aside", "80.0"),
        ("4", "2", "kept", "30.0"),
    ]  # fmt: skip


def test_parquet(ladder: Path) -> None:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        done = call(ladder, "log", "export", "-o", "log.parquet")
        assert done.returncode == 4
        assert "Parquet needs pyarrow; pip install 'kscope-gpu[parquet]'" in done.stderr
        return
    good(ladder, "log", "export", "-o", "log.parquet")
    rows = pq.read_table(ladder / "log.parquet").to_pylist()
    assert [(r["version"], r["time_us"]) for r in rows] == [(1, 100.0), (2, 60.0), (3, 80.0), (4, 30.0)]


def test_a_page_of_html(ladder: Path) -> None:
    good(ladder, "log", "export", "-o", "log.html")
    page = (ladder / "log.html").read_text(encoding="utf-8")
    assert page.count("<section>") == 4 and page.count("<rect") == 4 and "Set aside: slower." in page


def test_merge_and_another_place(ladder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "worklog.db"
    done = call(ladder, "log", "--worklog", other, "merge", ladder / ".kscope" / "worklog.db")
    assert done.returncode == 0
    assert "4 versions came (1, 2, 3, 4), 0 were known" in done.stderr
    assert "8 objects are not beside" in done.stderr  # the samples have none
    done = kscope("log", "show", "--format", "json", cwd=tmp_path, env={"KSCOPE_WORKLOG": str(other)})
    assert len(json.loads(done.stdout)["entries"]) == 4


def test_listed_worklogs(ladder: Path, tmp_path: Path) -> None:
    """They count wherever promises are judged; one that has gone is said and passed over."""
    mine = ladder / ".kscope" / "worklog.db"
    good(ladder, "log", "calibrate", "--remember")
    assert (tmp_path / "state" / "worklogs.txt").read_text() == f"{mine}\n"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)
    assert data(elsewhere, "log", "calibrate")["versions"] == 4
    shutil.rmtree(ladder / ".kscope")
    done = call(elsewhere, "log", "calibrate")
    assert done.returncode == 0 and "no worklog" in done.stderr and "--forget" in done.stderr
    good(elsewhere, "log", "calibrate", mine, "--forget")
    assert call(elsewhere, "log", "calibrate").stderr == ""
    Worklog(elsewhere / ".kscope" / "worklog.db").add(entry())
    done = kscope("log", "calibrate", "--remember", cwd=elsewhere, env={"KSCOPE_STATE_DIR": ""})
    assert done.returncode == 2 and "the folder of state is turned off" in done.stderr


def test_a_checklist_without_a_worklog(home: Path) -> None:
    out = good(home, "checklist", CONFLICTS)
    assert "Applicable now" in out and "\n  bank-conflicts   an hour" in out
    assert not (home / ".kscope").exists()
    boxes = good(home, "checklist", CONFLICTS, "--export", "md").count("\n- [ ]")
    assert boxes == len(data(home, "checklist", CONFLICTS)["items"])


def test_reopened(home: Path) -> None:
    good(home, "log", "add", CONFLICTS)
    good(home, "checklist", "--set-aside", "MEM103", "--why", "later")
    found = {i["opportunity"]: i for i in data(home, "checklist")["items"]}
    assert found["bank-conflicts"]["state"] == "set aside" and "(later)" in found["bank-conflicts"]["why"]
    good(home, "checklist", "--reopen", "bank-conflicts")
    first = data(home, "checklist")["items"][0]
    assert (first["opportunity"], first["state"]) == ("bank-conflicts", "applicable")


def test_what_the_user_says_was_tried(home: Path) -> None:
    good(home, "log", "add", CONFLICTS)
    good(home, "checklist", "--tried", "less-work", "--why", "by hand")
    (item,) = [i for i in data(home, "checklist")["items"] if i["opportunity"] == "less-work"]
    assert (item["state"], item["tried"][0]["how"]) == ("tried", "told: by hand")


def test_a_parent_without_its_report(home: Path) -> None:
    """As git notes and merges without objects leave it."""
    Worklog(home / ".kscope" / "worklog.db").add(entry(time_us=1000.0))
    one = data(home, "log", "add", PADDED)
    assert one["step"]["sentence"] == "compared by time alone: the parent's report is not here"
    assert one["step"]["speedup"] == pytest.approx(1000.0 / one["time_us"])
    for arguments in (("log", "diff", "1", "2"), ("checklist", "--version", "1")):
        done = call(home, *arguments)
        assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr
    assert "no code is known" in good(home, "log", "diff", "1", "2", "--code")
    assert "compared by time alone" in good(home, "log", "show", "2")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_worklog_of_another_user_must_be_named(home: Path) -> None:
    path = home / ".kscope" / "worklog.db"
    Worklog(path).add(entry())
    os.chown(path, 65534, 65534)
    done = call(home, "log", "show")
    assert (done.returncode, done.stdout) == (2, "")
    assert "belongs to another user; name it with --worklog" in done.stderr
    good(home, "log", "--worklog", path, "show")
