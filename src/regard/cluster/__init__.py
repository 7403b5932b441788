"""Ray: bulk translation and serving on several machines."""
