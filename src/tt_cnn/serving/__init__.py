"""Models behind HTTP, in the open inference protocol v2: `tt-cnn serve`."""
