"""One target from its text to a report, and the second round that measures."""
