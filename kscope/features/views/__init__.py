"""What people look at: annotated code, charts, columns."""
