"""One run of a forward, watched, as a graph."""
