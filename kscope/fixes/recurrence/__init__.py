"""Serial work taken apart: recurrences, walks and sums whose steps can be joined in another way."""
