"""ttnn.reshape, and views: the same memory under another shape."""
