# SPDX-License-Identifier: Apache-2.0
"""What pools compute: against torch, over all windows; indices, errors, and what stays in memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.virtual.ops.image_cards import NUMERICS, card, image, in_use, pcc, put
from tt_cnn.virtual import ttnn

HEIGHT, WIDTH, BLOCK = (getattr(ttnn.TensorMemoryLayout, f"{name}_SHARDED") for name in ("HEIGHT", "WIDTH", "BLOCK"))


def arguments(x: torch.Tensor, **options: Any) -> dict[str, Any]:
    n, h, w, c = x.shape
    return {"batch_size": n, "input_h": h, "input_w": w, "channels": c, **options}


def pool(device: ttnn.MeshDevice, name: str, x: torch.Tensor, **options: Any) -> Any:
    flat = put(device, x.reshape(1, 1, -1, x.shape[-1]), layout=ttnn.ROW_MAJOR_LAYOUT)
    return getattr(ttnn, name)(input_tensor=flat, **arguments(x, **options))


def rows(values: torch.Tensor) -> torch.Tensor:
    """(N, C, H, W) as TT-NN gives a pool's output: a row a pixel."""
    return values.permute(0, 2, 3, 1).reshape(1, 1, -1, values.shape[1])


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    return {
        "kernel_size": kernel,
        "stride": [draw(st.integers(1, 3)) for _ in range(2)],
        "padding": [draw(st.integers(0, k // 2)) for k in kernel],
        "ceil_mode": draw(st.booleans()),
    }


SIZES = st.tuples(st.integers(1, 2), st.integers(5, 20), st.integers(5, 20), st.sampled_from([8, 16, 32, 40, 64]))


@settings(max_examples=40, deadline=None)
@given(size=SIZES, window=windows(), dilated=st.booleans(), scheme=st.sampled_from([None, HEIGHT, WIDTH, BLOCK]))
def test_maxima_are_those_of_torch(size: tuple[int, ...], window: dict[str, Any], dilated: bool, scheme: Any) -> None:
    x = image(*size)
    dilation = [2 if dilated and 2 * (k - 1) < 5 else 1 for k in window["kernel_size"]]
    expected = F.max_pool2d(x.permute(0, 3, 1, 2), dilation=dilation, **window)
    with card() as device:
        found = pool(device, "max_pool2d", x, dilation=dilation, applied_shard_scheme=scheme, **window)
        assert torch.equal(ttnn.to_torch(found).float(), rows(expected))


@settings(max_examples=40, deadline=None)
@given(size=SIZES, window=windows(), numerics=st.sampled_from(NUMERICS), counted=st.booleans())
def test_averages_are_those_of_torch(
    size: tuple[int, ...], window: dict[str, Any], numerics: str, counted: bool
) -> None:
    x = image(*size)
    expected = rows(F.avg_pool2d(x.permute(0, 3, 1, 2), count_include_pad=counted, **window))
    with card(numerics) as device:
        found = ttnn.to_torch(pool(device, "avg_pool2d", x, count_include_pad=counted, **window)).float()
        assert found.shape == expected.shape
        assert pcc(found, expected) > 0.999
        assert (found - expected).abs().max() < 0.02 * max(1.0, float(expected.abs().max()))


def test_average_with_another_divisor() -> None:
    x = image(1, 8, 8, 32)
    window = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0]}
    with card("exact") as device:
        found = ttnn.to_torch(pool(device, "avg_pool2d", x, divisor_override=8, **window)).float()
    assert pcc(found, rows(F.avg_pool2d(x.permute(0, 3, 1, 2), 2, divisor_override=8))) > 0.999


def test_asymmetric_padding_is_top_bottom_left_right() -> None:
    x = image(1, 9, 9, 32)
    padded = F.pad(x.permute(0, 3, 1, 2), (0, 1, 1, 0), value=float("-inf"))
    with card() as device:
        found = pool(device, "max_pool2d", x, kernel_size=[2, 2], stride=[2, 2], padding=[1, 0, 0, 1], dilation=[1, 1])
        assert torch.equal(ttnn.to_torch(found).float(), rows(F.max_pool2d(padded, 2, 2)))


def test_indices_name_the_pixels_of_the_maxima() -> None:
    x = image(1, 12, 12, 32)
    window = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
    value, place = F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1, return_indices=True)
    with card() as device:
        found, indices = pool(device, "max_pool2d", x, return_indices=True, **window)
        assert indices.dtype == ttnn.uint16
        assert torch.equal(ttnn.to_torch(found).float(), rows(value))
        assert torch.equal(ttnn.to_torch(indices).long(), rows(place))


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b], ids=str)
def test_outputs_can_be_tiled_and_in_blocks(dtype: ttnn.DataType) -> None:
    x = image(1, 16, 16, 64)
    window = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
    with card() as device:
        found = pool(device, "max_pool2d", x, output_layout=ttnn.TILE_LAYOUT, dtype=dtype, **window)
        assert found.layout == ttnn.TILE_LAYOUT and found.dtype == dtype
        assert pcc(ttnn.to_torch(found).float(), rows(F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1))) > 0.999


