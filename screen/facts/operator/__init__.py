"""The stream as a linear operator: x' = A·x + G(x), A the exact sum over all paths without a weight or a nonlinearity.

`polynomial` holds coefficients, `constants` the numbers in a graph, `forms` reads each state of a stream as a sum over earlier states and branch
outputs, `recurrence` composes these sums over depth: the gain of the identity path, and how far each branch's output is carried. `whole` does so for
several streams at once that end in one sum.
"""

from __future__ import annotations

from screen.facts.operator.recurrence import Law, StreamOperator, law_of_carried, operators_of
from screen.facts.operator.whole import Whole, goes_on, whole_of

__all__ = ["Law", "StreamOperator", "Whole", "goes_on", "law_of_carried", "operators_of", "whole_of"]
