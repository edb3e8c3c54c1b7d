"""Fewer examples for properties of which each takes a quarter of a second: a third of what the profile asks for."""

from hypothesis import settings

FEWER = settings(max_examples=settings().max_examples // 3)
