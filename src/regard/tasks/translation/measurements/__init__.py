"""What is measured of translators besides their scores."""
