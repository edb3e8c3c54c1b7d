"""One module a format: `mutate(rng, data) -> bytes`, faults that keep most of the structure so that they get far."""
