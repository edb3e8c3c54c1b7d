"""What is asked of a candidate: a task file or the options of the command, and how each kind of candidate is built."""
