# SPDX-License-Identifier: Apache-2.0
"""The kernels against torch: windows of all kinds, what is taken into a step, and memory that is used again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.graph import used_inputs
from tt_cnn.virtual.engines.replay.hosts import Kernels
from tt_cnn.virtual.engines.replay.kernels.fusion import fuse

Program = Callable[[torch.Tensor], list[torch.Tensor]]


def agrees(program: Program, x: torch.Tensor, threads: int = 2, rtol: float = 1e-4) -> Kernels:
    nodes = graph_of(program, [x])
    assert used_inputs(nodes) == [0]
    host = Kernels(nodes, threads)
    other = torch.randn_like(x)
    for value in (x, other, x):  # what one run leaves behind must not be seen in the next
        found = host([value])
        with torch.no_grad():
            expected = program(value)
        for one, two in zip(expected, found, strict=True):
            scale = max(float(one.abs().max()), 1e-3)
            assert one.shape == two.shape
            torch.testing.assert_close(two / scale, one / scale, rtol=0, atol=rtol)
    return host


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([1, 3, 16, 20, 32, 48]),
    st.sampled_from([1, 7, 16, 32, 40, 70]),
    st.integers(1, 3),
    st.integers(1, 20),
    st.integers(1, 30),
    st.sampled_from([(1, 1), (3, 3), (5, 2), (7, 7)]),
    st.sampled_from([(1, 1), (2, 2), (1, 3)]),
    st.integers(0, 3),
    st.integers(1, 2),
    st.booleans(),
)
def test_convolutions_of_any_shape(
    channels: int,
    outputs: int,
    batch: int,
    height: int,
    width: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: int,
    dilation: int,
    with_bias: bool,
) -> None:
    if min(n + 2 * padding - dilation * (k - 1) for n, k in zip((height, width), kernel, strict=True)) < 1:
        return
    torch.manual_seed(0)
    weight = torch.randn(outputs, channels, *kernel)
    bias = torch.randn(outputs) if with_bias else None
    agrees(
        lambda x: [F.conv2d(x, weight, bias, stride, padding, dilation)], torch.randn(batch, channels, height, width)
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("channels", "outputs", "side", "kernel", "stride"),
    [
        (600, 70, 9, 3, 2),  # more channels than a block of weights has rows
        (1100, 130, 6, 1, 1),
        (200, 200, 17, 3, 2),  # blocks of places
        (16, 48, 40, 1, 1),  # more pixels than a part has
        (64, 64, 60, 3, 1),  # by Winograd, in many blocks
        (256, 272, 14, 3, 1),  # by Winograd, panel by panel
    ],
)
def test_convolutions_that_are_cut(
    channels: int, outputs: int, side: int, kernel: int, stride: int, threads: int
) -> None:
    torch.manual_seed(0)
    weight = torch.randn(outputs, channels, kernel, kernel) / kernel / channels**0.5
    x = torch.randn(1, channels, side, side)
    agrees(lambda x: [F.relu(F.conv2d(x, weight, stride=stride, padding=kernel // 2))], x, threads)


@pytest.mark.parametrize("channels", [5, 16, 33])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_convolutions(channels: int, stride: int) -> None:
    weight, bias = torch.randn(channels, 1, 3, 3), torch.randn(channels)
    agrees(lambda x: [F.relu6(F.conv2d(x, weight, bias, stride, 1, groups=channels))], torch.randn(2, channels, 9, 11))


@pytest.mark.parametrize(
    "window",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 13, 1, 6),
        lambda x: F.max_pool2d(x, 3, 1, 1, 2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
        lambda x: x.mean(dim=(2, 3), keepdim=True),
        lambda x: F.conv_transpose2d(x, torch.linspace(-1, 1, 18 * 20 * 4).reshape(18, 20, 2, 2), stride=2),
    ],
)
def test_other_windows(window: Callable[[torch.Tensor], torch.Tensor]) -> None:
    agrees(lambda x: [window(x)], torch.randn(2, 18, 14, 15))


ACTIVATIONS = [F.relu, lambda x: F.leaky_relu(x, 0.1), F.relu6, torch.sigmoid, F.silu, F.mish, torch.tanh]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("outputs", [16, 37])
def test_an_activation_and_an_addition_are_taken_into_the_step(
    activation: Callable[[torch.Tensor], torch.Tensor], outputs: int
) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(outputs, 16, 3, 3) / 12, torch.randn(outputs, outputs, 3, 3) / 18

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = activation(F.conv2d(x, first, padding=1))
        after = activation(F.conv2d(y, second, padding=1)) + y
        before = activation(after + F.conv2d(after, second, padding=1))
        return [before]

    x = torch.randn(1, 16, 10, 13)
    agrees(program, x)
    nodes = graph_of(program, [x])
    steps = [one for one in fuse(nodes).values() if one is not None]
    assert [one.node.kind for one in steps] == ["conv", "conv", "conv"]
    assert [(one.activation is not None, one.other is not None, one.other_first) for one in steps] == [
        (True, False, False),
        (True, True, False),
        (True, True, True),
    ]


@pytest.mark.parametrize("large", [-100.0, -30.0, 0.0, 30.0, 100.0])
def test_activations_far_from_zero(large: float) -> None:
    for activation in (torch.sigmoid, F.silu, F.mish, torch.tanh, lambda x: torch.exp(x / 2)):
        agrees(lambda x, f=activation: [f(x * 1.0001)], torch.full((1, 16, 2, 2), large), rtol=1e-6)


def test_parts_of_a_concatenation_are_written_in_place() -> None:
    weight = torch.randn(16, 16, 3, 3) / 12

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = F.relu(F.conv2d(x, weight, padding=1))
        z = F.conv2d(y, weight, padding=1)
        both = torch.cat([z, F.max_pool2d(z, 3, 1, 1), y, y], dim=1)
        return [F.conv2d(both, torch.ones(8, 64, 1, 1)), z + 1]

    host = agrees(program, torch.randn(1, 16, 12, 12))
    images = {image.buffer.shape[3] for image in host._lowering._images.values()}
    assert 64 in images


def test_memory_is_used_again_along_a_chain() -> None:
    weight = torch.randn(32, 32, 3, 3) / 17

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        for _ in range(10):
            x = F.relu(F.conv2d(x, weight, padding=1))
        return [x]

    host = agrees(program, torch.randn(1, 32, 16, 16))
    assert len(host._lowering._pool.all) <= 4


def test_views_of_an_image_outlive_later_steps() -> None:
    weight = torch.randn(16, 16, 3, 3) / 12

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = F.conv2d(x, weight, padding=1)
        seen = y[:, 2:9].permute(0, 2, 3, 1).reshape(-1, 7)
        z = F.conv2d(F.conv2d(y, weight, padding=1), weight, padding=1)
        return [torch.softmax(seen, 1) + F.conv2d(z, weight, padding=1).mean(), seen]

    agrees(program, torch.randn(1, 16, 8, 8))


def test_rearrangements_before_a_step_are_one_step() -> None:
    folded, narrow = torch.randn(24, 12, 3, 3), torch.randn(8, 10, 1, 1)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        pairs = F.pad(x, (1, 2, 3, 2)).reshape(2, 3, 8, 2, 9, 2)
        y = F.conv2d(pairs.permute(0, 1, 3, 5, 2, 4).reshape(2, 12, 8, 9), folded)  # of an input
        z = F.conv2d(y[:, 3:13].transpose(2, 3), narrow)  # of an image
        return [z, y.permute(0, 2, 3, 1)]

    host = agrees(program, torch.randn(2, 3, 11, 15))
    assert len(host._lowering.actions) == 2  # the steps, and the output as torch sees it


@pytest.mark.parametrize("shape", [(5, 40), (1, 7, 40), (2, 1, 3, 40)])
def test_products_with_weights_are_steps(shape: tuple[int, ...]) -> None:
    weight, bias = torch.randn(40, 70), torch.randn(70)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        rows = F.pad(x, (0, 0, 0, 4))
        return [F.relu(rows @ weight + bias), rows[..., :30] @ weight[:30].reshape(30, 70)]

    agrees(program, torch.randn(shape))


def test_what_torch_must_do_stands_between_steps() -> None:
    weight = torch.randn(16, 16, 1, 1)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = F.conv2d(x, weight)
        z = F.softmax(y, dim=1) * y.mean(dim=1, keepdim=True)
        return [F.conv2d(z, weight), z.reshape(2, -1)]

    agrees(program, torch.randn(2, 16, 5, 5))


@pytest.mark.parametrize("columns", [8, 16, 48, 64, 70])
def test_a_row_has_the_same_bits_however_many_rows_there_are(columns: int) -> None:
    """Compilers fuse products and sums in some of the tiles and not in others, where they are left to choose."""
    generator = torch.Generator().manual_seed(columns)
    weight = torch.randn(columns, 64, 1, 1, generator=generator)
    x = torch.randn(1, 64, 1, 29, generator=generator)

    def by_kernels(part: torch.Tensor) -> torch.Tensor:
        return Kernels(graph_of(lambda y: [F.conv2d(y, weight)], [part]), 1)([part])[0]

    whole = by_kernels(x)
    for rows in range(1, 15):
        part = x[..., :rows].contiguous()
        assert torch.equal(by_kernels(part), whole[..., :rows])
