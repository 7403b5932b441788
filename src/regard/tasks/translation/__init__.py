"""Translation, and chat, which translates what was said into an answer: recipe, data, learning."""
