"""Warps with roles: who they are, what they wait for, what of it matters."""
