"""Graph capture, and what a captured graph tells."""
