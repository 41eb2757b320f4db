# SPDX-License-Identifier: Apache-2.0
"""What the convolution's kernel is given, without a GPU: its names against the kernel's signature, and its numbers by a
walk through memory as the kernel does it, against torch's convolution."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.virtual.engines.replay import cuda
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import (
    ConvolutionArguments,
    Tiles,
    Workspace,
    convolution_arguments,
)
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import Convolution
from tt_cnn.virtual.engines.replay.cuda.launches import Launches

TRITON_S_OWN = {"num_warps", "num_stages", "launch_pdl"}
ACTIVATIONS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "": lambda v, a: v,
    "Relu": lambda v, a: F.relu(v),
    "leaky_relu": F.leaky_relu,
    "mish": lambda v, a: F.mish(v),
}


class Net(nn.Module):
    """A stem of 3 channels, padding, strides, a dilation, additions before and after activations, a transposition."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.down = nn.Conv2d(3, 32, 3, 1, 1), nn.Conv2d(32, 32, 3, 2, 1)
        self.same, self.far = nn.Conv2d(32, 32, 3, 1, 1), nn.Conv2d(32, 20, 3, 1, 2, 2)
        self.point, self.up = nn.Conv2d(20, 32, 1, bias=False), nn.ConvTranspose2d(32, 20, 2, 2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        stem = F.leaky_relu(self.stem(x), 0.1)
        down = self.down(stem)
        first = F.relu(self.same(down) + down)
        second = F.mish(self.same(first)) + first
        return [self.up(self.point(F.relu(self.far(second))))]


def steps() -> Iterator[Convolution]:
    """Each, when all before it have run."""
    x = torch.randn(2, 3, 16, 24, generator=torch.Generator().manual_seed(1))
    launches = Launches(graph_of(Net(), [x]), "cpu", torch.float32)
    launches.inputs[0].copy_(x)
    with torch.no_grad():
        for step in launches.calls:
            step.run()
            if isinstance(step, Convolution):
                yield step


def arguments_of(step: Convolution, neighbours: int = 1, split: int = 1, pdl: bool = False) -> ConvolutionArguments:
    tiles = Tiles(64, 32, 32, split, 4, 4, neighbours)
    return convolution_arguments(step, step.matrix(neighbours), tiles, Workspace(torch.device("cpu")), pdl)


def memory(image: torch.Tensor) -> torch.Tensor:
    """From an image's first cell to the end: there may be room behind its last."""
    cells = image.untyped_storage().nbytes() // image.itemsize - image.storage_offset()
    return image.as_strided((cells,), (1,))


def walked(found: ConvolutionArguments) -> None:
    """What all programs of the kernel do together, but for shared sums and numbers in 8 bits."""
    k = SimpleNamespace(**found.arguments, **found.settings)
    rows, columns, channels = torch.arange(k.M), torch.arange(k.width), torch.arange(k.C)
    image, row, column = rows // k.OHW, rows % k.OHW // k.OW, rows % k.OW
    x, weights = memory(k.x), memory(k.w)
    acc = torch.zeros(k.M, k.width)
    for place in range(k.KH * k.KW):
        r = row * k.SH - k.TOP + place // k.KW * k.DH
        c = column * k.SW - k.LEFT + place % k.KW * k.DW
        inside = (r >= 0) & (r < k.H) & (c >= 0) & (c < k.W)
        assert k.BORDER or k.SCATTERED or inside.all()
        cells = (image * k.x_image + r * k.x_row + c * k.x_pixel)[:, None] + channels * k.x_channel
        values = x[torch.where(inside[:, None], cells, 0)] * inside[:, None]
        acc += values @ weights[(place * k.C + channels)[:, None] * k.w_depth + columns * k.w_column]
    channel, tap = (columns % k.TAP, columns // k.TAP) if k.TAP else (columns, columns * 0)
    known = channel < k.OC
    acc, channel, tap = acc[:, known], channel[known], tap[known]
    if k.BIAS:
        acc += memory(k.bias)[channel]
    if k.OTHER:
        there = image * k.other_image + row * k.other_row + column * k.other_pixel
        added = memory(k.other)[there[:, None] + (tap * k.other_tap if k.TAP else 0) + channel]
        acc += added * (k.OTHER == 1)
    acc = ACTIVATIONS[k.ACTIVATION](acc, k.a)
    if k.OTHER == 2:
        acc += added
    there = image * k.y_image + row * k.y_row + column * k.y_pixel
    places = tap // k.TAPS_W * k.tap_row + tap % k.TAPS_W * k.tap_pixel + channel
    memory(k.y)[there[:, None] + places] = acc


def test_the_groups_are_the_kernel_s_parameters() -> None:
    source = Path(cuda.__file__).with_name("triton_kernels.py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    parameters = next(one.args.args for one in functions if one.name == "convolution")
    found = arguments_of(next(steps()))
    assert set(found.arguments) == {one.arg for one in parameters if one.annotation is None}
    assert set(found.settings) - TRITON_S_OWN == {one.arg for one in parameters if one.annotation is not None}
    assert sum(map(len, (*found.given, *found.compiled_for))) == len(parameters) + len(TRITON_S_OWN)


@pytest.mark.parametrize("neighbours", [1, 2, 4])
def test_the_walk_through_memory_is_torch_s_convolution(neighbours: int) -> None:
    kinds = set()
    for step in steps():
        close = step.node.params[:1] == ((1, 1),) and step.node.params[2] == (1, 1) and step.window[2] > 1
        if neighbours > 1 and (step.transposed or not close):
            continue
        expected = step.y.clone()
        found = arguments_of(step, neighbours)
        if step.other is not None and step.other.data_ptr() == step.y.data_ptr():  # the result takes its place
            continue
        step.y.zero_()
        walked(found)
        torch.testing.assert_close(step.y, expected, rtol=1e-4, atol=1e-5)
        kinds.add((step.transposed, found.settings["SCATTERED"], found.settings["OTHER"]))
    assert len(kinds) >= (4 if neighbours == 1 else 2)


def test_shared_sums_have_their_cells_and_programs() -> None:
    step = next(one for one in steps() if one.window[0] == 32)
    found = arguments_of(step, split=3)
    assert found.grid[1] == found.arguments["split_k"] == 3 and found.settings["SPLIT"]
    assert found.arguments["partial"].numel() == found.grid[0] * 3 * 64 * 32


def test_weights_are_fetched_ahead_where_few_programs_share_them() -> None:
    whole = [one for one in steps() if one.window[0] % 16 == 0 and one.columns % 32 == 0]
    assert whole and all(arguments_of(one, pdl=True).settings["PREFETCH"] for one in whole)
    assert not any(arguments_of(one).settings["PREFETCH"] for one in whole)
    assert not arguments_of(next(steps()), pdl=True).settings["PREFETCH"]  # whose channels are gathered singly
