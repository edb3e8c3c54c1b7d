"""Finds the rules: one module a rule, listed here so that the catalogue has one place and imports stay explicit."""

from __future__ import annotations

import difflib
import inspect
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from kscope.arch.record import fared
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.rules.base import AnyRule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kscope.rules.lint import Lint

MODULES = (
    "memory.uncoalesced_global_access",
    "memory.narrow_global_access",
    "memory.shared_bank_conflicts",
    "memory.register_spills",
    "memory.local_memory_indexing",
    "memory.redundant_memory_traffic",
    "memory.dram_bandwidth_saturated",
    "memory.misaligned_global_access",
    "memory.atomic_contention",
    "memory.host_memory_access",
    "memory.divergent_constant_access",
    "memory.low_data_reuse",
    "memory.texture_throughput",
    "memory.sum_kept_in_memory",
    "memory.sector_promotion",
    "memory.strong_global_loads",
    "memory.small_product_tiles",
    "memory.repeated_loads",
    "compute.tensor_cores_idle",
    "compute.legacy_tensor_path",
    "compute.accidental_fp64",
    "compute.slow_math_functions",
    "compute.integer_address_overhead",
    "compute.missing_fma",
    "compute.conversion_overhead",
    "compute.pipe_saturated",
    "compute.serialized_wgmma",
    "compute.register_bank_conflicts",
    "compute.double_precision_functions",
    "compute.debug_build",
    "compute.tensor_pipe_gaps",
    "latency.low_occupancy",
    "latency.exposed_memory_latency",
    "latency.dependency_chain",
    "latency.barrier_stalls",
    "latency.warp_divergence",
    "latency.instruction_cache_misses",
    "latency.unpipelined_copy",
    "latency.memory_fence_stalls",
    "latency.redundant_barrier",
    "latency.lane_serial_bulk_copy",
    "grid.small_grid",
    "grid.tail_effect",
    "grid.load_imbalance",
    "grid.block_size",
    "grid.short_threads",
    "asynchronous.missing_proxy_fence",
    "asynchronous.pipeline_priming",
    "asynchronous.producer_bound_pipeline",
    "asynchronous.epilogue_bubble",
    "asynchronous.shallow_pipeline",
    "overhead.launch_bound",
    "overhead.gpu_idle",
    "overhead.host_synchronization",
    "overhead.transfer_bound",
    "overhead.cuda_graph_candidate",
    "overhead.recompilation",
    "overhead.graph_breaks",
    "overhead.tiny_kernel",
    "overhead.exposed_communication",
    "overhead.small_collectives",
    "overhead.straggler",
    "overhead.load_imbalance_ranks",
    "overhead.pipeline_bubble",
    "overhead.single_precision_products",
)

LINTS = (
    "narrow_global_access",
    "shared_bank_conflicts",
    "register_spills",
    "local_memory_indexing",
    "tensor_cores_idle",
    "legacy_tensor_path",
    "accidental_fp64",
    "slow_math_functions",
    "integer_address_overhead",
    "missing_fma",
    "conversion_overhead",
    "serialized_wgmma",
    "register_bank_conflicts",
    "dependency_chain",
    "instruction_cache_misses",
    "unpipelined_copy",
    "redundant_barrier",
    "lane_serial_bulk_copy",
    "missing_proxy_fence",
)


@cache
def all_lints() -> tuple[type[Lint], ...]:
    """Every rule on machine code alone, sorted by code."""
    from kscope.rules.lint import Lint

    found = []
    for name in LINTS:
        module = import_module(f"kscope.rules.lints.{name}")
        found += [o for o in vars(module).values() if isinstance(o, type) and issubclass(o, Lint) and o is not Lint]
    return tuple(sorted(found, key=lambda lint: lint.of.code))


@cache
def all_rules() -> tuple[type[AnyRule], ...]:
    """Every rule on kernels and on timelines, sorted by code."""
    return _of(MODULES)


@cache
def program_rules() -> tuple[type[AnyRule], ...]:
    """Those on timelines and jobs alone: recordings do without importing the others."""
    return _of([name for name in MODULES if name.startswith("overhead.")])


def _of(modules: Iterable[str]) -> tuple[type[AnyRule], ...]:
    found = []
    for name in modules:
        module = import_module(f"kscope.rules.{name}")
        found += [
            o for o in vars(module).values()
            if isinstance(o, type) and issubclass(o, AnyRule) and o.__module__ == module.__name__
        ]  # fmt: skip
    return tuple(sorted(found, key=lambda r: r.code))


def rule(name: str) -> type[AnyRule]:
    """The rule of a code (MEM103) or slug (shared-bank-conflicts), case ignored. Raises KscopeError (usage)."""
    wanted = name.strip().lower()
    for r in all_rules():
        if wanted in (r.code.lower(), r.slug):
            return r
    raise unknown(name)


def matching(pattern: str) -> frozenset[str]:
    """Codes that a --select or --ignore word means: a code, a slug, or a prefix of codes such as MEM or MEM1."""
    wanted = pattern.strip().lower()
    codes = {r.code for r in all_rules() if wanted and (r.slug == wanted or r.code.lower().startswith(wanted))}
    if not codes:
        raise unknown(pattern)
    return frozenset(codes)


def unknown(name: str) -> KscopeError:
    known = [k for r in all_rules() for k in (r.code.lower(), r.slug)]
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    names = ", ".join(n.upper() if n[-1].isdigit() else n for n in near)
    hint = f"did you mean {names}?" if near else "kscope rules lists them all"
    return KscopeError("unknown-rule", f"no rule is called {name!r}", hint, EXIT_USAGE)


def page(r: type[AnyRule]) -> str:
    """The rule's page as Markdown: its module's docstring under a heading."""
    text = inspect.cleandoc(sys.modules[r.__module__].__doc__ or "")
    return f"# {r.code} {r.slug}\n\n{text}\n{_fared(r.slug)}"


def _fared(slug: str) -> str:
    """What came of the rule's first suggestions that were built, as a section; empty where none was."""
    if (known := fared(slug)) is None:
        return ""
    return (
        "\n## How it fared\n\nFirst suggestions of this rule, built as told on public kernels: "
        f"{known.built} built, {known.gained} gained a tenth or more, {known.slower} made their kernel slower "
        "(tools/field/labels/told.toml; words that slowed kernels were mended since).\n"
    )
