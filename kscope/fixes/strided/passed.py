"""What code stores that has passed through shared memory before."""

from __future__ import annotations

from kscope.features.sass.slices import stored
from kscope.fixes.given.setting import Setting


def not_passed(setting: Setting) -> float | None:
    """Global stores where none has its values from shared memory: of records that do not lie side by side the code
    keeps the stores as they were."""
    code = setting.code
    stores = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "store"))
    return 0 if any(_shared(setting, i) for i in stores) else len(stores)


def _shared(setting: Setting, index: int) -> bool:
    code = setting.code
    sources = code.defuse.sources(index)
    brought = [p for r in stored(code, index) for p in sources.get(r, ())]
    return any(code.classes[p].space == "shared" and code.classes[p].access == "load" for p in brought)
