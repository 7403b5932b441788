"""Folders that `transformers` saved: read as our runs, and written from them."""
