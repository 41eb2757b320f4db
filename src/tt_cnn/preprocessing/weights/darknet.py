# SPDX-License-Identifier: Apache-2.0
"""Darknet's weights file: a header, then the numbers of every convolution, one after the other, without names.

    int32 major, minor, revision
    the number of images seen: uint64 from version 0.2 on, uint32 before
    of each convolution, in single precision:
      with batch norm: shift, scale, mean, variance (outputs each), weights (outputs, inputs, height, width)
      without:         bias (outputs), weights

The file says nothing of the layers, so a model must define its convolutions in the order of darknet's configuration,
each batch norm right after its convolution, and the lengths must come out even.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

VERSION = (0, 2, 5)
_VERSIONS = struct.Struct("<3i")


@dataclass(frozen=True)
class DarknetLayer:
    """A convolution with its batch norm, if it has one."""

    name: str
    conv: nn.Conv2d
    norm: nn.BatchNorm2d | None

    def tensors(self) -> list[torch.Tensor]:
        """In the file's order."""
        if self.norm is None:
            assert self.conv.bias is not None
            return [self.conv.bias, self.conv.weight]
        norm = self.norm
        assert norm.running_mean is not None and norm.running_var is not None
        return [norm.bias, norm.weight, norm.running_mean, norm.running_var, self.conv.weight]


def darknet_layers(model: nn.Module) -> list[DarknetLayer]:
    """The model's convolutions in the order in which it defines them."""
    layers: list[DarknetLayer] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            layers.append(DarknetLayer(name, module, None))
        elif isinstance(module, nn.BatchNorm2d):
            if not layers or layers[-1].norm is not None:
                raise ValueError(f"{name} follows no convolution; darknet's files have a batch norm only there")
            layers[-1] = DarknetLayer(layers[-1].name, layers[-1].conv, module)
    for layer in layers:
        if (layer.norm is None) == (layer.conv.bias is None):
            raise ValueError(f"{layer.name} must have either a bias or a batch norm, as darknet's convolutions do")
    return layers


@torch.no_grad()
def load_darknet(model: nn.Module, path: Path | str) -> None:
    """Fill the model; a file that is too short or too long leaves it as it was."""
    path = Path(path)
    data = path.read_bytes()
    start = _header_length(data, path)
    layers = darknet_layers(model)
    wanted = sum(tensor.numel() for layer in layers for tensor in layer.tensors())
    found = (len(data) - start) / 4
    if found != wanted:
        raise ValueError(
            f"{path} holds {found:.10g} numbers, but {type(model).__name__} has {wanted}: {_mismatch(layers, found)}"
        )
    numbers = torch.from_numpy(np.frombuffer(data, "<f4", offset=start).astype(np.float32))
    position = 0
    for tensor in (tensor for layer in layers for tensor in layer.tensors()):
        tensor.copy_(numbers[position : position + tensor.numel()].view_as(tensor))
        position += tensor.numel()


def save_darknet(model: nn.Module, path: Path | str, seen: int = 0) -> None:
    """Write a model as darknet does."""
    with Path(path).open("xb") as file:
        file.write(_VERSIONS.pack(*VERSION) + struct.pack("<Q", seen))
        for block in _blocks(model):
            file.write(block)


def _blocks(model: nn.Module) -> Iterator[bytes]:
    for layer in darknet_layers(model):
        for tensor in layer.tensors():
            yield tensor.detach().cpu().numpy().astype("<f4").tobytes()


def _header_length(data: bytes, path: Path) -> int:
    if len(data) < _VERSIONS.size + 8:
        raise ValueError(f"{path} is too short to be a weights file of darknet: {len(data)} bytes")
    major, minor, _ = _VERSIONS.unpack_from(data)
    if not (0 <= major < 1000 and 0 <= minor < 1000):
        raise ValueError(f"{path} is not a weights file of darknet: its version would be {major}.{minor}")
    return _VERSIONS.size + (8 if major * 10 + minor >= 2 else 4)


def _mismatch(layers: list[DarknetLayer], found: float) -> str:
    if found > sum(tensor.numel() for layer in layers for tensor in layer.tensors()):
        return "it is too long, so it is of another model or another number of classes"
    for layer in layers:
        found -= sum(tensor.numel() for tensor in layer.tensors())
        if found < 0:
            return f"it ends within {layer.name}, so it is truncated or of another model"
    return "it is of another model"
