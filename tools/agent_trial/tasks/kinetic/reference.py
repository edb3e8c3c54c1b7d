"""Kinetic energies of records of twelve floats."""


def kinetic(x):
    v = x[:, 3:6]
    return 0.5 * x[:, 6] * (v * v).sum(-1)
