"""What several rules need, computed once from a Kernel: see `kscope.features.facts.Facts`."""
