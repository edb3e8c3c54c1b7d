"""What a fix can gain and what caps it."""
