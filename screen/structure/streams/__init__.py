"""Streams with their sublayers and kinds of blocks."""
