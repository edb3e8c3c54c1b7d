"""Changes of arithmetic: divisions of integers, conversions, products, fewer threads for more."""
