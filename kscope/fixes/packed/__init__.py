"""Several results of a thread side by side, and arithmetic on packed numbers."""
