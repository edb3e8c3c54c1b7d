"""SASS text to instructions, and their control fields."""
