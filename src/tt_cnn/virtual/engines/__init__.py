"""What computes the numbers: torch on the CPU or on CUDA."""

from tt_cnn.virtual.engines.engine import Engine, create_engine

__all__ = ["Engine", "create_engine"]
