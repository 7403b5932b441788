"""A saved run as a function: of text, of pictures, or of a series."""
