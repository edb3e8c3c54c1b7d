"""Rules on latency."""
