"""Code that is as long as its cases or rounds: one body for many, with what tells them apart as numbers."""
