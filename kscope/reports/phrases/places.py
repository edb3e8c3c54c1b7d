"""What samples say of a place in the code, in one wording for every format."""

from __future__ import annotations

from msgspec import UNSET

from kscope.model.contract.analysis import Location
from kscope.model.errors import one_line
from kscope.reports.words import basename, percent, place


def where(location: Location, *, full: bool = False) -> str:
    """The place, and the user's line where it lies in a library's header: `cuda_fp16.hpp:812 (near row.cu:14)`."""
    if location.own is UNSET:
        return place(location, full=full)
    name = one_line(location.own.file)
    own = f"{name if full else basename(name)}:{location.own.line}"
    return f"{place(location, full=full)} ({'near ' if location.own.near else ''}{own})"


def waited(location: Location) -> str:
    """What the samples say of a place: "waited for by 11 % (1.5 % sampled here)". A wait for a load is sampled where
    its result is read. Empty without samples."""
    if location.share is None:
        return ""
    text = f"waited for by {percent(location.share)}"
    if location.sampled is UNSET or percent(location.sampled) == percent(location.share):
        return text
    here = f"{location.sampled * 100:.1f} %" if 0 < location.sampled < 0.1 else percent(location.sampled)
    return f"{text} ({here} sampled here)"
