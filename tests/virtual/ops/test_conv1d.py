# SPDX-License-Identifier: Apache-2.0
"""conv1d against torch, and against what the real library returned on a mocked n150."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual import ttnn


@pytest.mark.parametrize("weight_rank", [3, 4])
@pytest.mark.parametrize(("batch", "stride", "groups", "length"), [(1, 1, 1, 256), (2, 2, 1, 128), (1, 1, 32, 256)])
def test_values_and_forms(weight_rank: int, batch: int, stride: int, groups: int, length: int) -> None:
    torch.manual_seed(0)
    outputs = 32 if groups > 1 else 64
    x, bias = torch.randn(batch, 256, 32), torch.randn(1, 1, 1, outputs)
    weight = torch.randn(outputs, 32 // groups, 3) / 8
    expected = torch.nn.functional.conv1d(
        x.transpose(1, 2), weight, bias.flatten(), stride=stride, padding=1, groups=groups
    )
    with ttnn.manage_device(0, card="n150", l1_small_size=65536) as device:
        output, found, (prepared, prepared_bias) = ttnn.conv1d(
            input_tensor=ttnn.from_torch(x, dtype=ttnn.bfloat16, device=device),
            weight_tensor=ttnn.from_torch(weight if weight_rank == 3 else weight.unsqueeze(2)),
            bias_tensor=ttnn.from_torch(bias),
            device=device,
            in_channels=32,
            out_channels=outputs,
            batch_size=batch,
            input_length=256,
            kernel_size=3,
            stride=stride,
            padding=1,
            groups=groups,
            return_output_dim=True,
            return_weights_and_bias=True,
        )
        # recorded: the result lies in DRAM, (1, 1, batch * length, channels); weights are 96 rows of 32 taps
        assert found == length
        assert output.shape == (1, 1, batch * length, outputs)
        assert output.memory_config() == ttnn.DRAM_MEMORY_CONFIG and output.layout is ttnn.TILE_LAYOUT
        assert prepared.shape == (1, 1, 96, outputs) and prepared_bias.shape == (1, 1, 1, outputs)
        result = ttnn.to_torch(output).float().reshape(batch, length, outputs).transpose(1, 2)
    pair = torch.stack([expected.flatten(), result.flatten()]).double()
    assert torch.corrcoef(pair)[0, 1] > 0.9999
