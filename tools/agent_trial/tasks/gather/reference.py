"""Eight elements of a volume, 977 apart in memory, its end joined to its beginning."""


def gather(x):
    flat = x.reshape(-1)
    total = flat * 0
    for k in range(8):
        shift = k * 977 % len(flat)
        total[: len(flat) - shift] += flat[shift:]
        total[len(flat) - shift :] += flat[:shift]
    return total.reshape(x.shape)
