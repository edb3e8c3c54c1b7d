"""Rules on compute."""
