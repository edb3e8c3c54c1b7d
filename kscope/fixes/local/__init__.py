"""Local arrays: what keeps them in registers where their indices come from data or from the launch."""
