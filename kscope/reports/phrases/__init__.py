"""What is said of a subject in whatever format: sentences and rows, no layout."""
