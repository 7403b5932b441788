"""Translation, and chat as translation of messages into answers: recipe, data, training."""
