"""Where mbarriers lie in shared memory: the constant part of their addresses, groups of them, the ring of stages."""

from __future__ import annotations

from kscope.features.lanes.affine import Affine, Sum
from kscope.features.profile.code import Code
from kscope.model.operand import memory_operand, uniform_base

BARRIER = 8  # bytes of an mbarrier


class BarrierSlots:
    """Addresses of the barriers that one kernel's code uses. A slot is the constant part of such an address."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.affine = Affine(code.program, code.defuse)
        self._starts: list[int] | None = None

    def slot(self, i: int) -> int | None:
        """Constant part of the address of an instruction's first memory operand."""
        operand = memory_operand(self.code[i].operands)
        found = self.affine.address(i, operand) if operand is not None else None
        return found.constant if found is not None and _settled(found) else None

    def of_copy(self, i: int) -> int | None:
        """Slot of the mbarrier that a bulk load signals: the register behind its shared-memory address."""
        ins = self.code[i]
        register = next((r for o in ins.operands if (r := uniform_base(o)) is not None), None)
        if register is None:
            return None
        found = self.affine.register(i, register + 1)
        return found.constant if _settled(found) else None

    def of_request(self, i: int) -> int | None:
        """Slot of the mbarrier that the answer to a request for work signals: the second address."""
        places = [o for o in self.code[i].operands if o.bases]
        found = self.affine.address(i, places[1]) if len(places) > 1 else None
        return found.constant if found is not None and _settled(found) else None

    def _groups(self) -> list[int]:
        """First addresses of the barrier groups (constants), in order."""
        if self._starts is None:
            code = self.code
            users = code.where(lambda ins, op: ins.opcode == "SYNCS" and "EXCH" not in ins.mods)
            ring = set()
            for i in users:
                operand = memory_operand(code[i].operands)
                found = self.affine.address(i, operand) if operand is not None else None
                if found is not None and _settled(found) and (BARRIER in found.strides or found.varying):
                    ring.add(found.constant)
            self._starts = sorted(ring)
        return self._starts

    def group(self, slot: int) -> int:
        """The barrier group of an address: a peeled round uses group + 8, + 16, ... directly."""
        below = [s for s in self._groups() if s <= slot]
        return below[-1] if below and (slot - below[-1]) % BARRIER == 0 and slot - below[-1] < 16 * BARRIER else slot

    def ring(self, full: set[int]) -> tuple[int | None, int | None]:
        """Stages of the data ring and bytes of one; `full`: slots on which arriving data is waited for. The barriers of
        a group lie 8 bytes apart: their number is that of the initialised ones from one group's first to the next
        group's."""
        code = self.code
        made = sorted(
            {s for i in code.where(lambda ins, op: ins.opcode == "SYNCS" and "EXCH" in ins.mods)
             for s in [self.slot(i)] if s is not None}
        )  # fmt: skip
        if not full or not made:
            return None, None
        first = self.group(min(full))
        others = [s for s in self._groups() if s > first]
        stages = 0
        while first + BARRIER * stages in made and first + BARRIER * stages not in others:
            stages += 1
        return stages or None, self._stage_bytes(first)

    def _stage_bytes(self, ring: int) -> int | None:
        """Bytes that one arrival announces (expect_tx) on a barrier of the ring, or on one whose address is not known,
        where they are a constant."""
        code = self.code
        elsewhere: int | None = None
        for i in code.where(lambda ins, op: ins.opcode == "SYNCS" and "ARRIVE" in ins.mods):
            ins = code[i]
            register = ins.operands[-1].vector if ins.operands else None
            if register is None:
                continue
            found = self.affine.register(i, register)
            if not found.terms and found.constant > 0:
                at = self.slot(i)
                if at is not None and self.group(at) == ring:
                    return found.constant
                elsewhere = elsewhere or found.constant
        return elsewhere


def _settled(found: Sum) -> bool:
    """Whether a sum has an address of shared memory in it: unknown registers alone are no address."""
    return found.constant > 0
