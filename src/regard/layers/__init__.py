"""Parts that models are made of: vectors in, vectors out."""
