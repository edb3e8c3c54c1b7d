"""Warps of a block that have roles of their own: what orders them, and what they wait for without need."""
