"""Blocks in odd styles, each with a truth worked out by hand in `table.py`. Every module shows one family of oddities."""
