"""What the HTML report draws of a recording beside its TimelineAnalysis. No contract: fields may change with it."""

from __future__ import annotations

from kscope.model.contract.frozen import Part


class Row(Part, frozen=True, kw_only=True):
    """A row of the timeline: a stream of a device, or what a host thread did. Columns of equal length: start (delta to
    the start before, ns), length (ns), name (index), count (operations that were merged into one, all 1 if empty), call
    (of GPU operations, delta: the number from 1 of what launched them, counted over all rows of calls; 0 for none)."""

    kind: str
    title: str
    device: int = -1
    start: list[int]
    length: list[int]
    name: list[int]
    count: list[int] = []
    call: list[int] = []


class GapRow(Part, frozen=True, kw_only=True):
    """Idle gaps of one device: start (delta), length in ns, index into `causes`."""

    device: int
    start: list[int]
    length: list[int]
    cause: list[int]


class OperatorTree(Part, frozen=True, kw_only=True):
    """Ranges and operators of host threads added up by the way that led to them, as columns: name (index), parent
    (-1 for a thread; parents come first), count, ns, own (ns in no child), gpu (ns of GPU operations launched below).
    left_out: shorter nodes that are not told."""

    name: list[int]
    parent: list[int]
    count: list[int]
    ns: list[int]
    own: list[int]
    gpu: list[int]
    left_out: int = 0


class PathDetail(Part, frozen=True, kw_only=True):
    """The critical path, in order of time: columns of start (delta, ns), length (ns), kind (0 operations of a stream
    with what passes between them, 1 a launch on its way, 2 the host) and row (its place in TimelineDetail.rows; of a
    launch the stream's, -1 unknown). left_out: shorter pieces that are not told."""

    start: list[int]
    length: list[int]
    kind: list[int]
    row: list[int]
    left_out: int = 0


class MemoryCourse(Part, frozen=True, kw_only=True):
    """What a framework's allocator held on one device, by equal parts of the recording: start (delta, ns), bytes
    allocated and reserved at most in each. end: of the last one; peak: place of the part with most allocated."""

    device: int
    start: list[int]
    allocated: list[int]
    reserved: list[int]
    end: int
    peak: int


class CounterCourse(Part, frozen=True, kw_only=True):
    """A sampled counter by parts of the recording that have samples: start (delta, ns), length of each (ns), value
    (mean of a part). peak: place of the highest."""

    title: str
    device: int
    unit: str
    start: list[int]
    length: int
    value: list[float]
    peak: int


class TimelineDetail(Part, frozen=True, kw_only=True):
    """The rows of one entry of `Analysis.timelines`, by its place there. Times from `origin` on; the verdict's window
    is [low, high]. merged_ns: operations closer and shorter than that are drawn as one (0: none were)."""

    index: int
    low: int
    high: int
    end: int
    names: list[str]
    causes: list[str]
    rows: list[Row]
    gaps: list[GapRow]
    steps: list[int] = []
    merged_ns: int = 0
    operators: OperatorTree | None = None
    critical: PathDetail | None = None
    memory: list[MemoryCourse] = []
    counters: list[CounterCourse] = []
