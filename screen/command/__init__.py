"""The command line: what each command does, progress, messages, and what the machine has."""
