"""Rules on overhead."""
