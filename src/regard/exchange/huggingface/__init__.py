"""Folders that `transformers` saved: read as runs of ours, and written from them."""
