"""What warps recorded of themselves."""
