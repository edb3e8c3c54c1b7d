"""A transpose."""


def transpose(x):
    return x.T
