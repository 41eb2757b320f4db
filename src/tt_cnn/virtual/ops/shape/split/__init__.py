"""ttnn.split."""
