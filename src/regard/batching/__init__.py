"""Examples -> batches: their composition, order and shape."""
