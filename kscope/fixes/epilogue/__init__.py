"""Stores behind products: how the lanes of a warp share them."""
