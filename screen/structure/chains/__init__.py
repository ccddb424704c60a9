"""Identity paths of residual streams."""
