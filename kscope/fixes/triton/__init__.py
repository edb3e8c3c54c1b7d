"""Changes in the words of Triton."""
