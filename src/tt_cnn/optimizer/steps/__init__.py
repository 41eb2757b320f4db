"""The steps of the search, one file each; importing this package registers them."""

from tt_cnn.optimizer.steps import batch, devices, pipeline

__all__ = ["batch", "devices", "pipeline"]
