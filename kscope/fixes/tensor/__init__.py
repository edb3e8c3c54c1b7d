"""Products of matrices of two-byte numbers by tensor cores."""
