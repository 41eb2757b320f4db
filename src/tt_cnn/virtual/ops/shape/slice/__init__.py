"""ttnn.slice, and indexing with brackets."""
