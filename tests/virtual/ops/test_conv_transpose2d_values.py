# SPDX-License-Identifier: Apache-2.0
"""What transposed convolutions compute: against torch, with weights on the host, prepared ahead and prepared before."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.virtual.ops.image_cards import NUMERICS, card, image, in_use, pcc, put
from tt_cnn.virtual import ttnn

HEIGHT, WIDTH, BLOCK = (getattr(ttnn.TensorMemoryLayout, f"{name}_SHARDED") for name in ("HEIGHT", "WIDTH", "BLOCK"))
L1 = ttnn.Op2DSliceConfig(slice_type=ttnn.Op2DSliceConfig.SliceTypeEnum.L1Full)


@dataclass
class Case:
    sizes: tuple[int, int, int, int, int]
    """Batch, height, width, channels in and out."""
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (2, 2)
    padding: tuple[int, int] = (1, 1)
    output_padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    bias: bool = True
    mirror: bool = True
    slicing: Any = L1
    config: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        batch, height, width, channels, out = self.sizes
        weights = image(channels, out // self.groups, *self.kernel, seed=1) / channels**0.5
        return image(batch, height, width, channels), weights, image(out, seed=2) if self.bias else None

    def expected(self) -> torch.Tensor:
        x, weights, bias = self.tensors()
        if not self.mirror:
            weights = weights.flip(2, 3)
        result = F.conv_transpose2d(
            x.permute(0, 3, 1, 2),
            weights,
            bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )
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
            "dram_slice_config": self.slicing,
        }

    def given(self, device: Any) -> tuple[Any, Any, Any]:
        x, weights, bias = self.tensors()
        return (
            put(device, x.reshape(1, 1, -1, x.shape[-1]), layout=ttnn.ROW_MAJOR_LAYOUT),
            ttnn.from_torch(weights, dtype=ttnn.bfloat16),
            None if bias is None else ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=ttnn.bfloat16),
        )


SLICES = ttnn.Op2DSliceConfig(slice_type=ttnn.Op2DSliceConfig.SliceTypeEnum.DRAMSliceHeight, num_slices=3)
CASES = {
    "height": Case((1, 8, 8, 32, 32), config={"shard_layout": HEIGHT}),
    "block": Case((2, 8, 8, 64, 64), config={"shard_layout": BLOCK}),
    "width": Case((1, 8, 8, 64, 64), bias=False, config={"shard_layout": WIDTH}),
    "auto": Case((1, 10, 12, 16, 48), (2, 2), padding=(0, 0)),
    "output_padding": Case((1, 9, 7, 32, 32), output_padding=(1, 1)),
    "dilated": Case((1, 8, 8, 32, 32), (2, 3), (1, 1), dilation=(2, 2)),
    "strided_apart": Case((1, 8, 8, 32, 32), (2, 2), (3, 3), (0, 0)),
    "groups": Case((1, 8, 8, 32, 64), groups=4),
    "mirrored": Case((1, 8, 8, 32, 32), mirror=False),
    "matmul": Case((1, 8, 8, 32, 64), (1, 1), (1, 1), (0, 0)),
    "slices": Case((1, 24, 24, 32, 32), slicing=SLICES),
    "out_of_dram": Case((1, 16, 16, 32, 32), slicing=None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_are_those_of_torch(case: Case) -> None:
    with card() as device:
        x, weights, bias = case.given(device)
        options = {**case.arguments(device), "output_padding": case.output_padding, "mirror_kernel": case.mirror}
        result, size, (prepared, row) = ttnn.conv_transpose2d(
            input_tensor=x,
            weight_tensor=weights,
            bias_tensor=bias,
            return_output_dim=True,
            return_weights_and_bias=True,
            **options,
        )
        expected, found = case.expected(), ttnn.to_torch(result).float()
        assert found.shape == expected.shape and size[0] * size[1] * case.sizes[0] == expected.shape[2]
        assert pcc(found, expected) > 0.999
        again = ttnn.conv_transpose2d(input_tensor=x, weight_tensor=prepared, bias_tensor=row, **options)
        assert torch.equal(ttnn.to_torch(again).float(), found)


@pytest.mark.parametrize("numerics", NUMERICS)
def test_all_numerics_are_near_to_torch(numerics: str) -> None:
    case = CASES["height"]
    with card(numerics) as device:
        x, weights, bias = case.given(device)
        found = ttnn.conv_transpose2d(input_tensor=x, weight_tensor=weights, bias_tensor=bias, **case.arguments(device))
        assert pcc(ttnn.to_torch(found).float(), case.expected()) > 0.999


@pytest.mark.parametrize("name", ["height", "block", "width", "groups", "mirrored", "out_of_dram"])
def test_weights_prepared_ahead_are_those_of_the_call(name: str) -> None:
    case = CASES[name]
    with card() as device:
        x, weights, bias = case.given(device)
        arguments = case.arguments(device)
        _, (prepared, row) = ttnn.conv_transpose2d(
            input_tensor=x,
            weight_tensor=weights,
            bias_tensor=bias,
            return_weights_and_bias=True,
            mirror_kernel=case.mirror,
            **arguments,
        )
        ahead = {
            **arguments,
            "input_memory_config": x.memory_config(),
            "input_layout": x.layout,
            "input_dtype": x.dtype,
        }
        found = ttnn.prepare_conv_transpose2d_weights(
            weight_tensor=weights,
            weights_format="IOHW",
            has_bias=bias is not None,
            mirror_kernel=case.mirror,
            **ahead,
        )
        assert found.padded_shape == prepared.padded_shape
        assert torch.equal(ttnn.to_torch(found), ttnn.to_torch(prepared))
        if bias is not None:
            found = ttnn.prepare_conv_transpose2d_bias(bias_tensor=bias, **ahead)
            assert torch.equal(ttnn.to_torch(found), ttnn.to_torch(row))


def test_nothing_but_the_result_stays_in_l1() -> None:
    case = CASES["height"]
    with card() as device:
        x, weights, bias = case.given(device)
        start = in_use(device)
        found = ttnn.conv_transpose2d(input_tensor=x, weight_tensor=weights, bias_tensor=bias, **case.arguments(device))
        ttnn.deallocate(found)
        assert in_use(device)[0] == start[0]


def test_impossible_sizes_are_refused() -> None:
    case = Case((1, 2, 2, 32, 32), (1, 1), (1, 1), (3, 3))
    with card() as device:
        x, weights, bias = case.given(device)
        with pytest.raises(RuntimeError, match="padding"):
            ttnn.conv_transpose2d(input_tensor=x, weight_tensor=weights, bias_tensor=bias, **case.arguments(device))


def test_weights_of_another_convolution_are_refused(open_card):
    device = open_card(l1_small_size=65536)
    image = ttnn.from_torch(torch.zeros(1, 1, 40, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    weights = ttnn.from_torch(torch.zeros(32, 64, 3, 3), dtype=ttnn.bfloat16)
    sizes = {"in_channels": 64, "out_channels": 32, "batch_size": 1, "input_height": 8, "input_width": 5}
    with pytest.raises(RuntimeError, match="given to a transposed convolution"):
        ttnn.conv_transpose2d(input_tensor=image, weight_tensor=weights, device=device, kernel_size=(3, 3), **sizes)


@pytest.mark.parametrize("numerics", ["device", "native", "exact"])
@pytest.mark.parametrize("operation", ["conv2d", "conv_transpose2d"])
def test_a_kernel_of_one_pixel_multiplies_the_rows_that_there_are(open_card, numerics, operation):
    """Whatever the call says of the image's size; and the command keeps no tensor."""
    device = open_card(l1_small_size=65536, numerics=numerics)

    def product() -> None:
        x, w = (torch.randn(1, 1, 32, 32, generator=torch.Generator().manual_seed(i)).bfloat16() for i in range(2))
        image, weights = (ttnn.from_torch(v, layout=ttnn.TILE_LAYOUT, device=device) for v in (x, w))
        sizes = {"in_channels": 32, "out_channels": 32, "batch_size": 1, "input_height": 8, "input_width": 5}
        convolution = getattr(ttnn, operation)
        y = convolution(input_tensor=image, weight_tensor=weights, device=device, kernel_size=(1, 1), **sizes)
        assert torch.allclose(ttnn.to_torch(y).float(), x.float() @ w.float(), atol=0.2, rtol=0.05)

    product()
    gc.collect()
    assert not device.live
