"""ttnn.repeat, repeat_interleave and expand."""
