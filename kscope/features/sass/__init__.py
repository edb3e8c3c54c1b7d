"""What follows from a listing alone: graph, def-use, scoreboards, loops, a warp's walk through it."""
