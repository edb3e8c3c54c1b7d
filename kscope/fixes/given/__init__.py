"""What a change is made for, and the text that it is made of: the code, the launch, lines and calls of the source."""
