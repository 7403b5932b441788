"""Foreign formats: our weights in the shape that other engines read."""
