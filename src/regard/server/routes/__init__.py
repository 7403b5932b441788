"""What is answered at which path."""
