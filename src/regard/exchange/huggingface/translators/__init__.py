"""Translators that `transformers` saved, and their tokenizers."""
