"""Commands about this machine: programs under a profiler, the GPU's measured roofs, what is installed."""
