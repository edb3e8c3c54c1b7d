"""Markdown for people: `page` the analysis, its parts beside it."""
