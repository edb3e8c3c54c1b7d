"""`kscope fleet`."""
