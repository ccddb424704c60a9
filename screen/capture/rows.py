"""All rows of the table of inputs: importing this fills it."""

from __future__ import annotations

from screen.capture import rows_sound, rows_text, rows_vision
from screen.capture.table import ROWS, Like, Row

SOURCES = (rows_text, rows_vision, rows_sound)
"""Where the rows stand."""

__all__ = ["ROWS", "SOURCES", "Like", "Row"]
