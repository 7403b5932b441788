"""Text -> text: a saved model as a function."""
