"""What can be said about machine code that nobody ran: one function of a binary."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kscope.features.cfg import Cfg, build_cfg
from kscope.features.defuse import DefUse
from kscope.features.opcodes import OpClass, classify
from kscope.model.program import Instruction, Program


class StaticCode:
    """A program with its classes, flow graph, def-use and liveness, each computed on first use."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __len__(self) -> int:
        return len(self.program.instructions)

    def __getitem__(self, index: int) -> Instruction:
        return self.program.instructions[index]

    @cached_property
    def classes(self) -> tuple[OpClass, ...]:
        return tuple(classify(ins, self.program.sm) for ins in self.program.instructions)

    @cached_property
    def cfg(self) -> Cfg:
        return build_cfg(self.program)

    @cached_property
    def defuse(self) -> DefUse:
        return DefUse(self.program, self.cfg)

    def where(self, test: Callable[[Instruction, OpClass], bool]) -> list[int]:
        """Indices of the instructions that a test accepts."""
        pairs = zip(self.program.instructions, self.classes, strict=True)
        return [i for i, (ins, op) in enumerate(pairs) if test(ins, op)]
