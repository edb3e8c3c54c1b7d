"""`kscope init` and `kscope bench`."""
