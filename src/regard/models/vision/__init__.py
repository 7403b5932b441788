"""Models of pictures: captioners and classifiers."""
