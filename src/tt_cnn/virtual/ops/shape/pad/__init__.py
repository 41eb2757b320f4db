"""ttnn.pad and ttnn.fill_implicit_tile_padding."""
