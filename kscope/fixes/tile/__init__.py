"""Arrays in shared memory: what accesses them, layouts that clear them, and their code."""
