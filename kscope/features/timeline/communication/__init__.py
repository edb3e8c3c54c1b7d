"""What ranks sent each other, and what of it was hidden behind computation."""
