"""The regime, the verdict in words, and the next step."""
