"""Weights in four bins. x lies in [0.5, 1), so that bins and weights are exact in every format."""

import numpy


def histogram(x):
    bins = (x * 8).astype("int64") & 3
    weights = (x * 4).astype("int64")
    return numpy.array([weights[bins == k].sum() for k in range(4)], dtype="int32")
