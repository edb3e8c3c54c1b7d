"""Commands that read reports and binaries and say what they found."""
