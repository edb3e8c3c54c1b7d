"""Nsight Compute reports: NVIDIA's reader in a process of its own, its plain values as Kernels."""
