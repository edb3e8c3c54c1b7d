"""Recordings of whole programs: torch profiler traces and Nsight Systems exports."""
