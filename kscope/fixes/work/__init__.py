"""Changes of how work is shared out and waited for: launches, grids, fences, rings, builds."""
