"""Candidates in torch that are right."""

import torch

EPS = 1e-6


def plain(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w


def library(x, w):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, EPS)


def norm(x, w):
    return x / torch.sqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / x.shape[-1] + EPS) * w


def inplace(x, w):
    out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)
    return out.mul_(w)


def no_grad(x, w):
    with torch.no_grad():
        return plain(x, w)


def requires_grad(x, w):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w.detach().requires_grad_(True), EPS).detach()


def wide(x, w):
    y = x.double()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPS) * w.double()).to(x.dtype)


def einsum(x, w):
    return x * torch.rsqrt(torch.einsum("ij,ij->i", x, x)[:, None] / x.shape[-1] + EPS) * w


def matmul(x, w):
    ones = torch.ones(x.shape[-1], 1, dtype=x.dtype, device=x.device)
    return x * torch.rsqrt((x * x) @ ones / x.shape[-1] + EPS) * w


def chunks(x, w):
    return torch.cat([plain(part, w) for part in x.split(16)])


def out_of_allocator(x, w):
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    torch.mul(plain(x, torch.ones_like(w)), w, out=out)
    return out


def contiguous(x, w):
    return library(x.contiguous(), w.contiguous())


class Module(torch.nn.Module):
    def forward(self, x, w):
        return plain(x, w)


def permuted(x, w):
    """Seeded and random in its order alone."""
    order = torch.randperm(x.shape[0], generator=torch.Generator().manual_seed(3)).to(x.device)
    out = torch.empty_like(x)
    out[order] = plain(x[order], w)
    return out
