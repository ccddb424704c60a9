"""One tiny call for every op that a calculus has a rule for, and a judge for each calculus (`table`, `block`; `tests/**/test_rows_*.py`)."""
