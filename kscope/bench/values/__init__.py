"""Frozen values of the benchmark: number formats, results, the catalogue of cheats."""
