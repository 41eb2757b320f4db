# SPDX-License-Identifier: Apache-2.0
"""Steps of a program: each writes one image. Torch runs them anywhere; `launch.py` has them on the GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from tt_cnn.virtual.engines.replay import evaluate
from tt_cnn.virtual.engines.replay.cuda.expressions import Expression
from tt_cnn.virtual.engines.replay.fp8.e4m3 import E4M3, in_units, rounded_weights, scale_of
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.fusion import Fused

WEIGHT_MULTIPLE = 16
"""Rows of weights are filled up to so many channels, so that they are read in whole vectors."""


@dataclass
class KernelCall:
    """What is computed, from which nodes, into which tensor. `run` is set for the device that it runs on."""

    fused: Fused
    tensor: Callable[[Node], torch.Tensor]
    """Where a node's values are."""
    y: torch.Tensor
    eight: torch.Tensor | None = None
    """Where the result goes a second time, in e4m3."""
    scale: float = 1.0
    """What a result in e4m3 is in units of. What only moves such numbers leaves them as they are."""
    run: Callable[[], Any] = field(init=False)

    def __post_init__(self) -> None:
        self.run = self.by_torch

    @property
    def node(self) -> Node:
        return self.fused.node

    @property
    def result(self) -> Node:
        return self.fused.result

    @property
    def x(self) -> torch.Tensor:
        return self.tensor(self.node.source)

    @property
    def other(self) -> torch.Tensor | None:
        return None if self.fused.other is None else channels_last(self.tensor(self.fused.other))

    @property
    def activation(self) -> tuple[str, tuple[float, ...]]:
        return _activation(self.fused)

    def finish(self, value: torch.Tensor) -> None:
        """The addition and the activation that follow, and the result where it belongs."""
        self.store(self.finished(value))

    def store(self, value: torch.Tensor) -> None:
        for y in (self.y,) if self.eight is None else (self.y, self.eight):
            y.copy_(in_units(value, self.scale) if y.dtype == E4M3 else value)

    def finished(self, value: torch.Tensor) -> torch.Tensor:
        other = self.other
        value = value.float()
        if other is not None and self.fused.other_first:
            value = value + other.float()
        if self.fused.activation is not None:
            value = evaluate.value_of(self.fused.activation, [value])
        if other is not None and not self.fused.other_first:
            value = value + other.float()
        return value

    def by_torch(self) -> None:
        raise NotImplementedError


class Copy(KernelCall):
    """Element-wise nodes, upsampling, and parts of a concatenation that were written elsewhere."""

    @property
    def times(self) -> tuple[int, int]:
        return tuple(self.node.params[0][2:]) if self.node.kind == "repeat" else (1, 1)

    @property
    def x(self) -> torch.Tensor:
        """A step that is only a part's copy has the part itself as its node."""
        inner = self.node.kind == "repeat" or any(self.node is one for one in self.fused.chain)
        return self.tensor(self.node.source if inner else self.node)

    def by_torch(self) -> None:
        value = self.x
        for axis, times in zip((2, 3), self.times, strict=True):
            value = value.repeat_interleave(times, axis)
        self.finish(value)


class Window(KernelCall):
    """Maximum or average."""

    def by_torch(self) -> None:
        self.finish(evaluate.value_of(self.node, [self.x.float()]))


class Mean(KernelCall):
    @property
    def x(self) -> torch.Tensor:
        return channels_last(super().x)

    def by_torch(self) -> None:
        self.finish(self.x.float().mean((2, 3), keepdim=True))


