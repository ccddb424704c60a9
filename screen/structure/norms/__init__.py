"""Norms by what they compute."""
