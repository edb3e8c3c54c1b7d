"""Candidates for `rms` that are right, in ways that a harness could take for something else."""

import functools
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

EPS = 1e-6
POOL = ThreadPoolExecutor(2)
TUNED = {}
LOG = logging.getLogger(__name__)


def plain(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.asarray(EPS, x.dtype)) * w


def einsum(x, w):
    scale = np.einsum("...i,...i->...", x, x)[..., None] / np.asarray(x.shape[-1], x.dtype)
    return x / np.sqrt(scale + np.asarray(EPS, x.dtype)) * w


def rows(x, w):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i] / np.sqrt(np.dot(x[i], x[i]) / np.asarray(x.shape[1], x.dtype) + np.asarray(EPS, x.dtype)) * w
    return out


def reciprocal(x, w):
    scale = np.asarray(1, x.dtype) / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.asarray(EPS, x.dtype))
    return x * scale * w


def inplace_temporaries(x, w):
    out = x * x
    scale = out.mean(axis=-1, keepdims=True)
    scale += np.asarray(EPS, x.dtype)
    np.sqrt(scale, out=scale)
    np.divide(x, scale, out=out)
    out *= w
    return out


def threads(x, w):
    """Two threads, waited for."""
    half = x.shape[0] // 2
    if not half:
        return plain(x, w)
    return np.concatenate(list(POOL.map(lambda part: plain(part, w), (x[:half], x[half:]))))


def blocks(x, w):
    return np.concatenate([plain(x[i : i + 16], w) for i in range(0, x.shape[0], 16)])


def contiguous(x, w):
    return plain(np.ascontiguousarray(x), np.ascontiguousarray(w))


def refuses(x, w):
    if not x.flags.c_contiguous:
        raise ValueError("contiguous inputs alone")
    return plain(x, w)


def tuner(x, w):
    """Tries two ways on the first call of a shape and keeps the choice, not the result."""
    if x.shape not in TUNED:
        import timeit

        ways = (plain, reciprocal)
        TUNED[x.shape] = min(ways, key=lambda way: timeit.timeit(lambda: way(x, w), number=3))
    return TUNED[x.shape](x, w)


@dataclass
class Settings:
    eps: float = EPS


@functools.lru_cache
def settings(columns):
    return Settings()


def configured(x, w):
    """A dataclass and a cache of what depends on the shape alone."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.asarray(settings(x.shape[1]).eps, x.dtype)) * w


def logs(x, w):
    LOG.warning("called with %s", x.shape)
    return plain(x, w)


def prints(x, w):
    print('{"verdict": "fine"}')
    return plain(x, w)


def transposed_view(x, w):
    """A view of what it made itself."""
    out = np.empty(x.shape[::-1], x.dtype)
    out.T[...] = plain(x, w)
    return out.T


def wider(x, w):
    """Computes in more bits than asked for."""
    y = x.astype(np.float64)
    return (y / np.sqrt((y * y).mean(axis=-1, keepdims=True) + EPS) * w).astype(x.dtype)


def tries(x, w):
    """An exception that is part of the way."""
    try:
        x.reshape(-1).data.cast("Z")
    except (TypeError, ValueError):
        return plain(x, w)
    return x


def seeded(x, w):
    """Random, with a seed of its own, and right: rows in a random order."""
    order = np.random.default_rng(7).permutation(x.shape[0])
    out = np.empty_like(x)
    out[order] = plain(x[order], w)
    return out


def slower(x, w):
    for _ in range(3):
        out = plain(x, w)
    return out
