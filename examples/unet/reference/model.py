"""The PyTorch model with its weights: what is right."""

from pathlib import Path

from torch import nn

from tt_cnn.preprocessing.weights.checkpoints import load_into

from .unet import UNet

WEIGHTS = Path(__file__).parent / "weights.safetensors"


def create() -> nn.Module:
    model = UNet()
    load_into(model, WEIGHTS)
    return model.eval()
