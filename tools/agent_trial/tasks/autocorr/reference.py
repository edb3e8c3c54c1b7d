"""Products with a shifted copy, summed over pieces."""

import numpy


def autocorr(x):
    pieces = (len(x) - 2048) // 16384
    n = pieces * 16384
    rows = [(x[:n] * x[256 * lag : 256 * lag + n]).reshape(pieces, 16384).sum(-1) for lag in range(1, 9)]
    return numpy.stack(rows)
