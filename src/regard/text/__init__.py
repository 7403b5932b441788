"""Raw text -> ids and back, without loss."""
