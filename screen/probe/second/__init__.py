"""A second opinion on the graph: the module run plainly in one process, and in another, which never ran user code, the graph."""
