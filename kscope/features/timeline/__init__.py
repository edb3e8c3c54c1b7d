"""What follows from a recording of a whole program: gaps and their causes, steps, launch sequences."""
