"""Rules and a format of one house."""
