# SPDX-License-Identifier: Apache-2.0
"""The launches for the GPU, run by torch on the CPU: its steps, its memory and its expressions against torch itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.testing.pcc import comp_pcc
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import ByTorch, Computed, Convolution, Copy, Mean, Window
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.cuda.rewrite import rewritten_for_cuda
from tt_cnn.virtual.engines.replay.graph import ordered

Model = Callable[[torch.Tensor], list[torch.Tensor]]


def compiled(model: Model, x: torch.Tensor, dtype: torch.dtype = torch.float32) -> tuple[Launches, list[torch.Tensor]]:
    """The launches for a model, and what it gives for x at its second run."""
    nodes = graph_of(model, [x])
    launches = Launches(nodes, "cpu", dtype)
    with torch.no_grad():
        for value in (x + 1, x):
            launches.inputs[0].copy_(value)
            launches.run()
    return launches, [y.clone() for y in launches.outputs()]


def kinds(launches: Launches) -> list[type]:
    return [type(step) for step in launches.calls]


class Net(nn.Module):
    """Residuals, concatenations in place, upsampling, SPP, a transposed convolution, a head with a decoder."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.down = nn.Conv2d(3, 32, 3, 1, 1), nn.Conv2d(32, 32, 3, 2, 1)
        self.point, self.wide = nn.Conv2d(32, 64, 1), nn.Conv2d(64, 32, 3, 1, 1)
        self.up, self.mix, self.classes = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(96, 32, 1), nn.Linear(32, 21)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        stem = F.mish(self.stem(x))
        down = F.leaky_relu(self.down(stem), 0.1)
        wide = F.relu(self.point(down))
        first, second = F.mish(self.wide(wide)) + down, F.relu(self.wide(wide) + down)
        pools = torch.cat([F.max_pool2d(first, 9, 1, 4), F.max_pool2d(first, 5, 1, 2), first], 1)
        head = F.silu(self.mix(pools))
        joined = torch.cat([F.interpolate(second, scale_factor=2), stem, self.up(first)], 1)
        cells = head.reshape(x.shape[0], 2, 16, -1)
        boxes = torch.cat([torch.sigmoid(cells[:, :, 1:2]) * 2 - 0.5, torch.exp(cells[:, :, 2:4]) / 3], 2)
        return [self.classes(head.mean((2, 3))), F.avg_pool2d(joined, 2), boxes.permute(0, 3, 1, 2)]


@pytest.fixture(scope="module")
def picture() -> torch.Tensor:
    return torch.randn(2, 3, 12, 16, generator=torch.Generator().manual_seed(1))


def test_a_network_gives_what_torch_gives(picture: torch.Tensor) -> None:
    net = Net()
    launches, found = compiled(net, picture)
    assert ByTorch not in kinds(launches)
    with torch.no_grad():
        for expected, value in zip(net(picture), found, strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "least"), [(torch.bfloat16, 0.999), (torch.float16, 0.99999)])
def test_16_bits_are_near(picture: torch.Tensor, dtype: torch.dtype, least: float) -> None:
    net = Net()
    launches, found = compiled(net, picture, dtype)
    assert all(step.y.dtype in (dtype, torch.float32) for step in launches.calls if isinstance(step, Convolution))
    with torch.no_grad():
        for expected, value in zip(net(picture), found, strict=True):
            assert comp_pcc(expected, value.float())[1] > least


def test_what_follows_a_convolution_is_in_its_step(picture: torch.Tensor) -> None:
    net = Net()
    launches, _ = compiled(lambda x: [F.mish(net.wide(F.relu(net.point(net.down(net.stem(x))))))], picture)
    assert kinds(launches) == [Convolution] * 4
    assert [step.activation[0] for step in launches.calls if isinstance(step, Convolution)] == ["", "", "Relu", "mish"]


