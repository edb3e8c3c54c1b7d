"""What the shell completes: files, codes of rules, names of chips. Only the shell's own calls come here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

SEVERITIES = ("minor", "major", "critical")


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and folders: the shell knows them best."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes and slugs of rules, behind the last comma; with --fail-on severities as well."""
    from click.shell_completion import CompletionItem

    from kscope.rules.registry import all_rules

    before, comma, last = incomplete.rpartition(",")
    named = [(rule.code, rule.title) for rule in all_rules()] + [(rule.slug, rule.title) for rule in all_rules()]
    if param.name == "fail_on":
        named += [(word, "findings of at least this severity") for word in SEVERITIES]
    wanted = last.lower()
    return [CompletionItem(f"{before}{comma}{n}", help=t) for n, t in named if n.lower().startswith(wanted)]
