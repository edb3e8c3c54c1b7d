"""The machine code of one function: graph, def-use and classes, aligned by instruction index, without a profile.

What a proof needs of the code is here, so that the same proof serves a profiled kernel (`features.code.Code`, where
`executed` is a counter) and a bare cubin (`Listing`, where it is the weight that loops give).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kscope.features.sass.backward_slices import Slices
from kscope.features.sass.cfg import Cfg, build_cfg
from kscope.features.sass.columns import Column, total
from kscope.features.sass.defuse import DefUse
from kscope.features.sass.graph import reached
from kscope.features.sass.liveness import Liveness
from kscope.isa.opcodes import UNKNOWN, OpClass, classify
from kscope.model.contract.analysis import Location
from kscope.model.program import Instruction, Program

if TYPE_CHECKING:
    from collections.abc import Hashable

C = TypeVar("C", bound="Structure | Listing")
P = ParamSpec("P")
T = TypeVar("T")
TRIPS = 8.0  # rounds that a loop is taken to make where nothing says how many
DEEPEST = 4  # loop depth from which weights grow no further


def once_per_code(find: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], T]:
    """Decorator: what a function finds out about a listing (or structure) is computed once and kept with it, not in the
    module, so that it goes when the code goes. Whoever asks again gets the same object: it is not to be changed.
    Further arguments are hashable."""

    @wraps(find)
    def known(code: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (find, args, *kwargs.items())
        if key not in code.found:
            code.found[key] = find(code, *args, **kwargs)
        result: T = code.found[key]
        return result

    return known


class Structure:
    """What the text of the code says, whatever was counted: shared by all launches of one function. Each part is
    computed on first use."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found: dict[Hashable, Any] = {}
        """Results of functions that are computed once (`once_per_code`)."""

    def __getitem__(self, index: int) -> Instruction:
        return self.program.instructions[index]

    @cached_property
    def classes(self) -> tuple[OpClass, ...]:
        out: list[OpClass] = [UNKNOWN] * len(self.program)
        for group in self.by_name:
            op = classify(self.program.instructions[group[0]], self.program.sm)
            for i in group:
                out[i] = op
        return tuple(out)

    @cached_property
    def cfg(self) -> Cfg:
        return build_cfg(self.program)

    @cached_property
    def defuse(self) -> DefUse:
        return DefUse(self.program, self.cfg)

    @cached_property
    def liveness(self) -> Liveness:
        return Liveness(self.program, self.cfg)

    @cached_property
    def slices(self) -> Slices:
        """Backward slices, for kscope.features.sass.slices."""
        return Slices(self.program, self.classes, self.defuse)

    @cached_property
    def by_name(self) -> list[list[int]]:
        """Instructions of the same opcode and modifiers: a kernel of thousands has some dozens of them."""
        groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        for i, ins in enumerate(self.program.instructions):
            groups.setdefault((ins.opcode, ins.mods), []).append(i)
        return list(groups.values())

    @cached_property
    def literals(self) -> list[int]:
        """Instructions that a number is written into: some of them betray a function by its constants."""
        numbers = ("integer", "float")
        code = self.program.instructions
        return [i for i, ins in enumerate(code) if any(o.kind in numbers for o in ins.operands)]

    def work_ahead(self) -> None:
        """Compute what nearly every profiled kernel needs, and all of it takes: def-use, address slices."""
        if not self.program.instructions:
            return
        self.defuse.consumers(0)  # solves it for all
        for i, op in enumerate(self.classes):
            if op.access is not None and op.space == "global":
                self.slices.names(p for ps in self.defuse.sources(i).values() for p in ps)


class Places(list["Location"]):
    """Places that a finding shows, and all that it is about: `covered` are the pcs of every instruction, `share` is the
    share of all samples at or behind them, 0..1 (None where unknown). Two of them add up."""

    def __init__(
        self, shown: Iterable[Location] = (), covered: Iterable[int] = (), share: float | None = None
    ) -> None:  # fmt: skip
        super().__init__(shown)
        self.covered, self.share = tuple(covered), share

    def __add__(self, other: Places) -> Places:  # type: ignore[override]
        covered = tuple(dict.fromkeys((*self.covered, *other.covered)))
        known = [x for x in (self.share, other.share) if x is not None]
        apart = len(covered) == len(self.covered) + len(other.covered)
        share = sum(known) if known and apart else max(known, default=None)
        return Places([*self, *other], covered, share)