def test_parts_of_a_concatenation_are_written_in_place(picture: torch.Tensor) -> None:
    net = Net()

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        down = net.down(net.stem(x))
        return [net.wide(torch.cat([F.relu(down), F.mish(down)], 1))]

    launches, (found,) = compiled(model, picture)
    first, second = (step for step in launches.calls if isinstance(step, Copy))
    assert second.y.data_ptr() - first.y.data_ptr() == 32 * 4
    torch.testing.assert_close(found, model(picture)[0].detach(), rtol=1e-4, atol=1e-5)


def test_parts_of_a_concatenation_that_others_computed_are_copied(picture: torch.Tensor) -> None:
    """A product of images is no step of its own: what is copied is the product, not what it was made of."""
    net = Net()

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        stem = net.stem(x)
        return [net.point(net.down(stem)), net.wide(torch.cat([F.relu(net.stem(x)), stem * torch.sigmoid(stem)], 1))]

    launches, found = compiled(model, picture)
    assert [kind for kind in kinds(launches) if kind is Computed]
    for expected, value in zip(model(picture), found, strict=True):
        torch.testing.assert_close(value, expected.detach(), rtol=1e-4, atol=1e-5)


def test_wide_pools_share_narrow_ones(picture: torch.Tensor) -> None:
    def model(x: torch.Tensor) -> list[torch.Tensor]:
        return [F.max_pool2d(x, size, 1, size // 2) for size in (13, 9, 5)]

    launches, found = compiled(model, picture)
    assert kinds(launches) == [Window] * 3
    for expected, value in zip(model(picture), found, strict=True):
        assert torch.equal(expected, value)


def test_a_linear_layer_is_a_convolution() -> None:
    layer = nn.Linear(24, 10)
    nodes = graph_of(lambda x: [layer(x)], [torch.zeros(3, 24)])
    assert [n.kind for n in ordered(rewritten_for_cuda(nodes)) if n.value is None] == [
        "input",
        "reshape",
        "conv",
        "reshape",
    ]


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.permute(0, 2, 3, 1).reshape(2, -1, 3)[:, 5:60:2] * 2,
        lambda x: torch.cat([x[:, :1] / 3, x[:, 1:].exp(), 1 - x.tanh()], 1).permute(0, 3, 1, 2),
        lambda x: F.pad(x.abs().sqrt(), (1, 2, 0, 3), value=0.5) + torch.arange(19.0),
        lambda x: (x.reshape(2, 3, 1, 12, 16).expand(2, 3, 2, 12, 16) - torch.ones(3, 2, 1, 1)).clamp(-1, 0.5),
        lambda x: F.hardswish(x).repeat_interleave(2, 3).flatten(1),
    ],
)
def test_an_expression_is_one_kernel(model: Callable[[torch.Tensor], torch.Tensor], picture: torch.Tensor) -> None:
    launches, (found,) = compiled(lambda x: [model(x)], picture)
    assert kinds(launches) == [Computed]
    torch.testing.assert_close(found, model(picture), rtol=1e-5, atol=1e-6)


def test_memory_is_used_again() -> None:
    convolution = nn.Conv2d(16, 16, 3, 1, 1)

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        for _ in range(6):
            x = F.relu(convolution(x))
        return [x]

    launches, _ = compiled(model, torch.randn(1, 16, 8, 8))
    assert len({step.y.data_ptr() for step in launches.calls if isinstance(step, Convolution)}) == 2


def test_four_pixels_of_few_channels_become_one() -> None:
    """Whatever the padding, and where the last pixels are beyond every window."""
    for kernel, padding, size in ((7, 3, (20, 24)), (7, 3, (23, 21)), (3, 1, (20, 24)), (2, 0, (9, 9))):
        stem = nn.Conv2d(3, 16, kernel, 2, padding)
        x = torch.randn(2, 3, *size)
        launches, (found,) = compiled(lambda v, stem=stem: [F.relu(stem(v))], x)
        assert kinds(launches) == [Computed, Convolution]
        step = launches.calls[1]
        assert isinstance(step, Convolution) and step.node.params[0] == (1, 1)
        assert step.window == (16 * step.weight.shape[3], step.weight.shape[2], 1)  # a row of the window at once
        torch.testing.assert_close(found, F.relu(stem(x)).detach(), rtol=1e-4, atol=1e-5)


