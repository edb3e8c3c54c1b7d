"""Copies and products that could be on their way while others are used."""
