"""Keys of rows that another capture of the same code gives again: made of names, launch shapes and offsets in the code,
never of the order of a report."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from kscope.model.contract.analysis import Finding, KernelAnalysis
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.quoted import quoted

SHOWN = 40  # characters of the name in a key, for people; the hash tells kernels apart


def kernel_keys(kernels: Sequence[KernelAnalysis]) -> list[str]:
    """One key a kernel: name, hash of the whole name, launch shape. Launches of one name and shape under different NVTX
    ranges are told apart by the order of the ranges' names."""
    plain = [_key(k) for k in kernels]
    many = Counter(plain)
    order: dict[str, list[int]] = {}
    for i in sorted(range(len(kernels)), key=lambda i: (kernels[i].nvtx, kernels[i].id)):
        order.setdefault(plain[i], []).append(i)
    return [k if many[k] == 1 else f"{k}#{order[k].index(i) + 1}" for i, k in enumerate(plain)]


def _key(kernel: KernelAnalysis) -> str:
    grid, block = ("x".join(map(str, three)) for three in (kernel.launch.grid, kernel.launch.block))
    return f"{_named(kernel.demangled or kernel.name)}@{grid}/{block}"


def _named(name: str) -> str:
    bare = re.sub(r"[^A-Za-z0-9_]+", "_", name.split("(")[0].split("<")[0].split(" ")[-1])[:SHOWN].strip("_")
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{bare or 'kernel'}-{digest}"


def finding_key(finding: Finding) -> str:
    """MEM103@0x0290: the rule and the first place that it names."""
    if not finding.locations:
        return finding.code
    return f"{finding.code}@{row_key(min(place.pc for place in finding.locations))}"


def row_key(pc: int) -> str:
    return f"0x{pc:04x}"


def find(kernels: Sequence[KernelAnalysis], key: str) -> tuple[str, KernelAnalysis]:
    """The kernel of a key, or of the part of it before the `@` where one kernel has that. Raises KscopeError."""
    keys = kernel_keys(kernels)
    if key in keys:
        return key, kernels[keys.index(key)]
    alike = [i for i, known in enumerate(keys) if known.partition("@")[0] == key.partition("@")[0]]
    if len(alike) == 1 and "@" not in key:
        return keys[alike[0]], kernels[alike[0]]
    near = ", ".join(keys[i] for i in alike[:5])
    hint = f"there are {near}" if near else "diagnose gives the keys"
    raise KscopeError("no-kernel", f"no kernel has the key {quoted(key, 100)}", hint, EXIT_USAGE)
