"""Names of API calls as CUDA's, and advice in HIP's, whose functions have the same names behind another prefix (HIP
porting guide)."""

from __future__ import annotations

import re

_HIP = re.compile(r"^hip(?:Ext)?(?:Module(?=LaunchKernel|LaunchCooperative))?(?=[A-Z])")


def as_cuda(name: str) -> str:
    """`hipStreamSynchronize` -> `cudaStreamSynchronize`, `hipExtModuleLaunchKernel` -> `cudaLaunchKernel`; others as
    they are."""
    return _HIP.sub("cuda", name)


def as_hip(advice: str) -> str:
    """Advice that names CUDA's functions, for a program that calls HIP's."""
    advice = re.sub(r"; CUDA_[A-Z_]+=[^;]*", "", advice)  # variables of CUDA's runtime
    return re.sub(r"\bCUDA (?=graph|call)", "HIP ", re.sub(r"\bcuda(?=[A-Z])", "hip", advice))
