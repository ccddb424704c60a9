"""From a branch to a program of moments."""
