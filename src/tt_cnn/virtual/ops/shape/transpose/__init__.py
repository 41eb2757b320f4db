"""ttnn.transpose."""
