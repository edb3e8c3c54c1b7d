"""Launch bounds that spill, by the registers that the values need and the blocks that an SM gets."""

from __future__ import annotations

import msgspec
import pytest

from kscope.engine.code.fixing import subjects
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.work import grid
from kscope.fixes.work.bounds import fixes
from kscope.model.contract.fixes import Fix
from tests.support.reports import fixture
from tests.support.with_sources import BELOW


def bounded(shape: tuple[int, int, int], sms: int = 132) -> Fix:
    (subject,) = subjects(str(fixture("ssm.sixteen_blocks")), None, BELOW)
    assert subject.setting.launch is not None
    launch = msgspec.structs.replace(subject.setting.launch, grid=shape)
    setting = msgspec.structs.replace(subject.setting, launch=launch, sms=sms)
    (fix,) = fixes(Asked(setting, next(f for f in subject.findings if f.code == "MEM104")))
    return fix


@pytest.mark.parametrize(
    ("grid", "blocks", "registers"),
    [((8, 80, 1), 5, 96), ((8, 17, 1), 2, 255), ((8, 8, 1), 1, 255), ((8, 800, 1), 7, 72)],
)
def test_no_room_is_kept_for_blocks_that_an_sm_does_not_get(
    grid: tuple[int, int, int], blocks: int, registers: int
) -> None:
    fix = bounded(grid)
    assert f"__launch_bounds__(128, {blocks})" in fix.edits[0].becomes
    assert fix.parameters == {"blocks": blocks, "registers": registers}


def test_what_is_given_up_is_said() -> None:
    assert bounded((8, 800, 1)).costs == ["an SM holds 7 blocks, where it holds 16 now"]
    assert not bounded((8, 80, 1)).costs  # no SM gets more than 5 of them


def test_without_the_number_of_sms_the_spilled_words_decide() -> None:
    assert "__launch_bounds__(128, 7)" in bounded((8, 80, 1), sms=0).edits[0].becomes


@pytest.mark.parametrize(
    ("line", "any_size"),
    [
        ("y[i] = x[i];", True),
        ("if (threadIdx.x == 0) atomicAdd(y, 1.f);", True),
        ("for (int j = threadIdx.x; j < 99; j += blockDim.x) s[j] = x[j];", True),
        ("for (int j = blockIdx.x * (int)blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)y[j]=1;", True),
        ("y[blockIdx.x] = x[i];", False),  # of more blocks
        ("y[i] = x[threadIdx.x];", False),
        ("y[i] = x[i + blockDim.x];", False),
        ("y[i + threadIdx.x % 32] = x[i];", False),
        ("for (int j = threadIdx.x; j < 99; j += 256) s[j] = x[j];", False),
    ],
)
def test_blocks_of_any_size(line: str, any_size: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"__global__ void k(const float* x, float* y) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; {line} }}"
    monkeypatch.setattr(grid, "asked_here", lambda code, text, place: True)
    assert grid.any_block(Setting(None, lambda file: code.split("\n")), "k.cu", 1) is any_size  # type: ignore[arg-type]
