"""What measuring costs, and what fits."""
