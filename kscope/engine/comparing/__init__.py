"""Versions side by side: which kernel became which, which promise held, and gates."""
