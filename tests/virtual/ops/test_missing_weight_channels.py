# SPDX-License-Identifier: Apache-2.0
"""Weights with fewer input channels than the call has are filled up with zeros, as TT-NN does, whatever the numerics.

Demos pad the channels of an image for its shards and leave the weights of the first layer as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.virtual.ops.image_cards import NUMERICS, card, image, pcc, put
from tt_cnn.virtual import ttnn

HEIGHT, BLOCK, WIDTH = (getattr(ttnn.TensorMemoryLayout, f"{name}_SHARDED") for name in ("HEIGHT", "BLOCK", "WIDTH"))


@dataclass
class Case:
    channels: int
    own: int
    """Channels of the weights, of all groups together."""
    out: int = 32
    side: int = 8
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    groups: int = 1
    slicing: Any = None
    config: dict[str, Any] = field(default_factory=dict)

    def tensors(self, transposed: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        x = image(1, self.side, self.side, self.channels)
        shape = (self.own, self.out) if transposed else (self.out, self.own // self.groups)
        return x, image(*shape, self.kernel, self.kernel, seed=1) / (self.own * self.kernel)

    def expected(self) -> torch.Tensor:
        """Groups are spread out to dense weights before zeros are put behind them: of 32 channels and weights of 2
        groups with 8 channels each, TT-NN makes a matrix of 16 channels and 9 taps."""
        x, weights = self.tensors()
        dense = torch.zeros(self.out, self.channels, self.kernel, self.kernel)
        rows, inner = self.out // self.groups, self.own // self.groups
        for group in range(self.groups):
            part = slice(group * rows, (group + 1) * rows)
            dense[part, group * inner : (group + 1) * inner] = weights[part]
        return self._flat(F.conv2d(x.permute(0, 3, 1, 2), dense, None, self.stride, self.padding))

    def expected_transposed(self) -> torch.Tensor:
        x, weights = self.tensors(transposed=True)
        dense = F.pad(weights, (0, 0, 0, 0, 0, 0, 0, self.channels - self.own))
        return self._flat(F.conv_transpose2d(x.permute(0, 3, 1, 2), dense, None, self.stride, self.padding))

    @staticmethod
    def _flat(result: torch.Tensor) -> torch.Tensor:
        return result.permute(0, 2, 3, 1).reshape(1, 1, -1, result.shape[1])

    def arguments(self, device: Any) -> dict[str, Any]:
        return {
            "device": device,
            "in_channels": self.channels,
            "out_channels": self.out,
            "batch_size": 1,
            "input_height": self.side,
            "input_width": self.side,
            "kernel_size": (self.kernel, self.kernel),
            "stride": (self.stride, self.stride),
            "padding": (self.padding, self.padding),
            "dilation": (1, 1),
            "groups": self.groups,
            "conv_config": ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16, **self.config),
        }


L1 = ttnn.Conv2dL1FullSliceConfig
SLICES = ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSliceHeight, num_slices=2)
CASES = {
    "picture": Case(16, 3, config={"shard_layout": HEIGHT}, slicing=L1),
    "picture_in_tiles": Case(32, 3, config={"shard_layout": HEIGHT}, slicing=L1),
    "block": Case(64, 20, out=64, config={"shard_layout": BLOCK}, slicing=L1),
    "width": Case(64, 20, out=64, config={"shard_layout": WIDTH}, slicing=L1),
    "slices": Case(16, 3, side=16, slicing=SLICES),
    "groups": Case(32, 16, groups=2, config={"shard_layout": HEIGHT}, slicing=L1),
    "groups_without_shards": Case(64, 16, groups=4),
}


def flat(device: Any, x: torch.Tensor) -> ttnn.Tensor:
    return put(device, x.reshape(1, 1, -1, x.shape[-1]))


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_conv2d_fills_up_with_zeros(case: Case, numerics: str) -> None:
    x, weights = case.tensors()
    with card(numerics) as device:
        source = flat(device, x)
        host = ttnn.from_torch(weights, dtype=ttnn.bfloat16)
        arguments = {**case.arguments(device), "slice_config": case.slicing}
        output, (prepared, _) = ttnn.conv2d(
            input_tensor=source, weight_tensor=host, return_weights_and_bias=True, **arguments
        )
        found = ttnn.to_torch(output).float()
        expected = case.expected()
        assert found.shape == expected.shape
        assert pcc(found, expected) > 0.999 and (found - expected).abs().max() < 0.05
        for again in (prepared, ttnn.to_device(host, device)):
            output = ttnn.conv2d(input_tensor=source, weight_tensor=again, **arguments)
            assert torch.equal(ttnn.to_torch(output).float(), found)
        ahead = ttnn.prepare_conv_weights(
            weight_tensor=host,
            weights_format="OIHW",
            has_bias=False,
            input_memory_config=source.memory_config(),
            input_layout=source.layout,
            input_dtype=source.dtype,
            **arguments,
        )
        assert ahead.padded_shape == prepared.padded_shape
        output = ttnn.conv2d(input_tensor=source, weight_tensor=ahead, **arguments)
        assert torch.equal(ttnn.to_torch(output).float(), found)


@pytest.mark.parametrize(
    "case", [Case(64, 40, kernel=1, padding=0), Case(16, 3, side=16, kernel=4, stride=4, padding=0)], ids=str
)
def test_a_matmul_takes_no_fewer_channels(case: Case) -> None:
    """Recorded: kernels of one pixel, and those that are folded into one, are refused."""
    x, weights = case.tensors()
    with card() as device, pytest.raises(RuntimeError, match="width of the first tensor must be equal to the height"):
        host = ttnn.from_torch(weights, dtype=ttnn.bfloat16)
        ttnn.conv2d(input_tensor=flat(device, x), weight_tensor=host, **case.arguments(device))


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("stride", [1, 2])
def test_conv_transpose2d_fills_up_with_zeros(stride: int, numerics: str) -> None:
    case = Case(32, 8, stride=stride, config={"shard_layout": HEIGHT})
    x, weights = case.tensors(transposed=True)
    with card(numerics) as device:
        source = flat(device, x)
        arguments = {**case.arguments(device), "dram_slice_config": L1}
        output, (prepared, _) = ttnn.conv_transpose2d(
            input_tensor=source,
            weight_tensor=ttnn.from_torch(weights, dtype=ttnn.bfloat16),
            return_weights_and_bias=True,
            **arguments,
        )
        assert list(prepared.shape) == [1, 1, 8 * 9, 32]  # recorded: the weights' own channels
        found, expected = ttnn.to_torch(output).float(), case.expected_transposed()
        assert found.shape == expected.shape
        assert pcc(found, expected) > 0.999 and (found - expected).abs().max() < 0.05
        again = ttnn.conv_transpose2d(input_tensor=source, weight_tensor=prepared, **arguments)
        assert (ttnn.to_torch(again).float() - found).abs().max() < 0.01
