"""Formats of recipes, one file each: `ORDER` (asked in ascending order), `fits(document)` and `read(document)`.

A format of another distribution is found through the entry point group `screen.recipe.formats`, and asked before ours.
"""
