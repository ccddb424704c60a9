"""Calculators of the theorems: numbers in, numbers out, with numpy and `math` alone.

One module, one theorem or one family of closed forms. No module of this package imports another part of `screen`, nor another module
of the package: each file can be read, checked and used by itself. The derivations stand in `docs/theory.md` under the same names
(T1 … T10), the list of what the four papers claim in `docs/papers.md`.

Conventions, used everywhere: a token is a row, so a state is `[tokens, width]`; a linear map acts from the right, `y = x W` with
`W: [in, out]`; ‖·‖ of a vector is the plain 2-norm, of a matrix the spectral norm; rms(x) = ‖x‖/√width; a bound is the maximum over
tokens. A wrong argument raises `ValueError` that says what is required and what was found.
"""
