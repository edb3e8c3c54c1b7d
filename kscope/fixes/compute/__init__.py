"""Changes of arithmetic: divisions, functions, conversions, literals."""
