"""What is learned: the recipe, the batches, the loss and the metrics of each task."""
