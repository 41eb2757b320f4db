# SPDX-License-Identifier: Apache-2.0
"""The L1 picture against the addresses that the card gave."""

import torch

from tt_cnn.reports.l1_picture import draw, l1_use
from tt_cnn.virtual import ttnn


def test_rows_tell_what_each_step_takes() -> None:
    with ttnn.manage_device(0, card="n150") as device:
        x = ttnn.from_torch(
            torch.randn(1, 1, 64, 64),
            dtype=ttnn.bfloat16,
            layout=ttnn.TILE_LAYOUT,
            device=device,
            memory_config=ttnn.L1_MEMORY_CONFIG,
        )
        with device.record_commands() as commands:
            y = ttnn.relu(x)
        (row,) = l1_use(commands, device.card)
        top = device.card.l1_size
        assert (row.call, row.step, row.cores) == ("ttnn.relu", "Unary", 64)
        assert row.tensors == top - y.buffer_address()
        assert row.buffers == 2 * 4096  # recorded: two staging buffers of two bfloat16 tiles each
        assert row.buffers + row.tensors + row.free == top - device.card.l1_base


def test_a_line_has_a_cell_for_everything_that_is_there() -> None:
    with ttnn.manage_device(0, card="n150") as device:
        x = ttnn.from_torch(torch.randn(1, 1, 64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        with device.record_commands() as commands:
            ttnn.relu(x)
        (line,) = draw(l1_use(commands, device.card), device.card, width=20)
        bar = line.split("|")[1]
        assert len(bar) == 20
        assert bar.startswith("#.") and "=" not in bar  # DRAM tensors take no L1