class Convolution(KernelCall):
    """Weights are converted once: `weight` as torch takes it, `matrix` as the kernel does."""

    dtype: torch.dtype

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dtype = torch.bfloat16
        self.weight, self.bias = _values(self.node)
        self.tail: Fused | None = None
        """A convolution to a single channel that takes each pixel of this one's result, which is not kept then."""
        self.columns = self.node.shape[1]
        """Channels that may be written: more than there are where the result's pixels lie further apart."""

    @property
    def result(self) -> Node:
        return self.fused.result if self.tail is None else self.tail.result

    @property
    def window(self) -> tuple[int, int, int]:
        """(channels, height, width) as the kernel takes it. Where the pixels of a row follow each other and none is
        beyond a border, a row of the window is one pixel of many channels."""
        if self.transposed:
            return self.weight.shape[0], 1, 1
        channels, height, width = self.weight.shape[1:]
        _, (_, left, _, right), (_, apart), _ = self.node.params
        if left == right == 0 and apart == 1 and self.x.stride(3) == channels and self.x.stride(1) == 1:
            return channels * width, height, 1
        return channels, height, width

    @property
    def in_eight_bits(self) -> bool:
        """Whether its input is in e4m3: then its weights are too."""
        return self.x.dtype == E4M3

    def convert(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype = dtype
        if self.in_eight_bits:
            self.weight, scales = rounded_weights(self.weight.to(device), 1 if self.transposed else 0)
            self.scales = _filled(scales * scale_of(self.node.source))
            """Of the products, a channel each."""
        else:
            memory = torch.channels_last if self.weight.dim() == 4 else torch.contiguous_format
            self.weight = self.weight.to(device, dtype).contiguous(memory_format=memory)
        self.bias = None if self.bias is None else self.bias.to(device, torch.float32)
        small = torch.zeros(self.node.shape[1], device=device) if self.bias is None else self.bias
        self.bias_of_16_bits = small.to(dtype)
        """For cuDNN. It must live as long as CUDA graphs that read it: here."""
        self.row_of_bias = None if self.bias is None else _filled(self.bias)
        """For the kernel."""

    def take(self, tail: Fused, device: torch.device) -> None:
        """Compute the tail too."""
        weight, bias = _values(tail.node)
        self.tail = tail
        self.tail_weight = _filled(weight.reshape(-1).to(device, torch.float32))
        self.tail_bias = 0.0 if bias is None else float(bias)

    @property
    def tail_activation(self) -> tuple[str, tuple[float, ...]]:
        return ("", ()) if self.tail is None else _activation(self.tail)

    @property
    def transposed(self) -> bool:
        return self.node.kind == "conv_transpose"

    @property
    def groups(self) -> int:
        return int(self.node.params[3])

    def matrix(self, neighbours: int = 1) -> torch.Tensor:
        """(places x channels, results): channels of one place of the window after the other. Transposed, and for
        several neighbours in a row of the result at once, results are those of one pixel after the other. In 8 bits
        it lies in memory a column after the other."""
        weight = self.weight.view(torch.uint8) if self.in_eight_bits else self.weight  # torch moves bytes, not e4m3
        if self.transposed:
            matrix = _filled(weight.permute(0, 2, 3, 1)).reshape(weight.shape[0], -1)
        else:
            weight = _filled(weight.permute(2, 3, 1, 0))
            pixels = [F.pad(weight, (0, 0, 0, 0, i, neighbours - 1 - i)) for i in range(neighbours)]
            matrix = torch.cat(pixels, 3).reshape(-1, neighbours * weight.shape[3])
        return matrix.t().contiguous().view(E4M3).t() if self.in_eight_bits else matrix

    def plain(self) -> torch.Tensor:
        """Torch's convolution alone; of numbers in 8 bits it is in float32, and their scales come after."""
        if self.in_eight_bits:
            value = evaluate.value_of(self.node, [self.x.float(), self.weight.float()])
            return value * self.scales[: value.shape[1], None, None]
        x, (stride, padding, dilation, groups) = self.x.to(self.dtype), self.node.params
        if self.transposed or padding[:2] != padding[2:]:
            return evaluate.value_of(self.node, [x, self.weight])
        return F.conv2d(x, self.weight, None, stride, padding[:2], dilation, groups)

    def by_torch(self) -> None:
        value = self.plain().float()
        value = self.finished(value if self.bias is None else value + self.bias[:, None, None])
        if self.tail is not None:
            value = (value * self.tail_weight[: value.shape[1], None, None]).sum(1, keepdim=True) + self.tail_bias
            if self.tail.activation is not None:
                value = evaluate.value_of(self.tail.activation, [value])
        self.store(value)


@dataclass
class Computed:
    """A node as a function of the place in it."""

    expression: Expression
    tensor: Callable[[Node], torch.Tensor]
    y: torch.Tensor
    run: Callable[[], Any] = field(init=False)

    def __post_init__(self) -> None:
        self.run = self.by_torch

    @property
    def result(self) -> Node:
        return self.expression.node

    @property
    def parameters(self) -> list[torch.Tensor]:
        return [self.tensor(node) for node in self.expression.stored]

    def by_torch(self) -> None:
        cells = self.expression.by_torch(self.parameters).expand(math.prod(self.result.shape))
        flat = self.y.permute(0, 2, 3, 1) if self.y.dim() == 4 else self.y
        flat.copy_(cells.view(flat.shape))


@dataclass
class ByTorch:
    """What has no kernel."""

    node: Node
    tensor: Callable[[Node], torch.Tensor]
    y: torch.Tensor
    dtype: torch.dtype

    def run(self) -> None:
        """Functions of single elements in float32: 18th powers of 0.1 and of what 16 bits hold of it are 2 % apart."""
        dtype = torch.float32 if self.node.kind in ("unary", "binary") else self.dtype
        self.y.copy_(evaluate.value_of(self.node, [self.tensor(one).to(dtype) for one in self.node.inputs]))


def channels_last(image: torch.Tensor) -> torch.Tensor:
    """An image as kernels take it that know no distance between channels."""
    if not lies_channels_last(image):
        raise ValueError(f"an image of shape {tuple(image.shape)} lies {image.stride()}, not with its channels last")
    return image


def lies_channels_last(image: torch.Tensor) -> bool:
    return image.stride(1) == 1 or image.shape[1] == 1


def _activation(fused: Fused) -> tuple[str, tuple[float, ...]]:
    if fused.activation is None:
        return "", ()
    name, *params = fused.activation.params
    return name, tuple(map(float, params))


def _filled(rows: torch.Tensor) -> torch.Tensor:
    return F.pad(rows, (0, -rows.shape[-1] % WEIGHT_MULTIPLE)).contiguous()


def _values(node: Node) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = node.inputs[1].value
    assert weight is not None
    return weight, node.inputs[2].value if len(node.inputs) > 2 else None


KERNEL_CALLS: dict[str, type[KernelCall]] = {
    "conv": Convolution,
    "conv_transpose": Convolution,
    "max_pool": Window,
    "avg_pool": Window,
    "repeat": Copy,
    "unary": Copy,
    "binary": Copy,
    "reduce": Mean,
}
