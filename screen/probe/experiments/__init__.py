"""One file for each experiment on a block or a model."""
