"""Code that the user did not write: headers of toolkits and libraries inlined into a kernel. Told by paths alone."""

from __future__ import annotations

import re

from kscope.features.sass.listing import Listing
from kscope.model.contract.findings import OwnPlace

HEADER = re.compile(
    r"(?:^|/)(?:usr|opt)/.*/include/|/targets/[^/]+/include/|/(?:cub|thrust|cute|cutlass|cccl|libcudacxx)/"
    r"|/(?:curand\w*|cuda_(?:fp16|bf16|fp8|fp4)|texture_\w+|surface_\w+|math_functions|device_functions"
    r"|device_atomic_functions|sm_\d+_\w+|cooperative_groups)\.(?:h|hpp|cuh)$"
)
"""Paths of headers that come with a toolkit or a library."""
INSIDE: tuple[tuple[str, str], ...] = (
    (r"curand", "Philox4_32_10 (curandStatePhilox4_32_10_t): its curand_init costs little; or states made once by a "
                "kernel of their own, curand_uniform4 for four numbers a call"),
    (r"texture_|surface_", "plain loads where nothing is filtered, or fewer fetches of wider texels"),
    (r"/cub/|/thrust/", "other items a thread, or another algorithm of the same primitive"),
    (r"math_functions|/cmath$", "the fast version of the function that is called, or a call less"),
)  # fmt: skip
"""Headers (a pattern), and what the caller can do about time spent in them."""


def in_library(file: str | None) -> bool:
    """The path is that of a header which the user did not write."""
    return file is not None and HEADER.search(file.replace("\\", "/")) is not None


def own_place(code: Listing, index: int) -> OwnPlace | None:
    """The user's line that an instruction of a library's header belongs to: through the calls that were inlined, where
    the code tells them, else that of the nearest instruction of its block with one. None for the user's own code, and
    where nothing tells."""
    ins = code[index]
    if not in_library(ins.file):
        return None
    for site in ins.inlined:
        if not in_library(site.file):
            return OwnPlace(site.file, site.line, near=False)
    block = code.cfg.blocks[code.cfg.block_of[index]]
    near = sorted(range(block.start, block.end), key=lambda i: (abs(i - index), i))
    for other in (code[i] for i in near):
        if other.file is not None and other.line is not None and not in_library(other.file):
            return OwnPlace(other.file, other.line, near=True)
    return None


def inside_advice(file: str | None) -> str | None:
    """What the caller can do about time in this header."""
    if file is None or not in_library(file):
        return None
    return next((advice for pattern, advice in INSIDE if re.search(pattern, file)), None)

