"""Documents -> documents: their text is translated, all else is copied."""