class Listing:
    """Program, flow graph and def-use of one function.

    `executed` says how often each instruction runs, relative to the entry: TRIPS for each loop around it, 0 for what
    nothing reaches (padding). It orders instructions and tells hot from cold; it is no measurement (`counted`).
    """

    counted = False

    def __init__(self, program: Program, function: str | None = None, structure: Structure | None = None) -> None:
        """structure: of this program, if it is known already."""
        self.program = program
        self.function = function if function is not None else program.name
        self.structure = structure or Structure(program)
        self.found: dict[Hashable, Any] = {}
        self.classes = self.structure.classes

    def __len__(self) -> int:
        return len(self.program.instructions)

    def __getitem__(self, index: int) -> Instruction:
        return self.program.instructions[index]

    @cached_property
    def cfg(self) -> Cfg:
        return self.structure.cfg

    @cached_property
    def defuse(self) -> DefUse:
        return self.structure.defuse

    @cached_property
    def liveness(self) -> Liveness:
        return self.structure.liveness

    @cached_property
    def slices(self) -> Slices:
        return self.structure.slices

    @cached_property
    def reached(self) -> frozenset[int]:
        """Blocks that the entry reaches, through calls too."""
        cfg = self.cfg
        entered: dict[int, list[int]] = {}
        for call, target in cfg.calls.items():
            entered.setdefault(cfg.block_of[call], []).append(cfg.block_of[target])
        first = [0] if cfg.blocks else []
        return frozenset(reached(first, lambda b: [*cfg.blocks[b].successors, *entered.get(b, ())]))

    @cached_property
    def executed(self) -> Column:
        return self.weights()

    def weights(self) -> Column:
        """TRIPS to the loop depth of each instruction that can be reached."""
        reached, block_of = self.reached, self.cfg.block_of
        return [TRIPS ** min(d, DEEPEST) if block_of[i] in reached else 0.0 for i, d in enumerate(self.cfg.depth)]

    @cached_property
    def all_executed(self) -> float:
        return total(self.executed)

    def where(self, test: Callable[[Instruction, OpClass], bool]) -> list[int]:
        """Indices of the instructions that a test accepts, which looks at the opcode, its modifiers and its class, not
        at operands: it is asked once for all of one name."""
        groups = self.structure.by_name
        return sorted(i for group in groups if test(self[group[0]], self.classes[group[0]]) for i in group)

    @cached_property
    def issued_by_pipe(self) -> Mapping[str, float]:
        """Executed warp instructions by pipe."""
        out: dict[str, float] = {}
        for op, executed in zip(self.classes, self.executed, strict=True):
            out[op.pipe] = out.get(op.pipe, 0.0) + executed
        return out

    def ran(self, indices: Iterable[int]) -> list[int]:
        """Those of the instructions that were executed at all."""
        return [i for i in indices if self.executed[i] > 0]

    def issue_share(self, indices: Iterable[int]) -> float:
        """Share of the executed warp instructions, 0..1."""
        every = self.all_executed
        return total(self.executed, indices) / every if every else 0.0

    def hottest(self, indices: Iterable[int], weight: Column | None = None) -> list[int]:
        """Indices by weight (executions if none is named), largest first."""
        key = self.executed if weight is None else weight
        return sorted(indices, key=lambda i: (-key[i], i))

    def location(self, index: int, share: float | None = None) -> Location:
        """Where an instruction is: pc, opcode, source line."""
        ins = self[index]
        return Location(
            function=self.function,
            pc=ins.pc,
            opcode=ins.name,
            file=ins.file,
            line=ins.line,
            share=round(share, 4) if share is not None else None,
            sass=ins.text,
            source=self.source_line(ins),
        )

    def locations(self, indices: Iterable[int], limit: int = 4, weight: Column | None = None) -> Places:
        """The first of some instructions by weight, which know what the others are."""
        members = self.hottest(dict.fromkeys(indices), weight)
        shown = (self.location(i) for i in members[:limit])
        return Places(shown, (self[i].pc for i in members), self.share_of(members))

    def share_of(self, members: Iterable[int]) -> float | None:
        """Share of all samples that these instructions cost; None without samples."""
        return None

    def source_line(self, ins: Instruction) -> str | None:
        """Text of the instruction's source line; None where the sources are not at hand."""
        return None


class Ran(Listing):
    """The same of launches of one function in which each instruction was executed as often: what follows from that
    alone is found once for all of them."""

    def __init__(self, structure: Structure, executed: tuple[float, ...]) -> None:
        super().__init__(structure.program, structure=structure)
        self.executed = list(executed)
        self.counted = any(executed)
