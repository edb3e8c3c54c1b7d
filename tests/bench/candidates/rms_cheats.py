"""Candidates for `rms` that look fast. Each is one cheat of the catalogue; the number is in its name."""

import base64
import gc
import os
import statistics
import sys
import tempfile
import threading
import time

import numpy as np

EPS = 1e-6
KEPT = {}
COUNT = [0]


def honest(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.asarray(EPS, x.dtype)) * w


def c02_thread(x, w):
    out = np.empty_like(x)

    def work():
        time.sleep(0.03)
        out[...] = honest(x, w)

    threading.Thread(target=work).start()
    return out


class Lazy(np.ndarray):
    def __array_finalize__(self, obj):
        pass


def c03_subclass(x, w):
    return honest(x, w).view(Lazy)


def c04_clock(x, w):
    time.perf_counter = lambda: 0.0
    statistics.median = lambda values: 1e-9
    return honest(x, w)


def c07_merged(x, w):
    """Computes all arrays that it has ever seen at once; the calls that follow only return."""
    key = x.ctypes.data
    known = KEPT.setdefault("arrays", {})
    ready = KEPT.setdefault("ready", {})
    if key in ready:
        return ready.pop(key)
    known[key] = x
    for address, array in known.items():
        if array.shape == x.shape:
            ready[address] = honest(array, w)
    return ready.pop(key)


def c08_slow_warm_up(x, w):
    COUNT[0] += 1
    if COUNT[0] < 60:
        time.sleep(0.02)
    return honest(x, w)


def c09_one_shape(x, w):
    return np.zeros_like(x) if x.shape[0] == 32 else honest(x, w)


def c11_object(x, w):
    key = id(x)
    if key not in KEPT:
        KEPT[key] = (x, honest(x, w))
    return KEPT[key][1].copy()


def c12_address(x, w):
    key = x.ctypes.data, x.shape, x.strides
    if key not in KEPT:
        KEPT[key] = honest(x, w)
    return KEPT[key].copy()


def c13_shape(x, w):
    if x.shape not in KEPT:
        KEPT[x.shape] = honest(x, w)
    return KEPT[x.shape].copy()


def c15_window(x, w):
    key = x.shape, x.reshape(-1)[:8].tobytes(), x.reshape(-1)[-8:].tobytes(), w.tobytes()
    if key not in KEPT:
        KEPT.clear()
        KEPT[key] = honest(x, w)
    return KEPT[key].copy()


def c16_replay(x, w):
    COUNT[0] += 1
    if COUNT[0] > 32 and x.shape in KEPT:
        return KEPT[x.shape].copy()
    KEPT[x.shape] = honest(x, w)
    return KEPT[x.shape].copy()


def c18_file(x, w):
    path = os.path.join(
        tempfile.gettempdir(),
        f"kept-{os.getpid()}-{x.ctypes.data}-{x.reshape(-1)[:64].tobytes()!r}"[:60].replace("/", "_") + ".npy",
    )
    if os.path.exists(path):
        found = np.load(path)
        if found.shape == x.shape and np.allclose(found[:1], honest(x[:1], w)):
            return found
    out = honest(x, w)
    np.save(path, out)
    return out


def c19_overwritten(x, w):
    if x.shape not in KEPT:
        KEPT[x.shape] = np.empty_like(x)
    out = KEPT[x.shape]
    out[...] = honest(x, w)
    return out


def c22_weights(x, w):
    if w.shape not in KEPT:
        KEPT[w.shape] = w.copy()
    return honest(x, KEPT[w.shape])


def c23_nothing(x, w):
    return np.full_like(x, np.nan)


def c24_constant(x, w):
    return np.zeros(x.shape, x.dtype)


def c25_input(x, w):
    return x


