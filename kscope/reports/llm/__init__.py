"""Markdown for a language model within a budget: `page` fits what the other modules say in blocks."""
