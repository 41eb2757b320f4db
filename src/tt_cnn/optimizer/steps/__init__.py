"""The steps of the search, one file each; importing this package registers them."""
