"""What several rules share: bases, evidence and remedies. A rule imports from here, never from another rule."""
