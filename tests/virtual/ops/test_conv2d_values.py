# SPDX-License-Identifier: Apache-2.0
"""Values of conv2d compared with torch, and weights that were prepared ahead, earlier or on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual import ttnn

L1 = ttnn.Conv2dL1FullSliceConfig
HEIGHT, BLOCK, WIDTH = (getattr(ttnn.TensorMemoryLayout, f"{name}_SHARDED") for name in ("HEIGHT", "BLOCK", "WIDTH"))


@pytest.fixture
def device() -> Iterator[Any]:
    card = ttnn.open_device(device_id=0, l1_small_size=65536)
    yield card
    ttnn.close_device(card)


@dataclass
class Case:
    sizes: tuple[int, int, int, int, int]
    """Batch, height, width, channels in and out."""
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, ...] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    bias: bool = True
    slicing: Any = L1
    layout: Any = ttnn.ROW_MAJOR_LAYOUT
    on_host: bool = False
    config: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        torch.manual_seed(0)
        batch, height, width, channels, out = self.sizes
        inner = channels // self.groups
        weights = torch.randn(out, inner, *self.kernel) / (inner * self.kernel[0] * self.kernel[1]) ** 0.5
        return torch.randn(batch, height, width, channels), weights, torch.randn(out) if self.bias else None

    def expected(self) -> torch.Tensor:
        image, weights, bias = self.tensors()
        top, bottom, left, right = (
            self.padding if len(self.padding) == 4 else [p for p in self.padding for _ in range(2)]
        )
        mode = "replicate" if self.config.get("padding_mode") is ttnn.PaddingMode.Replicate else "constant"
        padded = F.pad(image.permute(0, 3, 1, 2), (left, right, top, bottom), mode=mode)
        result = F.conv2d(padded, weights, bias, self.stride, 0, self.dilation, self.groups)
        if self.config.get("activation"):
            result = F.relu(result)
        return result.permute(0, 2, 3, 1).reshape(1, 1, -1, self.sizes[-1])

    def arguments(self, device: Any) -> dict[str, Any]:
        batch, height, width, channels, out = self.sizes
        return {
            "device": device,
            "in_channels": channels,
            "out_channels": out,
            "batch_size": batch,
            "input_height": height,
            "input_width": width,
            "kernel_size": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
            "conv_config": ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16, **self.config),
            "slice_config": self.slicing,
        }

    def given(self, device: Any) -> tuple[Any, Any, Any]:
        image, weights, bias = self.tensors()
        flat = ttnn.from_torch(image.reshape(1, 1, -1, image.shape[-1]), dtype=ttnn.bfloat16, layout=self.layout)
        return (
            flat if self.on_host else ttnn.to_device(flat, device),
            ttnn.from_torch(weights, dtype=ttnn.bfloat16),
            None if bias is None else ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=ttnn.bfloat16),
        )


TILES = ttnn.TILE_LAYOUT
RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
CASES = {
    "height": Case((1, 16, 16, 32, 64), config={"shard_layout": HEIGHT}),
    "block": Case((1, 16, 16, 48, 64), stride=(2, 2), layout=TILES, config={"shard_layout": BLOCK}),
    "width": Case((1, 16, 16, 64, 64), config={"shard_layout": WIDTH, "activation": RELU}),
    "whole_kernels": Case((1, 16, 16, 128, 64), config={"shard_layout": BLOCK, "full_inner_dim": True}),
    "depthwise": Case((2, 16, 16, 64, 64), groups=64, config={"shard_layout": HEIGHT}),
    "groups_dilated": Case((1, 16, 16, 64, 96), padding=(2, 2), dilation=(2, 2), groups=4),
    "line": Case((1, 1, 128, 64, 64), (1, 3), padding=(0, 1), groups=64, bias=False, config={"shard_layout": HEIGHT}),
    "matmul": Case((1, 16, 16, 64, 96), (1, 1), padding=(0, 0)),
    "matmul_block": Case((1, 16, 16, 64, 96), (1, 1), padding=(0, 0), config={"shard_layout": BLOCK}),
    "folded": Case((1, 32, 32, 16, 64), (4, 4), (4, 4), (0, 0)),
    "folded_out_of_dram": Case((1, 32, 32, 16, 64), (4, 4), (4, 4), (0, 0), slicing=None),
    "folded_with_rest": Case(
        (1, 31, 31, 16, 64),
        stride=(2, 2),
        padding=(1, 0, 1, 0),
        config={"shard_layout": HEIGHT, "enable_kernel_stride_folding": True},
    ),
    "slices": Case(
        (1, 64, 64, 16, 64),
        slicing=ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSliceHeight, num_slices=4),
    ),
    "from_host": Case((1, 64, 64, 3, 64), (7, 7), (2, 2), (3, 3), on_host=True),
    "rows": Case((1, 64, 64, 3, 64), (7, 7), (2, 2), (3, 3), config={"output_layout": ttnn.ROW_MAJOR_LAYOUT}),
    "repeated_border": Case(
        (1, 16, 16, 32, 64),
        padding=(1, 2, 0, 1),
        config={"shard_layout": HEIGHT, "padding_mode": ttnn.PaddingMode.Replicate},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_are_those_of_torch(case: Case, device: Any) -> None:
    image, weights, bias = case.given(device)
    output, size, (prepared, row) = ttnn.conv2d(
        input_tensor=image,
        weight_tensor=weights,
        bias_tensor=bias,
        return_output_dim=True,
        return_weights_and_bias=True,
        **case.arguments(device),
    )
    expected = case.expected()
    found = ttnn.to_torch(output).float()
    assert found.shape == expected.shape and size[0] * size[1] * case.sizes[0] == expected.shape[2]
    assert (found - expected).abs().max() < 0.25
    assert torch.corrcoef(torch.stack([found.flatten(), expected.flatten()]))[0, 1] > 0.999
    again = ttnn.conv2d(input_tensor=image, weight_tensor=prepared, bias_tensor=row, **case.arguments(device))
    assert torch.equal(ttnn.to_torch(again).float(), found)


@pytest.mark.parametrize("name", ["height", "block", "width", "depthwise", "matmul", "groups_dilated"])
def test_weights_prepared_ahead_are_those_of_the_call(name: str, device: Any) -> None:
    case = CASES[name]
    image, weights, bias = case.given(device)
    arguments = case.arguments(device)
    _, (prepared, row) = ttnn.conv2d(
        input_tensor=image, weight_tensor=weights, bias_tensor=bias, return_weights_and_bias=True, **arguments
    )
    ahead = {
        **arguments,
        "input_memory_config": image.memory_config(),
        "input_layout": image.layout,
        "input_dtype": image.dtype,
    }
    weights_ahead = ttnn.prepare_conv_weights(
        weight_tensor=weights, weights_format="OIHW", has_bias=bias is not None, **ahead
    )
    assert weights_ahead.padded_shape == prepared.padded_shape
    assert torch.equal(ttnn.to_torch(weights_ahead), ttnn.to_torch(prepared))
    bias_ahead = ttnn.prepare_conv_bias(bias_tensor=bias, **ahead)
    assert bias_ahead.padded_shape == row.padded_shape and torch.equal(ttnn.to_torch(bias_ahead), ttnn.to_torch(row))


def test_prepared_weights_stand_where_the_real_library_puts_them(device: Any) -> None:
    """Height shards: rows of the kernel one after the other, its taps with all (padded) channels each."""
    weights = torch.arange(2 * 3 * 2 * 2, dtype=torch.float32).reshape(2, 3, 2, 2)
    case = Case((1, 8, 8, 3, 2), (2, 2), padding=(0, 0), config={"shard_layout": HEIGHT})
    prepared = ttnn.prepare_conv_weights(
        weight_tensor=ttnn.from_torch(weights, dtype=ttnn.bfloat16),
        weights_format="OIHW",
        has_bias=False,
        input_memory_config=ttnn.DRAM_MEMORY_CONFIG,
        input_layout=ttnn.ROW_MAJOR_LAYOUT,
        input_dtype=ttnn.bfloat16,
        **case.arguments(device),
    )
    assert list(prepared.shape) == [1, 1, 12, 2] and list(prepared.padded_shape) == [1, 1, 64, 32]
    matrix = ttnn.to_torch(ttnn.from_device(prepared)).float()
    padded = prepared.cpu().to_torch_with_padded_shape().float().reshape(64, 32)
    for row in range(2):
        for column in range(2):
            start = row * 32 + column * 8
            assert torch.equal(padded[start : start + 3, :2], weights[:, :, row, column].T)
    assert padded.abs().sum() == weights.abs().sum() and matrix.shape[-1] == 2


def test_the_input_is_given_back_where_asked(device: Any) -> None:
    case = CASES["height"]
    image, weights, bias = case.given(device)
    image = ttnn.to_memory_config(image, ttnn.L1_MEMORY_CONFIG)
    arguments = case.arguments(device)
    arguments["conv_config"].deallocate_activation = True
    ttnn.conv2d(input_tensor=image, weight_tensor=weights, bias_tensor=bias, **arguments)
    assert not image.is_allocated()


def test_host_weights_cannot_be_part_of_a_trace(device: Any) -> None:
    case = CASES["height"]
    image, weights, bias = case.given(device)
    ttnn.conv2d(input_tensor=image, weight_tensor=weights, bias_tensor=bias, **case.arguments(device))
    trace = ttnn.begin_trace_capture(device)
    with pytest.raises(RuntimeError, match="Writes are not supported during trace capture"):
        ttnn.conv2d(input_tensor=image, weight_tensor=weights, bias_tensor=bias, **case.arguments(device))
    ttnn.end_trace_capture(device, trace)


@pytest.mark.parametrize("numerics", ["device", "exact", "native"])
@pytest.mark.parametrize("groups", [1, 2, 32])
def test_prepared_weights_of_a_folded_convolution_give_the_same_again(
    open_card: Any, numerics: str, groups: int
) -> None:
    """The matrix of folded groups is dense: its rows are those of all channels of the folded input."""
    card = open_card(l1_small_size=65536, numerics=numerics)
    torch.manual_seed(groups)
    x, weight = torch.randn(1, 32, 2, 12), torch.randn(32, 32 // groups, 2, 2)
    image = ttnn.from_torch(x.permute(0, 2, 3, 1).reshape(1, 1, 24, 32), dtype=ttnn.bfloat16, device=card)
    parameters = [ttnn.from_torch(weight, dtype=ttnn.bfloat16), None]
    found = []
    for _ in range(2):
        result, parameters[:] = ttnn.conv2d(
            input_tensor=ttnn.to_layout(image, ttnn.TILE_LAYOUT),
            weight_tensor=parameters[0],
            bias_tensor=parameters[1],
            device=card,
            in_channels=32,
            out_channels=32,
            batch_size=1,
            input_height=2,
            input_width=12,
            kernel_size=(2, 2),
            stride=(2, 2),
            padding=(0, 0),
            groups=groups,
            return_weights_and_bias=True,
        )
        found.append(ttnn.to_torch(result).float())
    expected = torch.nn.functional.conv2d(x, weight, stride=2, groups=groups).permute(0, 2, 3, 1).reshape(1, 1, 6, 32)
    assert torch.equal(found[0], found[1])
    assert (found[1] - expected).abs().max() < 0.05 * expected.abs().max()
