"""Names of API calls as CUDA's: HIP's functions have the same names behind another prefix (HIP porting guide)."""

from __future__ import annotations

import re

_HIP = re.compile(r"^hip(?:Ext)?(?:Module(?=LaunchKernel|LaunchCooperative))?(?=[A-Z])")


def as_cuda(name: str) -> str:
    """`hipStreamSynchronize` -> `cudaStreamSynchronize`, `hipExtModuleLaunchKernel` -> `cudaLaunchKernel`; others as
    they are."""
    return _HIP.sub("cuda", name)
