"""Lanes that stand apart, or take little at once: accesses of a thread's neighbours as one."""
