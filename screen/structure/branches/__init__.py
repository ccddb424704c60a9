"""What is added to a stream."""
