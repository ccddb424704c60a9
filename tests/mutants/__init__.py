"""Random changes of verdict, rules, ops and calculi, and whether the tests find them: `python -m tests.mutants`.

`draw` makes changes from the sources, `reached` says which tests enter which functions, `hunt` runs those tests on a copy of the sources that has one
change, `page` writes `docs/mutations.md`. Fixed changes of the bounds, hunted by random designs, are those of `tests/soundness/mutations.py`.
"""
