"""`kscope log` and `kscope checklist`."""