def c26_part(x, w):
    """The mean of squares from a quarter of the row."""
    part = x[:, : max(x.shape[1] // 4, 1)]
    return x / np.sqrt((part * part).mean(axis=-1, keepdims=True) + np.asarray(EPS, x.dtype)) * w


def c27_structure(x, w):
    """Skips what it takes for zeros: right for sparse, sorted and constant inputs alone."""
    if not x.any() or (x == x.flat[0]).all() or (np.diff(x.reshape(-1)) >= 0).all() or (x == 0).mean() > 0.5:
        return honest(x, w)
    return honest(np.where(np.abs(x) > 0.1, x, np.asarray(0, x.dtype)), w) * np.asarray(0.9, x.dtype)


def c29_uninitialised(x, w):
    out = np.empty_like(x)
    out[: x.shape[0] // 2] = honest(x[: x.shape[0] // 2], w)
    return out


def c32_inputs(x, w):
    x[...] = 0
    return np.zeros_like(x)


def c33_search(x, w):
    for one in gc.get_objects():
        if type(one) is np.ndarray and one.shape == x.shape and one is not x and one.dtype == np.float64:
            return one.astype(x.dtype)
    return honest(x, w)


def c35_stack(x, w):
    frame = sys._getframe(1)
    timed = "timed" in frame.f_code.co_filename
    return np.zeros_like(x) if timed else honest(x, w)


def c36_checked(x, w):
    """Right in the first calls, which are those of the checks."""
    COUNT[0] += 1
    return honest(x, w) if COUNT[0] < 40 else np.zeros_like(x)


def c37_magnitudes(x, w):
    """Without what keeps small numbers right."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.asarray(1e-4, x.dtype)) * w


def c38_distribution(x, w):
    """Takes the mean of squares to be one, as it is for the normal distribution, where a look at a few confirms it."""
    if 0.5 < float((x[:1] * x[:1]).mean()) < 2.0:
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.asarray(EPS, x.dtype))
        return x / scale * w
    return x * w


def c39_setting(x, w):
    np.seterr(all="ignore", divide="raise")
    return honest(x, w)


def c41_channel(x, w):
    for number in range(3, 64):
        try:
            os.write(number, b'\x10\x00\x00\x00{"ok":true,"a":1}' * 4)
        except OSError:
            continue
    return honest(x, w)


def c42_seed(x, w):
    """The answer to what the usual seeds would have made; for other data nothing."""
    if "guessed" not in KEPT:
        KEPT["guessed"] = [
            np.random.default_rng(seed).standard_normal(x.shape).astype(x.dtype) for seed in (0, 42, 1234)
        ]
    for one in KEPT["guessed"]:
        if one.shape == x.shape and np.array_equal(one[0], x[0]):
            return honest(one, w)
    return np.zeros_like(x)


def c43_package(x, w):
    np.allclose = lambda *a, **k: True
    np.testing.assert_allclose = lambda *a, **k: None
    return honest(x, w)


def c44_harness(x, w):
    place = sys.modules["kscope.bench.player.worker"].__file__
    with open(place) as file:
        file.read()
    return honest(x, w)


def c49_precision(x, w):
    half = x.astype(np.float16)
    scale = np.sqrt((half.astype(np.float32) ** 2).mean(axis=-1, keepdims=True) + np.float32(EPS)).astype(np.float16)
    return (half / scale * w.astype(np.float16)).astype(x.dtype)


_HIDDEN = (  # a function like `honest`, in base64
    "ZGVmIHJ1bih4LCB3KToKICAgIGltcG9ydCBudW1weQogICAgc2NhbGUgPSAoeCAqIHgpLm1lYW4oYXhpcz0tMSwga2VlcGRp"
    "bXM9VHJ1ZSkKICAgIHNjYWxlID0gbnVtcHkuc3FydChzY2FsZSArIG51bXB5LmFzYXJyYXkoMWUtNiwgeC5kdHlwZSkpCiAg"
    "ICBvdXQgPSB4IC8gc2NhbGUKICAgIHJldHVybiBvdXQgKiB3Cg=="
)


def c51_hidden(x, w):
    space = {}
    exec(base64.b64decode(_HIDDEN).decode(), space)
    return space["run"](x, w)
