"""The same in torch, a product, and work that takes as long as it is told."""

import torch


def rms(x, w):
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6) * w


def mm(a, b):
    return a @ b


def chain(x, n, turns):
    a, b = x, x
    for _ in range(turns):
        a, b = a * 0.999 + 0.001, b * 0.998 + 0.002
    return a + b


def double(x):
    return x * 2


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.linear(x)
