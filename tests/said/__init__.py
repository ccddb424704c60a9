"""What is said of small models, on record: `tests/said/*.json`, written by `python -m tests.expected --write`.

A test of a law sees what is wrong; it does not see what became coarser, a guard that no longer guards, or a sentence with another number. So all
that is derived of every call of `tests/rows`, of every example of the rules, of blocks and stacks that tests
of single calculi have, and of facts written by hand with one field changed at a time is written down.
A change that is meant changes the record, and the difference is there to be read.

A line may turn on two things at once: of compositions of calls, of stacks, of small models and of facts with several fields
changed, drawn at random, what is said is on record as digests alone (`drawn.json`, `small.json`, `groups.json`), and so is what is said of the
models that tests of single calculi hold against real ones (`tried.json`), of blocks of the adversarial rounds (`rounds.json`), and of facts with
several claims at once on both sides of thresholds (`crossed.json`). Of models it is on record, too, what the calculi know of every value inside
(`inside.py`): at their ends a sum or a norm may hide what became coarser on the way.
"""
