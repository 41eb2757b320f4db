# SPDX-License-Identifier: Apache-2.0
"""What heads of detectors are made of: stacks, sums over named dimensions, parts of maps, boxes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.bringup.bringing import Written, assert_comes_up, outputs_of
from tests.bringup.detection_heads import AnchorHead, DistributionHead, RandomHead
from tt_cnn import ttnn
from tt_cnn.bringup.passes import prepare
from tt_cnn.bringup.torch_graph import TorchGraph, export_graph

Forward = Callable[..., Any]


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0, l1_small_size=32768, card="n150")
    yield opened
    ttnn.close_device(opened)


def prepared(model: nn.Module, shape: tuple[int, ...]) -> TorchGraph:
    return prepare(export_graph(model.eval(), [torch.zeros(shape)]))


def ops(graph: TorchGraph) -> list[str]:
    return [node.op for node in graph.nodes]


# -- stacks

STACKS: dict[str, Forward] = {
    "first": lambda m, x: torch.stack((x, x * 2)),
    "channels": lambda m, x: torch.stack((x, F.relu(x), x + 1), 1),
    "last": lambda m, x: torch.stack((x, x.sigmoid()), -1),
    "of_tokens": lambda m, x: torch.stack((x.flatten(2).transpose(1, 2), x.flatten(2).transpose(1, 2) * 3), 2),
    "with_a_constant": lambda m, x: torch.stack((x, m.shift.expand(x.shape)), 1),
    "of_one": lambda m, x: torch.stack((x,), 2),
    "interleaved": lambda m, x: torch.stack((x[:, ::2], x[:, 1::2]), 2).flatten(1, 2),
    "of_parts": lambda m, x: torch.stack((x[:, 3], x[:, 4]), 1),
    "of_parts_the_other_way": lambda m, x: torch.stack((x[:, 4], x[:, 3]), 1),
    "of_parts_of_two": lambda m, x: torch.stack((x[:, 3], (x + 1)[:, 4]), 1),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", STACKS)
def test_stacks(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    model = Written(STACKS[name])
    model.shift = nn.Parameter(torch.randn(1, 32, 8, 8))
    assert_comes_up(model, torch.randn(batch, 32, 8, 8), device)


# -- joining before computing


def corners(m: Any, x: torch.Tensor) -> torch.Tensor:
    x = x.view(x.shape[0], 4, 8, 8, 8)
    columns, rows = torch.arange(8.0), torch.arange(8.0)[:, None].expand(8, 8)
    center = torch.sigmoid(x[:, :, 0]) + columns.expand(8, 8), torch.sigmoid(x[:, :, 1]) + rows
    half = torch.exp(x[:, :, 2:4]) / 2
    corners = [
        (center[0] - half[:, :, 0]) / 8,
        (center[1] - half[:, :, 1]) / 6,
        (center[0] + half[:, :, 0]) / 8,
        (center[1] + half[:, :, 1]) / 6,
    ]
    return torch.stack(corners, -1).reshape(x.shape[0], -1, 4)


JOINS: dict[str, tuple[Forward, bool]] = {
    "corners": (corners, True),
    "numbers": (lambda m, x: torch.stack((x[:, 0] * 2, x[:, 1] * 3), 1), True),
    "one_number": (lambda m, x: torch.stack((x[:, 0] * 2, x[:, 1] * 2), -1), True),
    "number_first": (lambda m, x: torch.stack((1 - x[:, 0], 1 - x[:, 1]), 1), True),
    "clamped": (lambda m, x: torch.stack((x[:, 5].clamp(0, 1), x[:, 6].clamp(0, 1)), 2), True),
    "clamped_otherwise": (lambda m, x: torch.stack((x[:, 5].clamp(0, 1), x[:, 6].clamp(0, 2)), 2), False),
    "powers": (lambda m, x: torch.stack((x[:, 5] ** 2, x[:, 6] ** 2), 2), True),
    "other_powers": (lambda m, x: torch.stack((x[:, 5] ** 2, x[:, 6] ** 3), 2), False),
    "bounds_of_pixels": (
        lambda m, x: torch.stack([x[:, i].clamp(max=torch.arange(8.0)) for i in range(8)], 1),
        False,
    ),
    "other_ops": (lambda m, x: torch.stack((x[:, 0].sigmoid(), x[:, 1].tanh()), 1), False),
    "out_of_order": (lambda m, x: torch.stack((x[:, 1].sigmoid(), x[:, 0].sigmoid()), 1), False),
    "along_others": (lambda m, x: torch.stack((x[:, :, 1].sigmoid(), x[:, :, :, 0].sigmoid()), 1), False),
    "alpha": (lambda m, x: torch.stack([torch.add(x[:, i], x[:, i + 1], alpha=2) for i in range(2)], 1), False),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", JOINS)
def test_what_is_treated_alike_is_joined_first(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    forward, joined = JOINS[name]
    model = Written(forward)
    selects = ops(prepared(model, (batch, 32, 8, 8))).count("select")
    assert (selects == 0) == joined
    fallbacks = 8 * int(name == "bounds_of_pixels")
    assert_comes_up(model, torch.randn(batch, 32, 8, 8), device, fallbacks=fallbacks)


def test_parts_that_others_read_are_not_computed_twice() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        one, other = x[:, 0].sigmoid(), x[:, 1].sigmoid()
        return torch.stack((one, other), 1), one, other

    assert ops(prepared(Written(forward), (1, 32, 8, 8))).count("sigmoid") == 2


# -- sums over named dimensions

EINSUMS: dict[str, Forward] = {
    "mean_of_bins": lambda m, x: torch.einsum("nskb,k->nsb", x.reshape(-1, 4, 8, 64).softmax(2), torch.arange(8.0)),
    "matmul": lambda m, x: torch.einsum("nci,ncj->nij", x.flatten(2), x.flatten(2)),
    "batch_of_channels": lambda m, x: torch.einsum("nchw,ncvw->nchv", x, x),
    "linear": lambda m, x: torch.einsum("nchw,dc->ndhw", x, m.weight),
    "linear_over_two": lambda m, x: torch.einsum("nchw,ch->nw", x, m.weight[:, :8]),
    "weight_first": lambda m, x: torch.einsum("dc,nchw->nhwd", m.weight, x),
    "to_two_dimensions": lambda m, x: torch.einsum("nchw,cde->nhwde", x, m.weight.view(32, 4, 12)),
    "outer": lambda m, x: torch.einsum("nc,nd->ncd", x.mean((2, 3)), x.amax((2, 3))),
    "scale": lambda m, x: torch.einsum("nchw,c->nchw", x, m.weight[:, 0]),
    "product": lambda m, x: torch.einsum("nchw,nchw->nhwc", x, x + 1),
    "gate": lambda m, x: torch.einsum("nchw,nc->nchw", x, x.mean((2, 3))),
    "sum": lambda m, x: torch.einsum("nchw->nc", x),
    "transpose": lambda m, x: torch.einsum("nchw->nwhc", x),
    "implicit": lambda m, x: torch.einsum("nij,njk", x.mean(1), x.amax(1)),
    "summed_alone": lambda m, x: torch.einsum("nchw,nd->nc", x, x.mean((2, 3))),
    "three": lambda m, x: torch.einsum("nchw,c,nd->nhwd", x, m.weight[:, 0], x.mean((2, 3))),
    "scores": lambda m, x: torch.einsum("nhdq,nhdk->nhqk", *[x.reshape(-1, 2, 16, 64)] * 2).softmax(-1),
    "spaces": lambda m, x: torch.einsum("n c h w , d c -> n d h w", x, m.weight),
}
REFUSED: dict[str, tuple[Forward, str]] = {
    "ellipsis": (lambda m, x: torch.einsum("...hw,hw->...h", x, m.weight[:8, :8]), "ellipsis"),
    "diagonal": (lambda m, x: torch.einsum("nchh->nch", x), "diagonal"),
    "spread": (lambda m, x: torch.einsum("nchw,nchw->nchw", x, x.mean(1, keepdim=True)), "spreads"),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", EINSUMS)
def test_einsums(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    model = Written(EINSUMS[name])
    model.weight = nn.Parameter(torch.randn(48, 32).T.contiguous() if name != "linear" else torch.randn(48, 32))
    if name in ("weight_first", "spaces"):
        model.weight = nn.Parameter(torch.randn(48, 32))
    assert_comes_up(model, torch.randn(batch, 32, 8, 8), device, least=0.998)


@pytest.mark.parametrize("name", REFUSED)
def test_other_einsums_run_on_the_host(name: str, device: Any) -> None:
    torch.manual_seed(0)
    forward, why = REFUSED[name]
    model = Written(forward)
    model.weight = nn.Parameter(torch.randn(32, 48))
    program = assert_comes_up(model, torch.randn(1, 32, 8, 8), device, fallbacks=1)
    assert why in next(note.text for note in program.notes if note.kind == "fallback")


def random_equation(chance: random.Random) -> tuple[str, list[tuple[int, ...]]]:
    sizes = {label: chance.choice((1, 2, 3, 5, 8, 32)) for label in "abcdef"}
    operands = ["".join(chance.sample("abcdef", chance.randint(1, 4))) for _ in range(chance.randint(1, 3))]
    known = sorted(set("".join(operands)))
    out = chance.sample(known, chance.randint(1, min(4, len(known))))
    return f"{','.join(operands)}->{''.join(out)}", [tuple(sizes[label] for label in own) for own in operands]


@pytest.mark.parametrize("seed", range(40))
def test_random_einsums(seed: int, device: Any) -> None:
    """Of parts of the input, and of a parameter where the seed says so."""
    chance = random.Random(seed)
    equation, shapes = random_equation(chance)
    weights = chance.randrange(3)

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        given = [m.weight.reshape(s) if i == weights and i else _part(x, i, s) for i, s in enumerate(shapes)]
        return torch.einsum(equation, *given)

    torch.manual_seed(seed)
    model = Written(forward)
    if 0 < weights < len(shapes):
        model.weight = nn.Parameter(torch.rand(shapes[weights]) + 0.5)
    size = max(torch.Size(shape).numel() for shape in shapes)
    assert_alike(model, torch.rand(1, size) + 0.5, device)


def _part(x: torch.Tensor, place: int, shape: tuple[int, ...]) -> torch.Tensor:
    return (x[:, : torch.Size(shape).numel()] * (1 + place / 4)).reshape(shape)


def assert_alike(model: nn.Module, x: torch.Tensor, device: Any) -> None:
    """By the size of the error: values that hardly vary have no PCC to speak of."""
    program, found, expected = outputs_of(model, x, device)
    assert not [note.text for note in program.notes if note.kind == "fallback"]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape
        assert (mine - theirs).norm() / theirs.norm() < 0.03


# -- products with parameters


@pytest.mark.parametrize("batch", [1, 2])
def test_products_with_a_matrix_of_parameters(batch: int, device: Any) -> None:
    torch.manual_seed(0)
    model = Written(lambda m, x: x.flatten(2).transpose(1, 2) @ m.weight)
    model.weight = nn.Parameter(torch.randn(32, 48))
    program = assert_comes_up(model, torch.randn(batch, 32, 8, 8), device)
    assert [layer.method for layer in program.layers()] == ["linear"]


# -- parts of joins and of convolutions

PARTS: dict[str, tuple[Forward, int]] = {
    "chunks": (lambda m, x: (lambda a, b: m.d(a) + b)(*m.c(x).chunk(2, 1)), 2),
    "split": (lambda m, x: (lambda a, b, c: torch.cat((a, c, b), 1))(*m.c(x).split([16, 8, 40], 1)), 3),
    "slices": (lambda m, x: torch.cat((m.c(x)[:, 32:], m.c(x)[:, :32]), 1), 2),
    "norm_and_activation": (lambda m, x: (lambda a, b: a - b)(*F.silu(m.n(m.c(x))).chunk(2, 1)), 2),
    "grouped": (lambda m, x: (lambda y: y[:, :, :4].sigmoid() * y[:, :, 4:8])(m.c(x).view(-1, 8, 8, 8, 8)), 2),
    "selected": (
        lambda m, x: (lambda y: y[:, :, 0] * y[:, :, 3] + y[:, :, 5:].mean(2))(m.c(x).view(-1, 8, 8, 8, 8)),
        3,
    ),
    "one_part_of_chunks": (lambda m, x: m.c(x).chunk(2, 1)[1] * 2, 1),
    "part_and_whole": (lambda m, x: (lambda y: torch.cat((y, y[:, :8]), 1))(m.c(x)), 1),
    "part_is_output": (lambda m, x: tuple(m.c(x).chunk(2, 1)), 2),
    "overlapping": (lambda m, x: (lambda y: y[:, :48] * y[:, 16:])(m.c(x)), 1),
    "steps": (lambda m, x: (lambda y: y[:, ::2] * y[:, 1::2])(m.c(x)), 1),
    "three_by_three": (lambda m, x: (lambda a, b: a * b)(*m.wide(x).chunk(2, 1)), 0),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_convolutions(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    forward, convolutions = PARTS[name]
    norm = nn.BatchNorm2d(64)
    norm.running_mean.data, norm.running_var.data = torch.randn(64), torch.rand(64) + 0.5
    layers = {"c": nn.Conv2d(32, 64, 1), "d": nn.Conv2d(32, 32, 3, padding=1), "wide": nn.Conv2d(32, 64, 3, padding=1)}
    model = Written(forward, n=norm, **layers)
    program = assert_comes_up(model, torch.randn(batch, 32, 8, 8), device)
    names = [layer.arguments[0].path for layer in program.layers() if layer.method == "conv2d"]
    assert names.count("c") == (2 if name == "slices" else convolutions)


CUTS: dict[str, tuple[Forward, list[str]]] = {
    "one": (lambda a, b, c: torch.cat((a, b, c), 1)[:, 8:16], ["mul"]),
    "two": (lambda a, b, c: torch.cat((a, b, c), 1)[:, 8:], ["mul", "add", "cat"]),
    "inside_one": (lambda a, b, c: torch.cat((a, b, c), 1)[:, 9:13], ["mul", "slice"]),
    "over_two": (lambda a, b, c: torch.cat((a, b, c), 1)[:, 4:12], ["slice", "mul", "slice", "cat"]),
    "from_the_end": (lambda a, b, c: torch.cat((a, b, c), 1)[:, -8:], ["add"]),
    "along_another": (lambda a, b, c: torch.cat((a, b, c), 1)[:, :, 1:], ["mul", "add", "cat", "slice"]),
    "chunks": (lambda a, b, c: (lambda x, y, z: z * y)(*torch.cat((a, b, c), 1).chunk(3, 1)), ["mul", "add", "mul"]),
    "chunks_that_cut": (
        lambda a, b, c: (lambda x, y: x * y)(*torch.cat((a, b, c), 1).chunk(2, 1)),
        ["mul", "add", "cat", "chunk", "getitem", "getitem", "mul"],
    ),
    "behind_a_view": (
        lambda a, b, c: (lambda x, y: y * 3)(*torch.cat((a, b), 1).flatten(2).split((8, 8), 1)),
        ["mul", "reshape", "mul"],
    ),
    "of_joined_views": (
        lambda a, b, c: torch.cat((torch.cat((a, b), 1).flatten(2), torch.cat((c, a), 1).flatten(2)), 2)[:, 8:],
        ["mul", "reshape", "reshape", "cat"],
    ),
    "of_joined_views_that_are_read": (
        lambda a, b, c: (lambda x: x[:, 8:] + x.mean(1, keepdim=True))(torch.cat((a, b), 1).flatten(2)),
        ["mul", "cat", "flatten", "slice", "mean", "add"],
    ),
}


@pytest.mark.parametrize("name", CUTS)
def test_slices_of_joins(name: str, device: Any) -> None:
    forward, left = CUTS[name]
    model = Written(lambda m, x: forward(x, x * 2, x + 1))
    assert sorted(ops(prepared(model, (2, 8, 4, 4)))) == sorted(left)
    assert_comes_up(model, torch.randn(2, 8, 4, 4), device)


# -- whole heads


SIZES = [(1, 16, 16), (2, 8, 16), (1, 12, 20), (2, 20, 10)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_heads_with_anchors(size: tuple[int, int, int], device: Any) -> None:
    torch.manual_seed(0)
    batch, height, width = size
    program = assert_comes_up(AnchorHead(), torch.randn(batch, 32, height, width), device)
    assert "slice" not in [layer.method for layer in program.layers()]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("style", ["einsum", "convolution"])
def test_heads_with_distributions(style: str, size: tuple[int, int, int], device: Any) -> None:
    torch.manual_seed(0)
    batch, height, width = size
    program = assert_comes_up(DistributionHead(style), torch.randn(batch, 32, height, width), device)
    methods = [layer.method for layer in program.layers()]
    assert "slice" not in methods and methods.count("grouped_softmax") == 1


@pytest.mark.parametrize("seed", range(80))
def test_random_heads(seed: int, device: Any) -> None:
    x = torch.randn(1 + seed % 2, 32, 8, 16, generator=torch.Generator().manual_seed(seed))
    assert_alike(RandomHead(seed), x, device)


EXPANDED: dict[str, Forward] = {
    "over_images": lambda m, x: x.mean((2, 3), keepdim=True).expand(-1, -1, 8, 16) * 2,
    "with_a_new_dimension": lambda m, x: x.mean((2, 3))[:, None].expand(-1, 3, -1).sigmoid(),
    "of_tokens": lambda m, x: torch.cat((x.flatten(2).mean(2, keepdim=True).expand(-1, -1, 5), x.flatten(2)), 2),
    "unbind": lambda m, x: (lambda a, b, *_: a - b)(*x.unbind(1)),
    "unbind_rows": lambda m, x: (lambda rows: rows[0] + rows[-1])(x.unbind(2)),
    "negative": lambda m, x: x[:, -3] + x[:, -1],
    "ranges": lambda m, x: x[:, 4:-4, 1:-1, ::2],
    "new_dimensions": lambda m, x: x[:, :, None, 2:4, :, None].squeeze(2).flatten(3),
    "last": lambda m, x: x[..., -1],
    "first_of_last": lambda m, x: x.flatten(2).transpose(1, 2)[..., 0],
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", EXPANDED)
def test_expanded_and_indexed(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    assert_comes_up(Written(EXPANDED[name]), torch.randn(batch, 32, 8, 16), device)
