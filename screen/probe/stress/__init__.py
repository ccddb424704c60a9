"""Experiment `stress`: a short training over learning rates (`sweep`), on a synthetic task (`tasks`), by one optimiser (`training`)."""
