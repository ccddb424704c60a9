"""Values that have something in common: sums of the stream with itself, with its mean over tokens, with its own norm.

In a whole block, read as one program, a value is a linear form of *atoms*, values that are uncorrelated with each other: the state that the block
reads, and whatever a random weight (or anything else that is not linear) makes. Sums, factors, means over tokens and norms (a division by a number,
at large width) keep it one. Over n exchangeable tokens there are two numbers to a coefficient, one for what tokens have in their mean (P = 11ᵀ/n),
one for their differences (1 − P):

    v = Σ_k (a_k P + b_k (1 − P)) A_k        x + mean(x): a = 2, b = 1        (1 − g)·x + g·N(x): a = b = 1 − g + g·s

With (q, δ, m) of atom k, r = q − δ − m² what two tokens share, P A_k has the mean square (δ + n·r)/n + m² and (1 − P) A_k the rest, so that

    m' = Σ a m        δ' = Σ b²δ        n·r' + δ' = Σ a²(δ + n·r)        q' = δ' + r' + m'²

Backward, readers of a value that is no atom give it gradients that are uncorrelated with each other (through weights of their own), and each passes
to the atoms by the same coefficients, once: g + (n − 1)ḡ by a², g − ḡ by b².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.transfer import Average, Backs, Normalise, Shift, Slots, Step, Stretch, Sum, Within

Pair = tuple[float, float]
"""(a, b)."""
Form = dict[int, Pair]
"""Atom -> coefficients."""
Forms = dict[int, Form]
LINEAR = (Average, Normalise, Shift, Stretch, Sum, Within)


def extended(forms: Forms, step: Step, slots: Slots) -> Form:
    """The form of what a step makes, from those of what it reads."""
    if isinstance(step, Sum):
        total: Form = {}
        for source in step.sources:
            for atom, (a, b) in _form(forms, source).items():
                before = total.get(atom, (0.0, 0.0))
                total[atom] = before[0] + a, before[1] + b
        return total
    if isinstance(step, Average):
        return {atom: (a, 0.0) for atom, (a, _) in _form(forms, step.source).items()}
    if isinstance(step, Shift):
        return {**_form(forms, step.source), _number(step): (1.0, 1.0)}
    if isinstance(step, Stretch | Normalise | Within):
        times = step.factor if isinstance(step, Stretch) else math.sqrt(step.factor(slots)) if isinstance(step, Normalise) else 1.0
        return {atom: (a * times, b * times) for atom, (a, b) in _form(forms, step.source).items()}
    return {step.target: (1.0, 1.0)}


def _number(step: Step) -> int:
    """The atom that stands for what a step adds of its own: a bias, the mean that a norm takes off. No slot holds it."""
    return -step.target


def _form(forms: Forms, slot: int) -> Form:
    return forms.get(slot, {slot: (1.0, 1.0)})


def moments_of(form: Form, atoms: Callable[[int], Moments], tokens: int) -> Moments:
    """(q, δ, m) of a form."""
    mean = gap = whole = 0.0
    for atom, (a, b) in form.items():
        x = atoms(atom)
        mean += a * x.mean
        gap += b * b * x.gap
        whole += a * a * (x.gap + tokens * (x.power - x.gap - x.mean**2))
    shared = (whole - gap) / tokens
    return Moments(gap + shared + mean**2, gap, mean)


def forward(steps: Sequence[Step], slots: Slots, tokens: int, own: Slots | None = None, make: Callable[[Step], None] | None = None) -> Forms:
    """Fill all slots; the form of each that is no atom. `own`, `make`: the moments that norms divide by and what fills a slot, where `slots` are
    to hold other moments than those of tokens of one sequence."""
    sizes = slots if own is None else own
    forms: Forms = {}
    numbers: dict[int, Moments] = {}
    """What a step adds to the form of its source."""

    def atom(slot: int) -> Moments:
        return numbers[slot] if slot < 0 else slots[slot]

    for step in steps:
        if make is None:
            step.forward(slots)
        else:
            make(step)
        if not isinstance(step, LINEAR):
            continue
        form = forms[step.target] = extended(forms, step, sizes)
        if isinstance(step, Shift):
            numbers[_number(step)] = Moments(step.square, step.gap, step.mean)
        if isinstance(step, Normalise) and step.centred and sizes[step.source].mean:
            mean = -sizes[step.source].mean * math.sqrt(step.factor(sizes))
            form[_number(step)], numbers[_number(step)] = (1.0, 1.0), Moments(mean**2, 0.0, mean)
        slots[step.target] = moments_of(form, atom, tokens)
    return forms


def backward(steps: Sequence[Step], slots: Slots, backs: Backs, tokens: int) -> None:
    """Gradients at all atoms, from the one at the output."""
    forms = _forms(steps, slots)
    for step in reversed(steps):
        if step.target not in forms:
            step.backward(slots, backs)
            continue
        for atom, pair in forms[step.target].items():
            if atom >= 0:
                backs[atom] = backs[atom].plus(passed(backs[step.target], pair, tokens))


def identity(steps: Sequence[Step], slots: Slots, output: int) -> Pair:
    """The coefficients of the state that a block reads in what it makes: what no weight stands on."""
    return _forms(steps, slots).get(output, {}).get(0, (0.0, 0.0))


def _forms(steps: Sequence[Step], slots: Slots) -> Forms:
    forms: Forms = {}
    for step in steps:
        if isinstance(step, LINEAR):
            forms[step.target] = extended(forms, step, slots)
    return forms


def passed(gradient: Gradient, pair: Pair, tokens: int) -> Gradient:
    """What an atom with these coefficients has of a gradient."""
    a, b = pair
    common = (gradient.power + (tokens - 1) * gradient.shared) * a * a
    apart = (gradient.power - gradient.shared) * b * b
    return Gradient((common + (tokens - 1) * apart) / tokens, (common - apart) / tokens)


__all__ = ["Form", "Forms", "Pair", "backward", "forward", "identity", "passed"]
