"""Loads on their way: those of several rounds or elements of a thread before the first of them is used."""
