"""The kernels of one Nsight Compute report, one by one, none of them able to cost the others."""

from __future__ import annotations

from msgspec import Struct, field

from kscope.engine.inputs.codes import Codes
from kscope.engine.inputs.request import Request
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.contract.analysis import KernelAnalysis, SkippedInput
from kscope.model.contract.detail import KernelDetail
from kscope.model.errors import KscopeError
from kscope.model.faults import fault, in_words, show_traceback
from kscope.parsers.ncu.kernels import to_kernel
from kscope.parsers.ncu.worker import RECOLLECT, Reader, Skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kscope.features.views.footprint import Footprints


class Part(Struct):
    """What was found in the kernels of a report that one reader took (`taken`), by their index in the report: all of
    them, or, where several processes share it, some. count: kernels in the report; sound: of those taken, how many
    could be read and analysed; end: what the reader ended with before it was through."""

    taken: set[int] = field(default_factory=set)
    kernels: dict[int, KernelAnalysis] = field(default_factory=dict)
    details: dict[int, list[KernelDetail]] = field(default_factory=dict)
    footprints: Footprints | None = None
    skipped: dict[int, str] = field(default_factory=dict)
    sound: int = 0
    count: int | None = None
    version: str | None = None
    end: KscopeError | None = None

    def add(self, other: Part) -> None:
        """Take in what another process found in the same report."""
        self.taken |= other.taken
        self.kernels |= other.kernels
        self.details |= other.details
        if self.footprints is not None and other.footprints is not None:
            self.footprints.take(other.footprints)
        self.skipped |= other.skipped
        self.sound += other.sound
        self.count = other.count if self.count is None else self.count
        self.version = self.version or other.version
        self.end = self.end or other.end

    def left_out(self, path: str) -> list[SkippedInput]:
        """What could not be analysed of a report. Raises KscopeError where it has no kernel, or none that could be."""
        if self.end is not None and not self.sound:
            raise self.end
        out = [
            SkippedInput(input=path, what=f"kernel {index}", message=self.skipped[index])
            for index in sorted(self.skipped)
        ]
        if self.end is not None:  # the reader's end: what came before stays
            message = str(self.end).removeprefix(f"{path}: ")
            out.append(SkippedInput(input=path, what="the rest", message=message))
        if self.count == 0:
            raise KscopeError("no-kernels", f"{path}: the report holds no kernel", "profile one that launches any")
        if not self.sound and out:
            first = f"{out[0].what}: {out[0].message}"
            raise KscopeError("unreadable", f"{path}: none of its kernels can be analysed ({first})", RECOLLECT)
        return out


def analyze_report(path: str, number: int, reader: Reader, request: Request) -> Part:
    """Analyse the kernels of the `number`-th input that this reader takes. Never raises but for what ends the
    process."""
    part = Part(footprints=request.footprints.fresh() if request.footprints is not None else None)
    known = Codes(reader.path, draws=request.draws)
    kernels = reader.kernels(known.expect if request.wanted is None else None)
    done = 0
    while True:
        try:
            raw = next(kernels, None)
        except Exception as error:
            part.end = fault(path, error)
            break
        if raw is None:
            break
        done += 1
        if isinstance(raw, Skipped):
            part.taken.add(raw.index)
            part.skipped[raw.index] = raw.message
        else:
            index = raw["index"]
            part.taken.add(index)
            part.version = raw.get("tool_version") or part.version
            try:
                names = (raw["demangled"] or "", raw["name"] or "")
                if request.wanted is None or any(request.wanted.search(n) for n in names):
                    one = to_kernel(raw, path, known.parse)
                    structure = known.structure(one.program) if one.program is not None else None
                    details: list[KernelDetail] | None = [] if request.draws else None
                    part.kernels[index] = analyze_kernel(
                        one, f"{number}.{index}", request.codes, details, reader.path, structure, part.footprints,
                        request.problem, raw["before"], request.lines,
                    )  # fmt: skip
                    if details:
                        part.details[index] = details
                part.sound += 1
            except Exception as error:
                show_traceback(error)
                part.skipped[index] = in_words(error)
        request.report(path, number, done, reader.count)
    part.count = reader.count
    return part
