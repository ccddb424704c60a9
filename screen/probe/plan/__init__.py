"""What the probe is asked to measure: made of facts, plain data, without torch."""
