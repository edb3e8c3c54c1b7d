"""Pages on the Python API, filled by mkdocstrings from signatures and docstrings."""

from __future__ import annotations

INDEX = """# Python reference

`import kscope` has the commands as functions; [the guide](../guides/python.md) goes through them with examples. What
they return are the [values](values.md) that the JSON has.

::: kscope
    options:
      members: [analyze, charts, sass, diff, trace, metrics, render]
      show_root_heading: false
      show_root_toc_entry: false

## Errors

::: kscope.model.errors.KscopeError
    options:
      filters: ['!^_']
"""
PARTS = (
    ("kscope.model.contract.analysis", "An analysis"), ("kscope.model.contract.findings", "Findings"),
    ("kscope.model.contract.fixes", "Changes"),
    ("kscope.model.contract.comparison", "A comparison"), ("kscope.model.contract.programs", "Machine code"),
    ("kscope.model.contract.joined", "A recording with kernel reports"),
    ("kscope.model.contract.job", "Jobs of several ranks"),
    ("kscope.model.raw_metrics", "Raw metrics"), ("kscope.model.trace", "Records of warps"),
    ("kscope.model.contract.detail", "What charts and listings show"),
)  # fmt: skip


def pages() -> dict[str, str]:
    """Path on the site -> text."""
    text = ["# Values", "", "Frozen values; the fields are those of [the JSON](../contract/json.md).", ""]
    for module, title in PARTS:
        text += [f"## {title}", "", f"`{module}`", "", f"::: {module}", "    options:",
                 "      show_root_heading: false", "      show_root_toc_entry: false", "      filters: ['!^_']",
                 ""]  # fmt: skip
    return {"reference/index.md": INDEX, "reference/values.md": "\n".join(text)}
