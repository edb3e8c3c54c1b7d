"""Changes by algebra: indices, searches and comparisons that come out the same with fewer operations."""
