# SPDX-License-Identifier: Apache-2.0
"""What errors of shapes say beside TT-NN's sentence. Each way out that they name is tried."""

from collections.abc import Iterator

import pytest
import torch

from tt_cnn import ttnn


@pytest.fixture
def device() -> Iterator[ttnn.MeshDevice]:
    opened = ttnn.open_device(device_id=0, l1_small_size=16384)
    yield opened
    ttnn.close_device(opened)


def on(device: ttnn.MeshDevice, *shape: int, layout: ttnn.Layout = ttnn.TILE_LAYOUT) -> ttnn.Tensor:
    return ttnn.from_torch(torch.rand(shape), dtype=ttnn.bfloat16, layout=layout, device=device)


def test_a_product_that_fits_with_an_operand_transposed_says_which(device: ttnn.MeshDevice) -> None:
    rows, columns = on(device, 1, 1, 64, 96), on(device, 1, 1, 32, 96)
    with pytest.raises(RuntimeError, match=r"width=96 height=32\n  fits: the second tensor .*transpose_b"):
        ttnn.matmul(rows, columns)
    assert tuple(ttnn.matmul(rows, columns, transpose_b=True).shape) == (1, 1, 64, 32)
    first, second = on(device, 1, 1, 64, 96), on(device, 1, 1, 64, 32)
    with pytest.raises(RuntimeError, match=r"width=96 height=64\n  fits: the first tensor .*transpose_a"):
        ttnn.matmul(first, second)
    assert tuple(ttnn.matmul(first, second, transpose_a=True).shape) == (1, 1, 96, 32)
    with pytest.raises(RuntimeError) as neither:
        ttnn.matmul(on(device, 1, 1, 64, 96), on(device, 1, 1, 32, 128))
    assert "fits" not in str(neither.value)


def test_a_concat_says_which_tensor_and_which_dimension(device: ttnn.MeshDevice) -> None:
    tensors = [on(device, 1, 1, 64, 96), on(device, 1, 1, 64, 32), on(device, 1, 1, 32, 64)]
    with pytest.raises(RuntimeError, match=r"dimension 2 of tensor 2 is 32, of tensor 0 64; along dim=3"):
        ttnn.concat(tensors, dim=3)
    with pytest.raises(RuntimeError, match=r"tensor 1 has 2 dimensions, tensor 0 has 4"):
        ttnn.concat([tensors[0], on(device, 64, 96)], dim=-1)


def test_padding_of_a_pool_says_what_it_takes(device: ttnn.MeshDevice) -> None:
    x = on(device, 1, 1, 4096, 32, layout=ttnn.ROW_MAJOR_LAYOUT)
    size = {"batch_size": 1, "input_h": 64, "input_w": 64, "channels": 32, "stride": [2, 2], "dilation": [1, 1]}
    with pytest.raises(RuntimeError, match="at most 1 above and below, 2 at the sides"):
        ttnn.max_pool2d(x, kernel_size=[2, 4], padding=[2, 2], **size)
    assert ttnn.max_pool2d(x, kernel_size=[2, 4], padding=[1, 2], **size).shape[-1] == 32
