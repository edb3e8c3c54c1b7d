"""Cheats for `rms` that need torch; most run on a CPU as well."""

import threading
import time

import torch

KEPT = {}
COUNT = [0]


def honest(x, w):
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6) * w


def c02_thread(x, w):
    out = torch.empty_like(x)

    def work():
        time.sleep(0.03)
        out.copy_(honest(x, w))

    threading.Thread(target=work).start()
    return out


class Lazy(torch.Tensor):
    pass


def c03_subclass(x, w):
    return honest(x, w).as_subclass(Lazy)


def c04_clock(x, w):
    torch.cuda.synchronize = lambda *a: None
    torch.cuda.Event.elapsed_time = lambda *a: 1e-9
    return honest(x, w)


def c12_address(x, w):
    key = x.data_ptr(), x.shape
    if key not in KEPT:
        KEPT[key] = honest(x, w)
    return KEPT[key].clone()


def c14_version(x, w):
    key = x.data_ptr(), x._version, x.shape
    if key not in KEPT:
        KEPT[key] = honest(x, w)
    return KEPT[key].clone()


def c15_window(x, w):
    key = tuple(x.shape), tuple(x.reshape(-1)[:4].tolist()), tuple(x.reshape(-1)[-4:].tolist())
    if key not in KEPT:
        KEPT.clear()
        KEPT[key] = honest(x, w)
    return KEPT[key].clone()


def c23_nothing(x, w):
    return torch.empty_like(x)


def c25_input(x, w):
    return x.clone()


def c39_precision(x, w):
    torch.set_float32_matmul_precision("medium")
    return honest(x, w)


def c39_type(x, w):
    torch.set_num_threads(1 if torch.get_num_threads() != 1 else 2)
    return honest(x, w)


def c45_library(x, w):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, 1e-6)


def c48_fallback(x, w):
    try:
        raise RuntimeError("the kernel did not compile")
    except RuntimeError:
        return honest(x, w)


def c49_half(x, w):
    return honest(x.bfloat16(), w.bfloat16()).float()
