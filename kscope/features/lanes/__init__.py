"""Values of the 32 lanes of a warp, and what they prove: conflicts, strides, loads that can be merged."""
