"""Comparisons of translators: what is measured of them, and how it is shown."""
