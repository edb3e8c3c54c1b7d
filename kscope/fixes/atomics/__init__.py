"""Atomics that a block combines first, and sums whose parts meet in atomics."""
