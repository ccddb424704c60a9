"""What a graph is made of, by data flow alone: norms, streams, branches, blocks. No calculus here."""
