"""What a forward is called with."""
