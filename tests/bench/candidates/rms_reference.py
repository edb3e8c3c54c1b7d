"""Rows scaled by their root mean square: `x` of (m, n), `w` of (n)."""

import numpy as np


def rms(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.asarray(1e-6, x.dtype)) * w


def hardly(x, w):
    """Right answers that hardly vary: a mean over everything of a function between 0 and 1."""
    y = 1 / (1 + np.exp(-x.astype(np.float64) * 1e-7))
    return np.full(x.shape[:1], 1.0) * np.float64(0.5) + (y.mean(axis=-1) - 0.5) * 1e-3
