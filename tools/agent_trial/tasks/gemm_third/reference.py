"""A product of matrices."""


def gemm_third(a, b):
    return a @ b
