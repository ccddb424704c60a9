"""Published training outcomes against what is said of their designs: `python -m screen.outcomes score FILE.jsonl [--pairs PAIRS.jsonl]`, and the fit
of the constants of the risk. A row is one run or a group of runs whose design, recipe and outcome stand in cells (docs/outcomes.md)."""