@pytest.mark.parametrize("kind", ["DRAMSliceHeight", "DRAMSliceWidth"])
def test_slices_out_of_dram_give_the_same_numbers(kind: str) -> None:
    x = image(1, 64, 64, 32)
    window = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
    slices = ttnn.Op2DSliceConfig(slice_type=ttnn.Op2DSliceConfig.SliceTypeEnum[kind], num_slices=4)
    with card() as device:
        found = pool(device, "max_pool2d", x, dram_slice_config=slices, **window)
        assert found.memory_config() == ttnn.DRAM_MEMORY_CONFIG
        expected = rows(F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1))
        assert torch.equal(ttnn.to_torch(found).float().reshape(expected.shape), expected)


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("size", [(1, 7, 7, 64), (2, 14, 14, 32), (4, 7, 7, 128)])
def test_global_averages_are_the_means_of_images(size: tuple[int, ...], numerics: str) -> None:
    x = image(*size)
    with card(numerics) as device:
        found = ttnn.global_avg_pool2d(put(device, x, layout=ttnn.TILE_LAYOUT))
        assert list(found.shape) == [size[0], 1, 1, size[3]]
        assert pcc(ttnn.to_torch(found).float(), x.mean((1, 2), keepdim=True)) > 0.999


@pytest.mark.parametrize(("name", "reference"), [("avg", F.adaptive_avg_pool2d), ("max", F.adaptive_max_pool2d)])
@pytest.mark.parametrize("output", [(1, 1), (4, 4), (8, 8), (5, 5)])
def test_adaptive_pools_are_those_of_torch(name: str, reference: Any, output: tuple[int, int]) -> None:
    x = image(1, 16, 16, 32) if output != (5, 5) else image(1, 15, 15, 32)
    with card() as device:
        found = ttnn.to_torch(pool(device, f"adaptive_{name}_pool2d", x, output_size=list(output))).float()
        assert pcc(found, rows(reference(x.permute(0, 3, 1, 2), output))) > 0.999


def test_nothing_but_the_result_stays_in_memory() -> None:
    x = image(1, 16, 16, 32)
    window = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
    with card() as device:
        start = in_use(device)
        for name in ("max_pool2d", "global_avg_pool2d"):
            result = (
                pool(device, name, x, **window)
                if name == "max_pool2d"
                else ttnn.global_avg_pool2d(put(device, x, layout=ttnn.TILE_LAYOUT))
            )
            ttnn.deallocate(result)
            assert in_use(device) == start
        sharded = pool(device, "max_pool2d", x, **window)
        again = ttnn.max_pool2d(
            input_tensor=sharded,
            batch_size=1,
            input_h=8,
            input_w=8,
            channels=32,
            deallocate_input=True,
            **window,
        )
        assert not sharded.is_allocated() and again.is_allocated()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": [3, 3], "padding": [2, 2]}, "should not exceed half of kernel size"),
        ({"kernel_size": [2, 2], "padding": [0, 0], "channels": 16}, "Shard width 16 must match"),
    ],
)
def test_impossible_pools_are_refused(options: dict[str, Any], message: str) -> None:
    x = image(1, 8, 8, 32)
    with card() as device:
        start = in_use(device)
        with pytest.raises(RuntimeError, match=message):
            pool(device, "max_pool2d", x, **{"stride": [1, 1], "dilation": [1, 1], **options})
        assert in_use(device) == start


def test_wrong_arguments_are_type_errors() -> None:
    with card() as device, pytest.raises(TypeError, match="max_pool2d"):
        ttnn.max_pool2d(input_tensor=put(device, image(1, 1, 64, 32)), kernel=3)


@pytest.mark.parametrize(("shape", "means"), [((40, 33), (0, 1)), ((8, 8, 32), (0, 1))])
def test_images_of_fewer_dimensions_are_taken_and_nothing_is_left(
    shape: tuple[int, ...], means: tuple[int, ...]
) -> None:
    x = image(*shape)
    with card() as device:
        start = in_use(device)
        source = put(device, x, layout=ttnn.TILE_LAYOUT)
        found = ttnn.global_avg_pool2d(source)
        assert (ttnn.to_torch(found).float().flatten() - x.mean(means).flatten()).abs().max() < 0.01
        ttnn.deallocate(found)
        ttnn.deallocate(source)
        assert in_use(device) == start


@pytest.mark.parametrize("numerics", NUMERICS)
def test_an_image_without_its_batch_is_averaged_alike(numerics: str) -> None:
    """It is planned as a sum over the whole image too, which keeps float32."""
    x = torch.rand(9, 7, 64, generator=torch.Generator().manual_seed(0))
    with card(numerics) as device:
        found, expected = (
            ttnn.to_torch(ttnn.global_avg_pool2d(ttnn.from_torch(one, dtype=ttnn.float32, device=device)))
            for one in (x, x[None])
        )
        assert torch.equal(found, expected)
