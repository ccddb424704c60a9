"""What is derived of a branch: degrees, bounds, moments at the start.

They are siblings. The one thing that one asks of another is told here: a group of weights of exact positive degree is a witness that a bound over
all weights is infinite.
"""

from screen.calculi.bounds.interpreter import PATTERNS
from screen.calculi.degrees import laws_of

PATTERNS.exact_degrees = laws_of
