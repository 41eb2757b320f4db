"""ttnn.fold."""
