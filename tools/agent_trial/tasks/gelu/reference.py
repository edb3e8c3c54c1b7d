"""GELU with tanh, eight times."""

import numpy


def gelu(x):
    for _ in range(8):
        x = 0.5 * x * (1.0 + numpy.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return x
