"""What is on the site and where: pages of the repository by their path, and pages that are made from the code."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Navigation = list[tuple[str, "str | Navigation"]]
"""(title, page of the site) or (title, pages)."""


def _family(code: str) -> Navigation:
    """The rules of a family, by code."""
    return [(path.stem, f"rules/{path.name}") for path in sorted((ROOT / "rules").glob(f"{code}*.md"))]


NAVIGATION: Navigation = [
    ("Start", [
        ("kscope", "README.md"), ("Start", "guides/start.md"), ("Reading a report", "guides/reading.md"),
        ("Pictures", "reports/gallery/README.md"), ("Beside Nsight Compute's window", "docs/side-by-side.md"),
    ]),
    ("Guides", [
        ("Before there is a kernel", "guides/napkin.md"), ("A worklog", "guides/worklog.md"),
        ("Agents", "guides/agents.md"), ("Checking and timing", "docs/bench.md"),
        ("Thousands of reports", "docs/fleet.md"), ("Files of others", "SECURITY.md"), ("Changes", "CHANGELOG.md"),
    ]),
    ("Commands", "commands"),
    ("Rules", [
        ("All rules", "rules/README.md"), ("Memory", _family("MEM")), ("Compute", _family("CMP")),
        ("Latency", _family("LAT")), ("Grid", _family("GRD")), ("Asynchronous pipelines", _family("ASY")),
        ("Overhead", _family("OVH")),
    ]),
    ("Estimates", [
        ("How estimates work", "docs/estimates.md"), ("Labelled captures", "reports/eval.md"),
        ("Two ladders", "reports/ladder.md"), ("Roles of warps", "reports/warp_specialization.md"),
    ]),
    ("Contract", [("Contract", "contract/index.md"), ("The JSON, field by field", "contract/json.md")]),
    ("Python", [("From Python", "guides/python.md"), ("Reference", "reference/index.md"),
                ("Values", "reference/values.md")]),
    ("Inside", [
        ("Architecture", "ARCHITECTURE.md"), ("Working on kscope", "CONTRIBUTING.md"),
        ("Formats", [(path.stem, f"parsers/{path.name}") for path in sorted((ROOT / "parsers").glob("*.md"))]),
    ]),
]  # fmt: skip
