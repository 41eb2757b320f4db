"""The PyTorch model with its weights: what is right."""

from pathlib import Path

from torch import nn

from tt_cnn.preprocessing.weights.checkpoints import load_into

from .hybrid import Hybrid

WEIGHTS = Path(__file__).parent / "weights.safetensors"


def create() -> nn.Module:
    model = Hybrid()
    load_into(model, WEIGHTS)
    return model.eval()
