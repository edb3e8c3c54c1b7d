"""Sums that many threads add to: put together by those that meet, and work that more blocks share."""
