"""Entries made by hand, for what needs no report."""

from __future__ import annotations

from msgspec.structs import replace

from kscope.model.contract.analysis import DeviceInfo
from kscope.worklog.entries import Entry, Git, Step, Tools
from kscope.worklog.store import new_uid, now

DEVICE = DeviceInfo(name="NVIDIA H200", cc="9.0", sms=132)
OBJECT = "0" * 64 + ".json"


def entry(**changes: object) -> Entry:
    """A version of nothing in particular."""
    one = Entry(
        uid=new_uid(), added=now(), kernel="gemm(float *)", time_us=100.0, regime="memory", limiter="shared_memory",
        sentence="L1 and shared memory 90 % busy", device=DEVICE, tools=Tools(kscope="0.1.0"), git=Git(),
        report=OBJECT.replace("json", "ncu-rep"), report_name="report.ncu-rep", analysis=OBJECT, pct_of_roof=10.0,
    )  # fmt: skip
    return replace(one, **changes)


def after(parent: Entry, time_us: float, **changes: object) -> Entry:
    """A version that came from another."""
    step = Step(parent=parent.uid, speedup=parent.time_us / time_us, sentence="it changed")
    return entry(parent=parent.uid, time_us=time_us, **{"step": step, **changes})
