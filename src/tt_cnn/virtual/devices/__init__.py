"""Cards: opening, closing, and what an open one has."""
