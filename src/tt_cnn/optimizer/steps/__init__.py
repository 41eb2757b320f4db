"""The steps of the search, one file each; importing this package registers them."""

from tt_cnn.optimizer.steps import batch, devices, pipeline
from tt_cnn.optimizer.steps.base import STEPS, OptimizationStep, register_step

__all__ = ["STEPS", "OptimizationStep", "batch", "devices", "pipeline", "register_step"]
