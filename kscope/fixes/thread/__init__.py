"""What one thread does: the order of its loads and stores, how many results it makes, how wide its accesses are."""
