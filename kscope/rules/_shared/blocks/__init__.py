"""Blocks and what their warps and threads are for."""
