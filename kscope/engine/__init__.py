"""Runs the rules, names the regime, caps and ranks."""
