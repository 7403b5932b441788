"""Labelled examples, for classifiers."""
