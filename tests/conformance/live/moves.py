# SPDX-License-Identifier: Apache-2.0
"""Tensors that move in memory, alone and inside convolutions, with gaps of many sizes above them.

What the real library does is in `tests/golden/data/live_moves.json.gz`, recorded on a mocked n150 with

    tt-cnn conformance --live tests.conformance.live.moves:moves --python PYTHON --record DIR

where PYTHON has TT-NN 0.81.1 and DIR/steps_*.json.gz is the file.
"""

import itertools
import random

import torch

from tt_cnn import ttnn

SHARDINGS = (ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.TensorMemoryLayout.WIDTH_SHARDED)


def moves(device):
    """Each case begins and ends with nothing allocated."""
    draw = random.Random(19)
    for kilobytes, above in itertools.product((2, 16, 100, 500, 640), (1, 2, 15, 16, 64, 110, 300)):
        _moved(device, draw, kilobytes, above)
    for side, channels, above in itertools.product((7, 8, 14), (64, 320, 1024), (0, 1, 2, 4, 8, 40)):
        _convolved(device, draw, side, channels, above)


def _tensor(device, shape, layout=ttnn.ROW_MAJOR_LAYOUT, memory=ttnn.L1_MEMORY_CONFIG, dtype=ttnn.bfloat16):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(shape), dtype, layout, device, memory)


def _filler(device, kilobytes):
    """So many in each bank of L1."""
    return _tensor(device, [64 * kilobytes, 512])


def _moved(device, draw, kilobytes, above):
    memory = ttnn.DRAM_MEMORY_CONFIG if draw.random() < 0.2 else ttnn.L1_MEMORY_CONFIG
    layout, dtype = ttnn.ROW_MAJOR_LAYOUT, ttnn.bfloat16
    if draw.random() < 0.6:
        layout, dtype = ttnn.TILE_LAYOUT, draw.choice((ttnn.bfloat16, ttnn.bfloat8_b, ttnn.float32))
    banks = 12 if memory == ttnn.DRAM_MEMORY_CONFIG else 64
    width = draw.choice((32, 512, 544))
    rows = banks * kilobytes * 512 // width
    gap = _tensor(device, [banks * above, 512], memory=memory)
    lower = _tensor(device, [banks, 512], memory=memory)
    x = _tensor(device, [rows, width], layout, memory, dtype)
    ttnn.deallocate(gap)
    if draw.random() < 0.3:
        ttnn.deallocate(lower)
    x = (ttnn.move if draw.random() < 0.5 else ttnn.reallocate)(x)
    ttnn.deallocate(x)
    if lower.is_allocated():
        ttnn.deallocate(lower)


def _convolved(device, draw, side, channels, above):
    """Rows of an image in L1 are made tiles and given back, and the tiles move up into what has become free."""
    gap = _filler(device, above) if above else None
    lower = _filler(device, 1)
    x = _tensor(device, [1, 1, side * side, channels])
    if gap is not None:
        ttnn.deallocate(gap)
    if draw.random() < 0.5:
        ttnn.deallocate(lower)
    y = ttnn.conv2d(
        input_tensor=x,
        weight_tensor=ttnn.from_torch(torch.zeros(64, channels, 1, 1), dtype=ttnn.float32),
        device=device,
        in_channels=channels,
        out_channels=64,
        batch_size=1,
        input_height=side,
        input_width=side,
        kernel_size=(1, 1),
        stride=(1, 1),
        padding=(0, 0),
        conv_config=ttnn.Conv2dConfig(
            shard_layout=draw.choice(SHARDINGS),
            deallocate_activation=True,
            weights_dtype=ttnn.bfloat8_b,
            config_tensors_in_dram=True,
        ),
        slice_config=ttnn.Conv2dL1FullSliceConfig,
        dtype=ttnn.bfloat16,
    )
    ttnn.deallocate(y)
    if lower.is_allocated():
        ttnn.deallocate(lower)
