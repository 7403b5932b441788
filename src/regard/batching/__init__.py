"""Examples -> batches: which pairs go together, in what order, in what shape."""
