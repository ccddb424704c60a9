"""What weights and buffers start as."""
