"""The kernels of one Nsight Compute report, one by one, none of them able to cost the others."""

from __future__ import annotations

from kscope.engine.codes import Codes
from kscope.engine.kernel import analyze_kernel
from kscope.engine.request import Request
from kscope.model.analysis import Input, KernelAnalysis, SkippedInput
from kscope.model.detail import KernelDetail
from kscope.model.errors import KscopeError
from kscope.model.faults import fault, in_words, show_traceback
from kscope.parsers.ncu.kernels import to_kernel
from kscope.parsers.ncu.worker import RECOLLECT, Reader, Skipped


class Read:
    """What is wanted of reports, and what was found in those so far: `inputs`, `kernels`, `details` (None where they
    are not wanted)."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.inputs: list[Input] = []
        self.kernels: list[KernelAnalysis] = []
        self.launches: dict[tuple[str, str], int] = {}
        """Launches of each function that were met so far, by report."""
        self.details: list[KernelDetail] | None = [] if request.draws else None


def analyze_report(path: str, number: int, reader: Reader, into: Read) -> list[SkippedInput]:
    """Analyse the kernels of the `number`-th input; what was left out. Raises KscopeError where there is none, or none
    that can be analysed."""
    request = into.request
    known = Codes(reader.path, draws=into.details is not None)
    skipped: list[SkippedInput] = []
    sound, version = 0, None
    kernels = reader.kernels(known.expect if request.wanted is None else None)
    done = 0
    while True:
        try:
            raw = next(kernels, None)
        except Exception as error:  # the reader's end: what came before stays
            end = fault(path, error)
            if not sound:
                raise end from error
            skipped.append(SkippedInput(input=path, what="the rest", message=str(end).removeprefix(f"{path}: ")))
            break
        if raw is None:
            break
        done += 1
        if isinstance(raw, Skipped):
            skipped.append(SkippedInput(input=path, what=f"kernel {raw.index}", message=raw.message))
        else:
            version = raw.get("tool_version") or version
            own = path, raw["name"] or ""
            before = into.launches.get(own, 0)
            into.launches[own] = before + 1
            try:
                names = (raw["demangled"] or "", raw["name"] or "")
                if request.wanted is None or any(request.wanted.search(n) for n in names):
                    one = to_kernel(raw, path, known.parse)
                    structure = known.structure(one.program) if one.program is not None else None
                    ident = f"{number}.{raw['index']}"
                    found = analyze_kernel(
                        one, ident, request.codes, into.details, reader.path, structure, request.footprints,
                        request.problem, before,
                    )  # fmt: skip
                    into.kernels.append(found)
                sound += 1
            except Exception as error:
                show_traceback(error)
                skipped.append(SkippedInput(input=path, what=f"kernel {raw['index']}", message=in_words(error)))
        if request.progress is not None:
            request.progress(path, done, reader.count)
    if reader.count == 0:
        raise KscopeError("no-kernels", f"{path}: the report holds no kernel", "profile one that launches any")
    if not sound and skipped:
        first = f"{skipped[0].what}: {skipped[0].message}"
        raise KscopeError("unreadable", f"{path}: none of its kernels can be analysed ({first})", RECOLLECT)
    into.inputs.append(Input(path=path, kind="ncu", tool_version=version))
    return skipped
