"""The process that runs the user's code, from both ends."""
