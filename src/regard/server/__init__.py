"""HTTP requests -> answers: saved models behind LibreTranslate's interface, and our own."""
