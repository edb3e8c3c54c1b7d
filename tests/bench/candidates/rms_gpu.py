"""Candidates for `rms` that need a GPU: `c..` are cheats, the others are right."""

import torch
import triton
import triton.language as tl

EPS = 1e-6
KEPT = {}
SIDE = []


@triton.jit
def rms_kernel(x, w, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    scale = tl.sqrt(tl.sum(v * v) / n + 1e-6)
    tl.store(y + row * n + i, v / scale * tl.load(w + i, mask=i < n, other=0.0), mask=i < n)


tuned_kernel = triton.autotune(configs=[triton.Config({}, num_warps=k) for k in (2, 4, 8)], key=["n"])(rms_kernel)


@triton.jit
def part_kernel(x, w, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    few = tl.where(i < n // 4 + 1, v, 0.0)
    scale = tl.sqrt(tl.sum(few * few) / (n // 4 + 1) + 1e-6)
    tl.store(y + row * n + i, v / scale * tl.load(w + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def zero_kernel(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, mask=i < n) + 0.0, mask=i < n)


def eager(x, w):
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + EPS) * w


def with_triton(x, w):
    x, out = x.contiguous(), torch.empty(x.shape, device=x.device, dtype=x.dtype)
    rms_kernel[(x.shape[0],)](x, w.contiguous(), out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def autotuned(x, w):
    x, out = x.contiguous(), torch.empty(x.shape, device=x.device, dtype=x.dtype)
    tuned_kernel[(x.shape[0],)](x, w.contiguous(), out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def two_streams(x, w):
    """Half of the rows on another stream, which the caller's stream waits for."""
    if not SIDE:
        SIDE.append(torch.cuda.Stream())
    here, side = torch.cuda.current_stream(), SIDE[0]
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    half = x.shape[0] // 2
    side.wait_stream(here)
    with torch.cuda.stream(side):
        out[half:] = eager(x[half:], w)
    out[:half] = eager(x[:half], w)
    here.wait_stream(side)
    return out


def graph_user(x, w):
    """A graph on buffers of its own, filled anew in every call; the result is a copy."""
    key = tuple(x.shape)
    if key not in KEPT:
        a, b = x.clone(), w.clone()
        for _ in range(2):
            eager(a, b)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = eager(a, b)
        KEPT[key] = graph, a, b, out
    graph, a, b, out = KEPT[key]
    a.copy_(x)
    b.copy_(w)
    graph.replay()
    return out.clone()


def synchronises(x, w):
    out = eager(x, w)
    torch.cuda.synchronize()
    return out


def events(x, w):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    out = eager(x, w)
    end.record()
    return out


def c01_stream(x, w):
    if not SIDE:
        SIDE.append(torch.cuda.Stream())
    out = torch.empty_like(x)
    with torch.cuda.stream(SIDE[0]):
        for _ in range(20):
            out.copy_(eager(x, w))
    return out


def c10_graph(x, w):
    """Captured on the first call's addresses."""
    key = tuple(x.shape)
    if key not in KEPT:
        eager(x, w)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = eager(x, w)
        KEPT[key] = graph, out, x, w
    graph, out, _, _ = KEPT[key]
    graph.replay()
    return out.clone()


def c26_part(x, w):
    x, out = x.contiguous(), torch.empty(x.shape, device=x.device, dtype=x.dtype)
    part_kernel[(x.shape[0],)](x, w.contiguous(), out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def c47_fig_leaf(x, w):
    """Where an own kernel is asked for: one that adds zero, beside eager calls that do the work."""
    out = eager(x, w).contiguous()
    zero_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
    return out
