"""A saved classifier as a function of texts or pictures."""
