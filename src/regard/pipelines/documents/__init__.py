"""Documents -> documents: what is text is translated, all else stays as it is."""
