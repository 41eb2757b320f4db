"""ttnn.permute."""
