"""`kscope dev`: for people who work on kscope itself."""
