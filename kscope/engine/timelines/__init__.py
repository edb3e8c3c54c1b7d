"""Recordings of whole programs: one, the ranks of a job, and recordings joined with kernel reports."""
