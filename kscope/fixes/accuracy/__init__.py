"""Changes that trade accuracy for instructions: intrinsics, reciprocals, products for powers, float for double."""
