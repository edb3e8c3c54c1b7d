"""Shapes that code has: products, copies, dependency chains, math functions, what a fix removes."""
