"""Classifiers of pictures that `transformers` saved."""
