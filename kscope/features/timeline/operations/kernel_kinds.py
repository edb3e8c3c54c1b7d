"""What a kernel does, as far as its name tells: from the function's own base name; for wrappers such as
cutlass::device_kernel from what they wrap; at last from its namespaces. Template arguments of others say what a
function is given (a bias, a copy functor), not what it is.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

COMPUTE, MEMORY, COMMUNICATION, UNKNOWN = "compute", "memory", "communication", "unknown"

_KINDS = (
    (
        COMMUNICATION,
        re.compile(
            r"nccl|nvshmem|rccl|mscclpp?_|all_?reduce|all_?gather(?!_copy)|reduce_?scatter|all_?to_?all|sendrecv"
            r"|one_?shot_|two_?shot_|multimem_|deep_?ep|oneccl",
            re.I,
        ),
    ),
    # products of matrices by vectors, and moves that carry a convolution's name
    (MEMORY, re.compile(r"gemv|dot_kernel|im2col|col2im|splitk_?reduce|split_k_reduce|splitkreduce", re.I)),
    (
        COMPUTE,
        re.compile(
            r"gemm|^cijk_|^custom_cijk_|cutlass(?!_.*copy)|xmma|conv\d?d|convolve|convolution|scudnn|cudnn.*(fprop|dgrad|wgrad)"
            r"|winograd|fprop|dgrad|wgrad|flash|fmha|attn_(fwd|bwd)|attention|wgmma|[hi]mma|matmul|nvjet|^miopen.*conv"
            r"|^ck_|igemm|xdlops|xdl_cshuffle|sm\d+_.*(tensorop|s\d+gemm)|triton_.*_(mm|bmm|addmm|dot)\b|triton_tem_"
            r"|_(mm|bmm)_kernel|^bmm_|^bmm$|grouped_mm|^mul_mat_q|paged_?attn|_trsm|_syrk",
            re.I,
        ),
    ),
    (
        MEMORY,
        re.compile(
            r"elementwise|copy|reduce|reduction|softmax|norm|embedding|index|gather|scatter|transpose|(\b|_)cat|concat|fill"
            r"|memset|pool|dropout|bias|activation|gelu|silu|relu|adam|sgd|multi_tensor|foreach|rotary|rope|triton_(poi|red"
            r"|per|for)|saxpy|axpy|cast|pad|roll|topk|sort|scan|stencil|triad|nchwtonhwc|nhwctonchw|bn_(fw|bw|fwd|bwd)"
            r"|distribution_elementwise|quantize|masked|arange|upsample|interpolate|unrolled|vectorized|swizzle|permute"
            r"|cross_entropy|nll_loss|cumsum|bitonic|histogram|split_with_sizes|act_and_mul|reshape_and_cache",
            re.I,
        ),
    ),
)
_WRAPPERS = re.compile(r"^(device_kernel|kernel\d*|Kernel\d*|cutlass_kernel|kernel_entry|gemm_kernel_wrapper|launch)$")
_NAMESPACES = (
    (COMMUNICATION, re.compile(r"(?i)^(nccl|rccl|nvshmem|deep_ep|mscclpp?)$")),
    (COMPUTE, re.compile(r"(?i)^(cutlass|flash|fmha|gemm|ck|ck_tile|xmma|cask|cudnn|wgmma|deep_gemm|matmul)\w*$")),
    (MEMORY, re.compile(r"(?i)^(gemv\w*|cub|thrust|fused_?norm)$")),
)
_TAIL = re.compile(r"\s*\[clone .*$|\.kd$|\.llvm\.\d+$")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)|\{anonymous\}|<unnamed>")
_FUSED = re.compile(r"^triton_(poi|red|per|for|tem|mm)?_?fused_")
_LONGEST = 4000


class Kind(Struct, frozen=True):
    """kind: compute (multiplies matrices), memory (moves data), communication, unknown. said_by: "name", or "namespace"
    and "template" where the function's own name tells nothing: a guess."""

    kind: str
    said_by: str = "name"


@cache
def kind_of(name: str) -> Kind:
    """What a kernel does, by its demangled name."""
    space, base, inside = parts(name)
    if (found := _by_words(base)) != UNKNOWN:
        return Kind(found)
    if _WRAPPERS.match(base):
        for part in inside:
            if (within := kind_of(part).kind) != UNKNOWN:
                return Kind(within, "template")
    for one in reversed(space):
        for kind, words in _NAMESPACES:
            if words.match(one):
                return Kind(kind, "namespace")
    return Kind(UNKNOWN, "")


def _by_words(base: str) -> str:
    if _FUSED.match(base) and "_tem_" not in base:
        # inductor's names list the operators that are fused: a template or a foreign matrix product says so itself
        return COMPUTE if re.search(r"_(mm|bmm|addmm|baddbmm|convolution)(_|$)", base) and "tem" in base else MEMORY
    return next((kind for kind, words in _KINDS if words.search(base)), UNKNOWN)


def base_name(name: str) -> str:
    """`gemm` of `void a::b<int>::gemm<float, 4>(float*)`."""
    return parts(name)[1]


def parts(name: str) -> tuple[list[str], str, list[str]]:
    """(namespaces, base name, template arguments) of a demangled function; its return type, parameters and what stands
    in brackets elsewhere are left out."""
    text = _ANONYMOUS.sub("anon", _TAIL.sub("", name[:_LONGEST])).strip()
    spaces: list[str] = []
    arguments: list[str] = []
    word = argument = ""
    depth = 0
    for char in text:
        if char == "<":
            arguments, argument = (arguments, argument + char) if depth else ([], "")
            depth += 1
        elif char == ">" and depth:
            depth -= 1
            arguments, argument = (arguments, argument + char) if depth else ([*arguments, argument.strip()], "")
        elif char == "," and depth == 1:
            arguments, argument = [*arguments, argument.strip()], ""
        elif depth:
            argument += char
        elif char == "(":
            break
        elif char == ":":
            spaces, word, arguments = [*spaces, word] if word else spaces, "", []
        elif char in " \t*&":  # what stood before was a return type
            spaces, word, arguments = [], "", []
        else:
            word += char
    return spaces, word or text[:80], [a for a in arguments if a]
