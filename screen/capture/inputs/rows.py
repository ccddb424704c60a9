"""All rows of the table of inputs: importing this fills it."""

from __future__ import annotations

from screen.capture.inputs import audio, text, vision
from screen.capture.inputs.registry import ROWS, Like, Row

SOURCES = (text, vision, audio)
"""Where the rows stand."""

__all__ = ["ROWS", "SOURCES", "Like", "Row"]
