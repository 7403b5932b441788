"""YAML -> settings -> objects: the one place where the folders are wired together."""
