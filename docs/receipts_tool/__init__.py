"""The sources of the numbers in the documentation, and checks of them."""
