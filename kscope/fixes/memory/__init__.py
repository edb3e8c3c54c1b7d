"""Changes of global and local memory: who reads what, how wide, from where."""
