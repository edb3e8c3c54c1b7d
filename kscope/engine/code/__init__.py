"""Machine code without a run: programs of an Analysis, lints, two binaries side by side."""
