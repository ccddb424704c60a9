"""Capture: from a target to a `Graph`. The only side that sees torch and the user's code."""