def test_a_convolution_to_one_channel_is_the_tail_of_the_one_before() -> None:
    wide, one = nn.Conv2d(16, 32, 3, 1, 1), nn.Conv2d(32, 1, 1)
    x = torch.randn(2, 16, 8, 8)

    def model(v: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sigmoid(one(F.relu(wide(v))))]

    launches, (found,) = compiled(model, x)
    (step,) = launches.calls
    assert isinstance(step, Convolution) and step.tail is not None and step.tail_activation == ("Sigmoid", ())
    torch.testing.assert_close(found, model(x)[0].detach(), rtol=1e-4, atol=1e-5)
    both, outputs = compiled(lambda v: [one(F.relu(wide(v))), F.relu(wide(v))], x)  # what is an output is kept
    assert kinds(both) == [Convolution] * 2
    torch.testing.assert_close(outputs[0], one(F.relu(wide(x))).detach(), rtol=1e-4, atol=1e-5)


def test_pixels_of_odd_channels_begin_where_vectors_do() -> None:
    head = nn.Conv2d(16, 21, 1)
    x = torch.randn(1, 16, 4, 4)
    launches, (found,) = compiled(lambda v: [head(v).reshape(1, 3, 7, 16).permute(0, 1, 3, 2) * 2], x)
    step = launches.calls[0]
    assert isinstance(step, Convolution) and step.columns == step.y.stride(3) == 32
    torch.testing.assert_close(
        found, head(x).detach().reshape(1, 3, 7, 16).permute(0, 1, 3, 2) * 2, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("neighbours", [1, 2, 4])
def test_the_matrix_of_neighbours_gives_all_of_them(neighbours: int) -> None:
    convolution = nn.Conv2d(16, 32, 3, 1, 1, bias=False)
    x = torch.randn(1, 16, 4, 8)
    launches, (expected,) = compiled(lambda v: [convolution(v)], x)
    step = launches.calls[0]
    assert isinstance(step, Convolution)
    rows = F.unfold(F.pad(x, (1, neighbours, 1, 1)), (3, 2 + neighbours), stride=(1, neighbours))  # (1, c kh kw, rows)
    count = 4 * (8 // neighbours)
    across = rows.shape[2] // 4
    rows = rows.reshape(16, 3, 2 + neighbours, 4, across)[..., : 8 // neighbours].permute(3, 4, 1, 2, 0)
    product = rows.reshape(count, -1) @ step.matrix(neighbours)
    torch.testing.assert_close(product.reshape(4, 8, 32).permute(2, 0, 1), expected[0], rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_has_its_bias_and_its_places_as_columns() -> None:
    up = nn.ConvTranspose2d(16, 24, 2, 2)
    x = torch.randn(1, 16, 4, 4)
    launches, (found,) = compiled(lambda v: [F.conv_transpose2d(v, up.weight, stride=2) + up.bias[:, None, None]], x)
    (step,) = launches.calls
    assert isinstance(step, Convolution) and step.bias is not None and step.matrix().shape == (16, 4 * 32)
    torch.testing.assert_close(found, up(x).detach(), rtol=1e-4, atol=1e-5)


def test_a_card_s_padded_classifier_is_a_mean_and_a_convolution() -> None:
    """Rows are filled up to a tile, pooled values scaled twice: neither costs a step. The input lies channels first."""
    matrix, bias = torch.randn(1, 32, 16), torch.randn(1, 1, 16)

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        pooled = F.avg_pool2d(x, (3, 5)) * 15 * torch.tensor(1 / 15)
        rows = F.pad(pooled.reshape(1, 1, 2, 32), (0, 0, 0, 30))
        return [(rows.reshape(1, 32, 32) @ matrix + bias).reshape(1, 1, 32, 16)]

    x = torch.randn(2, 32, 3, 5)
    launches, (found,) = compiled(model, x)
    assert kinds(launches) == [Copy, Mean, Convolution, Computed]
    torch.testing.assert_close(found, model(x)[0], rtol=1e-4, atol=1e-5)
