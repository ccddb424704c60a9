"""What weights start as."""
