"""Changes to a kernel, computed from its code and proved by running the lanes on what they change."""
