"""Experiment `depth`: a block stacked 4 … 64 times (`laws`), as the user's code starts a model of each depth (`starts`), and what fits (`fits`)."""
