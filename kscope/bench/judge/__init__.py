"""Our side of the socket: inputs, references, bounds, clocks, probes for cheats, the verdict."""
