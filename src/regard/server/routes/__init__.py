"""The routes of the server, by what they serve."""
